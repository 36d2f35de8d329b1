"""What all methods of inference share: fitting, calibration on out-of-fold examples, prediction on any grid."""

import abc
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.errors import CheckpointError, MrafnoWarning, SurrogateError
from mrafno.grids import Array, Domain, Grid
from mrafno.grids.parameters import ParameterValues
from mrafno.surrogate import checkpoint
from mrafno.surrogate.devices import find_device
from mrafno.surrogate.inference.fit import Fit as Fit
from mrafno.surrogate.inference.registry import SURROGATES
from mrafno.surrogate.operator.adapters import BuildNetwork, NetworkFactory, make_network
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.operator.spectral import Mesh
from mrafno.surrogate.options import Preset
from mrafno.surrogate.out_of_fold import OutOfFoldExamples, ProgressReporter, Watch
from mrafno.surrogate.prediction import Prediction
from mrafno.surrogate.presets import network_preset, policy_preset, split_training, suited, training_preset
from mrafno.surrogate.seeds import seed_of as seed_of
from mrafno.surrogate.seen import SeenInputs
from mrafno.surrogate.shapes import as_inputs
from mrafno.surrogate.training.batches import Batches, folds, periods, taught_levels
from mrafno.surrogate.training.divergence import detached, train_members
from mrafno.surrogate.training.loop import History
from mrafno.surrogate.training.memory import steady_memory
from mrafno.surrogate.training.objective import bounded
from mrafno.surrogate.training.policy import FitKind
from mrafno.surrogate.training.progress import FinishedShare
from mrafno.surrogate.training.settings import TrainingSettings

Units = Literal["physical", "normalised"]
#: Numbers that a layer's activations may take in one chunk of a prediction.
_CHUNK_NUMBERS = 1_000_000


class Surrogate(abc.ABC):
    """A probabilistic operator on a domain.

    A subclass has a ``name`` and implements :meth:`_fit`; arguments of its own are listed in ``own_settings``.

    Args:
        domain: the functions and grids; ``task.domain``.
        preset: ``fast`` or ``paper``; ``network`` and ``training`` change single settings of it.
        seed: of all random numbers; the same seed on the same machine gives the same bits.
        dtype: ``float32`` or ``float64``.
        device: ``auto`` (a GPU where there is one), or a torch device.
        network_factory: a function that builds a torch module of your own as the network of a member; see
            :mod:`mrafno.surrogate.operator.adapters`.
    """

    name: ClassVar[str]
    #: Whether ``network_factory`` may be given; if not, the class needs the package's own network.
    takes_network_factory: ClassVar[bool] = False
    #: Arguments that only this class has, each also an attribute; a checkpoint keeps them.
    own_settings: ClassVar[tuple[str, ...]] = ()
    #: Attributes that hold trained tensors by name; a checkpoint keeps them.
    stacks: ClassVar[tuple[str, ...]] = ("weights",)
    #: Number of networks that are trained side by side.
    members: int = 1

    def __init__(
        self,
        domain: Domain,
        *,
        preset: Preset = "fast",
        network: dict[str, Any] | None = None,
        training: dict[str, Any] | None = None,
        seed: int = 0,
        dtype: Literal["float32", "float64"] = "float32",
        device: str = "auto",
        network_factory: BuildNetwork | None = None,
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise SurrogateError(f"surrogate: the seed must be a whole number, 0 or more, got {seed!r}.")
        if self.sample_count < 1:
            raise SurrogateError(f"{self.name}: it needs at least one sample, got {self.sample_count}.")
        self.domain = domain
        self.seed = int(seed)
        self.network_settings = network_preset(preset, domain, **(network or {}))
        #: Settings whose corrections the first fit may switch off; None if the caller chose the stencil radius.
        self._optional = self.network_settings if "stencil_radius" not in (network or {}) else None
        changes, policy = split_training(training or {})
        chosen = training_preset(preset, domain, **{**self._own_training(), **changes})
        #: Early steps see at least two points for each mode.
        least = min(chosen.early_points, 1) * 2 * max(self.network_settings.modes)
        self.training = chosen.changed(early_points=max(chosen.early_points, least))
        self.policy = policy_preset(preset, domain, **policy)
        if dtype not in ("float32", "float64"):
            raise SurrogateError(f"surrogate: dtype must be float32 or float64, got {dtype!r}.")
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.device = find_device(device)
        if network_factory is not None and not self.takes_network_factory:
            raise SurrogateError(
                f"{self.name}: it needs mrafno's own network. Give network_factory to an ensemble or a point."
            )
        self.network_factory = None if network_factory is None else NetworkFactory(network_factory)
        self.normaliser: Normaliser | None = None
        self.weights: dict[str, Tensor] = {}
        self.shift = 0.0
        #: Number of out-of-fold examples, and the share of their values inside the interval of each probability.
        self.seen: SeenInputs | None = None
        self.out_of_fold_count = 0
        self.coverage: dict[str, float] = {}
        self.trained_levels: tuple[int, ...] = ()
        self.fits = 0

    def _own_training(self) -> dict[str, Any]:
        """Training settings of this class, whatever the preset."""
        return {}

    @classmethod
    def setting_names(cls) -> set[str]:
        """Names of the constructor's keyword arguments."""
        names = {*inspect.signature(cls.__init__).parameters, *inspect.signature(Surrogate.__init__).parameters}
        return names - {"self", "domain", "settings"}

    # Fitting.

    def fit(
        self,
        data: Dataset,
        *,
        kind: FitKind = "scratch",
        iterations: int | None = None,
        watch: Watch | None = None,
    ) -> Fit:
        """Train on examples.

        Args:
            data: all examples, old and new.
            kind: ``scratch``; or ``refit`` or ``update``, which start from the weights and the normaliser of the last
                fit: see :mod:`mrafno.surrogate.training.policy`. The first fit is always from scratch.
            iterations: instead of the policy's number.
            watch: called repeatedly during training, see :data:`Watch`.
        """
        if data.domain != self.domain:
            raise SurrogateError("surrogate: the examples are of another domain than the surrogate.")
        data.check_scale()
        warm = kind != "scratch" and bool(self.weights)
        settings = self.policy.settings(kind if warm else "scratch", self.training, data.sizes)
        if iterations is not None:
            settings = settings.changed(iterations=iterations)
        names = ("normaliser", "shift", "out_of_fold_count", "coverage", "trained_levels", "seen", "fits", *self.stacks)
        before = {name: getattr(self, name) for name in names}
        try:
            return self._fit_and_calibrate(data, settings, warm, watch)
        except BaseException:
            # A fit that fails or is interrupted leaves the state of the last one.
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def _fit_and_calibrate(self, data: Dataset, settings: TrainingSettings, warm: bool, watch: Watch | None) -> Fit:
        if self.normaliser is None or not warm:
            self.normaliser = Normaliser.fit(data)
        self.shift = 0.0
        if self._optional is not None and not self.fits:
            self.network_settings = suited(self._optional, data)
        seen = {taught for taught, n in zip(taught_levels(data.sizes), data.sizes, strict=True) if n}
        self.trained_levels = tuple(sorted(seen | set(self.trained_levels if warm else ())))
        out_of_fold = OutOfFoldExamples(data, folds(data.sizes, settings.out_of_fold_share, self.members, self.seed))
        batches = Batches(
            data,
            self.normaliser,
            settings,
            [[self.seed, self.fits, member] for member in range(self.members)],
            padding=self.network_settings.padding,
            out_of_fold=out_of_fold.rows,
            dtype=self.dtype,
            device=self.device,
        )
        self._report = ProgressReporter(self, out_of_fold, watch, settings.iterations)
        history = self._fit(batches, settings, warm)
        self.fits += 1
        found = out_of_fold.predict(self)
        self.shift = found.shift()
        self.seen = SeenInputs.of(data, self.normaliser)
        self.out_of_fold_count, self.coverage = found.coverage(self.shift)
        loss = float(np.mean(history.losses[-1]))
        errors = tuple(tuple(map(float, found.errors(level))) for level in range(self.domain.levels))
        rows = tuple(tuple(map(int, out_of_fold.rows_of(level))) for level in range(self.domain.levels))
        return Fit(loss, found.error(), self.shift, tuple(history.events), history, errors, rows)

    @abc.abstractmethod
    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool) -> History:
        """Train and put the stack of weights into ``self.weights``."""

    def _optimise(
        self,
        batches: Batches,
        settings: TrainingSettings,
        warm: bool,
        masks: Callable[[int], Sequence[Tensor]] | None = None,
    ) -> History:
        """Train from random weights or from those of the last fit, and keep the result in ``self.weights``."""
        network = self._started(self.weights if warm else None, settings)
        history = self._train(network, batches, settings, masks=masks)
        self.weights = detached(network)
        return history

    def _train(
        self,
        network: MemberFNO,
        batches: Batches,
        settings: TrainingSettings,
        *,
        part: tuple[float, float] = (0.0, 1.0),
        restarts: bool = True,
        **options: Any,
    ) -> History:
        """Train a network in place; progress is reported as the given part of the fit.

        With ``restarts`` a member that diverges is trained again from scratch; ``options`` go to
        :func:`mrafno.surrogate.training.divergence.train_members`.
        """

        share = FinishedShare(network, batches, settings)

        def watch(step: int, losses: list[float]) -> None:
            done = part[0] + (part[1] - part[0]) * share(step + 1)
            self._report(done, losses, network)

        def restart(member: int, times: int) -> None:
            network.initialise_member(member, seed_of(self.seed, self.fits, member, times))

        return train_members(network, batches, settings, watch=watch, restart=restart if restarts else None, **options)

    # Predicting.

    @property
    def sample_count(self) -> int:
        """Size of the sample axis of a prediction."""
        return self.members

    def predict(
        self,
        f: ArrayLike | None = None,
        level: int | None = None,
        *,
        parameters: ParameterValues | None = None,
        grid: Grid | None = None,
        units: Units = "physical",
        check: bool = True,
    ) -> Prediction:
        """Predict the outputs of inputs; ``mean`` and ``std`` of the result are ``(n, out_channels, *grid)``.

        Args:
            f: ``(n, in_channels, *grid)``, on any grid; or one function, ``(in_channels, *grid)``, or ``(*grid)`` if
                there is one channel, for which n is 1; None if inputs are parameters only.
            level: the level whose solutions are predicted, or the nearest coarser one with examples; None for the
                finest.
            parameters: ``(n, p)`` in the order of ``domain.parameters``, or a mapping from their names to one number or
                n numbers. None if f has them, as constant channels behind the functions.
            grid: of inputs and outputs; None for the level's own, or one of the inputs' shape with the domain's layout.
            units: ``normalised`` for those in which the noise is the same for all channels.
            check: issue a :class:`~mrafno.errors.MrafnoWarning` about inputs unlike those it was trained on.
        """
        if units not in get_args(Units):
            raise SurrogateError(f"surrogate: unknown units {units!r}. Choose physical or normalised.")
        f, level, mesh = self._placed(f, level, grid, parameters)
        for text in self.unlike(f) if check and units == "physical" else ():
            warnings.warn(text, MrafnoWarning, stacklevel=2)
        network, masks = self._network()
        means, log_vars = [], []
        with torch.no_grad(), steady_memory():
            for chunk in self._chunks(f, mesh, network.members):
                mean, log_var = network(chunk, mesh, level, masks=masks)
                means.append(mean.double().cpu().numpy())
                log_vars.append(bounded(log_var).double().cpu().numpy())
        mean_all, log_var_all = np.concatenate(means, axis=1), np.concatenate(log_vars, axis=1) + self.shift
        assert self.normaliser is not None
        if units == "physical":
            mean_all = self.normaliser.physical(mean_all, self.domain.dim)
            log_var_all = log_var_all + self.normaliser.log_scale
        return Prediction(mean_all, log_var_all)

    def unlike(self, f: Array) -> list[str]:
        """What of inputs ``(n, in_channels, *grid)`` was not seen in training, in sentences; none if all of it was."""
        return [] if self.seen is None or not len(f) else self.seen.outside(f, self.normaliser, self.domain)

    def features(
        self,
        f: ArrayLike | None = None,
        level: int | None = None,
        *,
        parameters: ParameterValues | None = None,
        grid: Grid | None = None,
    ) -> Array:
        """Output of the last Fourier layer, averaged over samples: ``(n, width, *grid)``; arguments as of predict."""
        f, level, mesh = self._placed(f, level, grid, parameters)
        network, masks = self._network()
        with torch.no_grad(), steady_memory():
            parts = [
                network.features(chunk, mesh, level, masks).mean(0).double().cpu().numpy()
                for chunk in self._chunks(f, mesh, network.members)
            ]
        return np.concatenate(parts)

    def inputs(
        self,
        f: ArrayLike | None = None,
        level: int | None = None,
        *,
        parameters: ParameterValues | None = None,
        grid: Grid | None = None,
    ) -> Array:
        """Inputs as one array ``(n, in_channels, *grid)``, checked; arguments as of predict."""
        level = self.domain.levels - 1 if level is None else level
        if not 0 <= level < self.domain.levels:
            raise SurrogateError(f"surrogate: unknown level {level}; it knows 0 to {self.domain.levels - 1}.")
        return as_inputs(f, self.domain, parameters, (grid or self.domain.grids[level]).shape)

    def _placed(
        self,
        f: ArrayLike | None,
        level: int | None,
        grid: Grid | None,
        parameters: ParameterValues | None = None,
    ) -> tuple[Array, int, Mesh]:
        """Checked inputs, the level to predict and the mesh of the inputs."""
        if not self.weights or self.normaliser is None:
            raise SurrogateError("surrogate: it has not been fitted. Call fit first, or load a checkpoint.")
        f = self.inputs(f, level, parameters=parameters, grid=grid)
        level = self.domain.levels - 1 if level is None else level
        grid = grid or self.domain.grids[level].resized(f.shape[2:])
        if grid.shape != f.shape[2:]:
            raise SurrogateError(f"surrogate: inputs of shape {f.shape} are not on the given grid {grid.shape}.")
        # The embedding of a level without examples is untrained: the nearest coarser trained level replaces it.
        level = max((known for known in self.trained_levels if known <= level), default=self.trained_levels[0])
        return f, level, Mesh.of(grid.axes, periods(self.domain, self.network_settings.padding))

    def _chunks(self, f: Array, mesh: Mesh, members: int) -> list[Tensor]:
        assert self.normaliser is not None
        size = max(1, _CHUNK_NUMBERS // self._numbers(mesh, members))
        x = torch.as_tensor(self.normaliser.inputs(f), dtype=self.dtype, device=self.device)
        return [x[None, i : i + size] for i in range(0, len(x), size)]

    def _numbers(self, mesh: Mesh, members: int) -> int:
        """Numbers that a layer's activations take for one input."""
        return members * max(self.network_settings.width, self.network_settings.hidden) * math.prod(mesh.shape)

    def _network(self) -> tuple[MemberFNO, Sequence[Tensor] | None]:
        """A network with the stack of weights, and its dropout masks if it has any."""
        return self._holding(self.weights), None

    def _holding(self, weights: dict[str, Tensor]) -> MemberFNO:
        network = self._blank(next(iter(weights.values())).shape[0])
        network.load_state_dict(weights, assign=True)
        return network

    def _blank(self, members: int) -> MemberFNO:
        """A network without memory for its weights."""
        with torch.device("meta"):
            return make_network(self.network_settings, members, self.dtype, self.network_factory)

    def _started(self, weights: dict[str, Tensor] | None, settings: TrainingSettings) -> MemberFNO:
        """A network to train, with a copy of these weights or randomly initialised."""
        network = make_network(self.network_settings, self.members, self.dtype, self.network_factory)
        network.level_embedding_scale = settings.level_embedding_scale
        if weights:
            network.load_state_dict(weights)
        else:
            network.initialise([seed_of(self.seed, self.fits, member) for member in range(self.members)])
        return network.to(self.device)

    # Checkpoints.

    def save(self, folder: Path | str) -> None:
        """Write a checkpoint; see :mod:`mrafno.surrogate.checkpoint`."""
        checkpoint.save(self, folder)

    @classmethod
    def load(cls, folder: Path | str, *, device: str = "auto", network_factory: BuildNetwork | None = None) -> Self:
        """Read a checkpoint of this class; ``Surrogate.load`` reads those of all classes of the package.

        Args:
            folder: of a checkpoint, or of a run, which keeps its last checkpoint inside.
            device, network_factory: as for the constructor.
        """
        classes: list[type[Surrogate]] = [*SURROGATES.values(), cls]
        kinds = {checkpoint.class_key(kind): kind for kind in classes}
        found = checkpoint.load(folder, kinds, device=device, network_factory=network_factory)
        if not isinstance(found, cls):
            raise CheckpointError(
                f"checkpoint {folder}: it holds a surrogate of the class {type(found).__name__}, not {cls.__name__}. "
                "Read it with Surrogate.load."
            )
        return found
