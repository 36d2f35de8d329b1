"""What every way of inference shares: fitting, held-in examples and calibration, prediction on any grid."""

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.errors import CheckpointError, SurrogateError
from mrafno.grids import Array, Domain, Grid
from mrafno.run.kinds import Preset
from mrafno.surrogate.operator.adapters import Build, MemberModules, Model
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.operator.spectral import Mesh
from mrafno.surrogate.out_of_fold import OutOfFoldExamples, Reporter, Watch
from mrafno.surrogate.prediction import Prediction
from mrafno.surrogate.presets import network_preset, suited, training_preset
from mrafno.surrogate.shapes import as_functions
from mrafno.surrogate.training.batches import Batches, folds, periods
from mrafno.surrogate.training.divergence import make_up, refuse_broken
from mrafno.surrogate.training.loop import History, TrainingSettings, adam, train
from mrafno.surrogate.training.memory import steady_memory
from mrafno.surrogate.training.objective import bounded, network_objective
from mrafno.surrogate.training.optimiser import Optimiser

Units = Literal["physical", "normalised"]
#: Numbers that a layer's activations may take in one chunk of a prediction.
_CHUNK_NUMBERS = 1_000_000


@dataclass(frozen=True)
class Fit:
    """What a fit ended with.

    Attributes:
        loss: mean over members of the last minibatch losses.
        held_in_error: mean relative L2 of single networks on the examples each left out, on the finest level that has
            some (the ensemble's own error is smaller); NaN if nothing was held in.
        shift: what calibration added to the log-variances.
        events: restarts and the like, in words.
        held_in_bound: what that mean is below with 95 % confidence, on the finest level of all; NaN if too few
            examples were held in to say.
    """

    loss: float
    out_of_fold_error: float
    shift: float
    events: tuple[str, ...] = ()
    history: History = field(default_factory=History, compare=False, repr=False)
    out_of_fold_bound: float = math.nan


class Surrogate(abc.ABC):
    """A probabilistic operator on a domain.

    Args:
        domain: the functions and grids; ``task.domain``.
        preset: ``fast`` or ``paper``; ``network`` and ``training`` change single settings of it.
        seed: the source of all randomness; the same seed on the same machine gives the same bits.
        dtype: ``float32`` or ``float64``.
        device: ``auto`` (a GPU where there is one), or a torch device.
        model: builds a module of your own to serve as the network; see :mod:`mrafno.surrogate.operator.adapters`.
    """

    name: ClassVar[str]
    #: Whether ``model`` may be given: the others reach into the network's layers and weights.
    takes_model: ClassVar[bool] = False
    #: Constructor arguments and attributes that only this way of inference has.
    own_settings: ClassVar[tuple[str, ...]] = ()
    #: Attributes that hold what was learnt, as tensors by name.
    stacks: ClassVar[tuple[str, ...]] = ("weights",)
    #: Networks that are trained side by side.
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
        model: Build | None = None,
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise SurrogateError(f"surrogate: the seed must be a whole number, 0 or more, got {seed!r}.")
        if self.sample_count < 1:
            raise SurrogateError(f"{self.name}: it needs at least one sample, got {self.sample_count}.")
        self.domain = domain
        self.seed = int(seed)
        self.network_settings = network_preset(preset, domain, **(network or {}))
        #: What the first fit may leave out if its examples do not suit it; a person's own wish stays.
        self._optional = self.network_settings if "stencil_radius" not in (network or {}) else None
        self.training = training_preset(preset, domain, **{**self._own_training(), **(training or {})})
        if dtype not in ("float32", "float64"):
            raise SurrogateError(f"surrogate: dtype must be float32 or float64, got {dtype!r}.")
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        if model is not None and not self.takes_model:
            raise SurrogateError(f"{self.name}: it needs mrafno's own network. Give model to an ensemble or a point.")
        self.model = None if model is None else Model(model)
        self.normaliser: Normaliser | None = None
        self.weights: dict[str, Tensor] = {}
        self.shift = 0.0
        #: Examples that networks left out, and the share of their values inside the intervals of each probability.
        self.out_of_fold = 0
        self.coverage: dict[str, float] = {}
        self.trained_levels: tuple[int, ...] = ()
        self.fits = 0

    def _own_training(self) -> dict[str, Any]:
        """Settings that a way of inference has whatever the preset."""
        return {}

    # Fitting.

    def fit(
        self,
        data: Dataset,
        *,
        warm: bool = False,
        brief: bool = False,
        iterations: int | None = None,
        watch: Watch | None = None,
    ) -> Fit:
        """Learn from examples.

        Args:
            data: all examples, old and new.
            warm: go on from the weights and the normaliser of the last fit instead of from the beginning.
            brief: if warm, only take in what is new, in few iterations at a low rate; if not, a short course.
            iterations: instead of the settings' own number.
            watch: called now and then, see :data:`Watch`.
        """
        if data.domain != self.domain:
            raise SurrogateError("surrogate: the examples are of another domain than the surrogate.")
        warm = warm and bool(self.weights)
        settings = self.training.of_fit(data.sizes, warm=warm, brief=brief)
        if iterations is not None:
            settings = settings.changed(iterations=iterations)
        before = {
            name: getattr(self, name)
            for name in ("normaliser", "shift", "out_of_fold", "coverage", "trained_levels", "fits", *self.stacks)
        }
        try:
            return self._fit_and_calibrate(data, settings, warm, watch)
        except BaseException:
            # A fit that fails or is interrupted leaves the model of the last one.
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def _fit_and_calibrate(self, data: Dataset, settings: TrainingSettings, warm: bool, watch: Watch | None) -> Fit:
        if self.normaliser is None or not warm:
            self.normaliser = Normaliser.fit(data)
        self.shift = 0.0
        if self._optional is not None and not self.fits:
            self.network_settings = suited(self._optional, data)
        seen = {level for level, n in enumerate(data.sizes) if n}
        self.trained_levels = tuple(sorted(seen | set(self.trained_levels if warm else ())))
        out_of_fold = OutOfFoldExamples(data, folds(data.sizes, settings.out_of_fold, self.members, self.seed))
        batches = Batches(
            data,
            self.normaliser,
            settings,
            [[self.seed, self.fits, member] for member in range(self.members)],
            out_of_fold=out_of_fold.rows,
            dtype=self.dtype,
            device=self.device,
        )
        self._report = Reporter(self, out_of_fold, watch, settings.iterations)
        history = self._fit(batches, settings, warm)
        self.fits += 1
        answers = out_of_fold.ask(self)
        self.shift = answers.shift()
        self.out_of_fold, self.coverage = answers.coverage(self.shift)
        return Fit(
            float(np.mean(history.losses[-1])),
            answers.error(),
            self.shift,
            tuple(history.events),
            history,
            answers.bound(),
        )

    @abc.abstractmethod
    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool) -> History:
        """Train and put the stack of weights into ``self.weights``."""

    def _train(
        self,
        network: MemberFNO,
        batches: Batches,
        settings: TrainingSettings,
        *,
        objective: Callable[[], Tensor] | None = None,
        optimiser: Optimiser | None = None,
        after_step: Callable[[int], None] | None = None,
        part: tuple[float, float] = (0.0, 1.0),
        masks: Callable[[int], Sequence[Tensor]] | None = None,
        restarts: bool = True,
    ) -> History:
        """One course of training, reporting as the given part of the whole work.

        With ``restarts`` a member that diverges begins anew, and in the end has a whole course of its own.
        """

        def watch(step: int, losses: list[float]) -> None:
            done = part[0] + (part[1] - part[0]) * (step + 1) / settings.iterations
            self._report(done, losses, network)

        def restart(member: int, times: int) -> None:
            network.initialise_member(member, seed_of(self.seed, self.fits, member, times))

        def course(rate: float, optimiser: Optimiser | None) -> History:
            chosen = settings.changed(rate=rate)
            return train(
                objective or network_objective(network, batches, settings.loss, masks),
                optimiser or adam(network, chosen),
                chosen,
                watch=watch,
                restart=restart if restarts else None,
                after_step=after_step,
            )

        history = course(settings.rate, optimiser)
        if restarts:
            make_up(network, history, settings, lambda rate: course(rate, None), restart)
        refuse_broken(network, settings)
        return history

    # Predicting.

    @property
    def sample_count(self) -> int:
        """Size of the sample axis of a prediction."""
        return self.members

    def predict(
        self, f: ArrayLike, level: int | None = None, *, grid: Grid | None = None, units: Units = "physical"
    ) -> Prediction:
        """Predict the outputs of inputs; ``mean`` and ``std`` of the result are ``(n, out_channels, *grid)``.

        Args:
            f: ``(n, in_channels, *grid)``, on any grid; or one function, ``(in_channels, *grid)``, or ``(*grid)`` if
                there is one channel, for which n is 1.
            level: the resolution whose solver is imitated, or the nearest below it that had examples; None for the
                finest.
            grid: where the inputs are given and outputs are wanted, any grid; None for the level's own, or, if the
                inputs have another shape, a grid of that shape with the domain's layout.
            units: ``normalised`` for those in which the noise is the same for all channels.
        """
        if units not in get_args(Units):
            raise SurrogateError(f"surrogate: unknown units {units!r}. Choose physical or normalised.")
        f, level, mesh = self._placed(f, level, grid)
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

    def features(self, f: ArrayLike, level: int | None = None, *, grid: Grid | None = None) -> Array:
        """Output of the last Fourier layer, averaged over samples: ``(n, width, *grid)``; arguments as of predict."""
        f, level, mesh = self._placed(f, level, grid)
        network, masks = self._network()
        with torch.no_grad(), steady_memory():
            parts = [
                network.features(chunk, mesh, level, masks).mean(0).double().cpu().numpy()
                for chunk in self._chunks(f, mesh, network.members)
            ]
        return np.concatenate(parts)

    def _placed(self, f: ArrayLike, level: int | None, grid: Grid | None) -> tuple[Array, int, Mesh]:
        """Check inputs, and find the level and the mesh they are on."""
        if not self.weights or self.normaliser is None:
            raise SurrogateError("surrogate: it has not been fitted. Call fit first, or load a checkpoint.")
        f = as_functions(f, self.domain)
        level = self.domain.levels - 1 if level is None else level
        if not 0 <= level < self.domain.levels:
            raise SurrogateError(f"surrogate: unknown level {level}; it knows 0 to {self.domain.levels - 1}.")
        grid = grid or Grid(f.shape[2:], self.domain.grids[level].layout)
        if grid.shape != f.shape[2:]:
            raise SurrogateError(f"surrogate: inputs of shape {f.shape} are not on the given grid {grid.shape}.")
        # A resolution without examples has an embedding that nobody trained: the nearest one below it stands in.
        level = max((known for known in self.trained_levels if known <= level), default=self.trained_levels[0])
        return f, level, Mesh.of(grid.axes, periods(self.domain))

    def _chunks(self, f: Array, mesh: Mesh, members: int) -> list[Tensor]:
        assert self.normaliser is not None
        width = max(self.network_settings.width, self.network_settings.hidden)
        size = max(1, _CHUNK_NUMBERS // (members * width * math.prod(mesh.shape)))
        x = torch.as_tensor(self.normaliser.inputs(f), dtype=self.dtype, device=self.device)
        return [x[None, i : i + size] for i in range(0, len(x), size)]

    def _network(self) -> tuple[MemberFNO, Sequence[Tensor] | None]:
        """A network that holds the stack of weights, and the masks that go with it."""
        return self._holding(self.weights), None

    def _holding(self, weights: dict[str, Tensor]) -> MemberFNO:
        members = next(iter(weights.values())).shape[0]
        network = self._blank(members)
        network.load_state_dict(weights, assign=True)
        return network

    def _blank(self, members: int) -> MemberFNO:
        with torch.device("meta"):
            return self._made(members)

    def _made(self, members: int) -> MemberFNO:
        """A network with all weights zero: the one place that knows whether it is a person's own."""
        if self.model is None:
            return MemberFNO(self.network_settings, members, self.dtype)
        # The same calls, other weights.
        return cast(MemberFNO, MemberModules(self.network_settings, self.model, members, self.dtype))

    def _started(self, weights: dict[str, Tensor] | None, settings: TrainingSettings) -> MemberFNO:
        """A network to train: with a copy of these weights, or freshly initialised."""
        network = self._made(self.members)
        network.level_embedding_scale = settings.level_embedding_scale
        if weights:
            network.load_state_dict(weights)
        else:
            network.initialise([seed_of(self.seed, self.fits, member) for member in range(self.members)])
        return network.to(self.device)

    # Keeping.

    def save(self, folder: Path | str) -> None:
        """Write a checkpoint; see :mod:`mrafno.surrogate.checkpoint`."""
        from mrafno.surrogate import checkpoint  # it imports every way of inference, and they this module

        checkpoint.save(self, folder)

    @classmethod
    def load(cls, folder: Path | str, *, device: str = "auto", model: Build | None = None) -> Self:
        """Read a checkpoint of this way of inference; ``Surrogate.load`` reads one of any.

        Args:
            folder: of a checkpoint, or of a run, which keeps its last checkpoint inside.
            device, model: as for a new one.
        """
        from mrafno.surrogate import checkpoint

        found = checkpoint.load(folder, device=device, model=model)
        if not isinstance(found, cls):
            raise CheckpointError(f"checkpoint {folder}: it holds {found.name} inference. Read it with Surrogate.load.")
        return found


def seed_of(*parts: int) -> int:
    """One number from several, for torch's generators."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint32)[0])
