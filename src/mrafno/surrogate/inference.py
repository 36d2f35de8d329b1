"""Five ways to infer a network from examples, behind one protocol: ``fit``, then ``predict`` gives a Prediction.

========  =====================================================================================  =================
name      what a sample is                                                                       samples
========  =====================================================================================  =================
ensemble  a network of its own: initialisation, minibatches                                      ``members`` = 5
point     the network                                                                            1
dropout   the network with a random part of its channels off (Gal & Ghahramani, 2016)            ``samples`` = 20
sgld      a state of stochastic gradient Langevin dynamics (Welling & Teh, 2011)                 ``samples`` = 20
svi       a draw from a factorised Gaussian posterior (Kingma & Welling, 2014)                   ``samples`` = 20
========  =====================================================================================  =================

Whatever the way, the result is a stack of weights with the sample axis in front (dropout adds its masks), so that
prediction, checkpoints and features are written once.
"""

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from mrafno.dataset import Dataset, Normaliser
from mrafno.errors import SurrogateError
from mrafno.grids import Array, Domain, Grid, relative_l2
from mrafno.records import Prediction
from mrafno.surrogate.calibration import best_shift
from mrafno.surrogate.network import MemberFNO, NetworkSettings
from mrafno.surrogate.presets import Preset, network_preset, training_preset
from mrafno.surrogate.spectral import Mesh
from mrafno.surrogate.training import (
    Batches,
    History,
    TrainingSettings,
    adam,
    bounded,
    network_objective,
    periods,
    train,
)

Units = Literal["physical", "normalised"]
#: Called with the share of the work done, the mean loss and the held-in relative error (NaN if nothing is held in).
Watch = Callable[[float, float, float], None]

#: Numbers that a layer's activations may take in one chunk of a prediction.
_CHUNK_NUMBERS = 6_000_000


@dataclass(frozen=True)
class Fit:
    """What a fit ended with.

    Attributes:
        loss: mean over members of the last minibatch losses.
        held_in_error: mean relative L2 of the sample mean on held-in examples of the finest level that has some; NaN
            if nothing was held in.
        shift: what calibration added to the log-variances.
        events: restarts and the like, in words.
    """

    loss: float
    held_in_error: float
    shift: float
    events: tuple[str, ...] = ()
    history: History = field(default_factory=History, compare=False, repr=False)


class Surrogate(abc.ABC):
    """A probabilistic operator on a domain.

    Args:
        domain: the functions and grids; ``task.domain``.
        preset: ``fast`` or ``paper``; ``network`` and ``training`` change single settings of it.
        seed: the source of all randomness; the same seed on the same machine gives the same bits.
        dtype: ``float32`` or ``float64``.
        device: ``auto`` (a GPU where there is one), or a torch device.
    """

    name: ClassVar[str]
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
    ) -> None:
        self.domain = domain
        self.seed = seed
        self.network_settings = network_preset(preset, domain, **(network or {}))
        self.training = training_preset(preset, domain, **{**self._own_training(), **(training or {})})
        if dtype not in ("float32", "float64"):
            raise SurrogateError(f"surrogate: dtype must be float32 or float64, got {dtype!r}.")
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        self.normaliser: Normaliser | None = None
        self.weights: dict[str, Tensor] = {}
        self.shift = 0.0
        self.fits = 0

    def _own_training(self) -> dict[str, Any]:
        """Settings that a way of inference needs whatever the preset."""
        return {}

    # Fitting.

    def fit(
        self, data: Dataset, *, warm: bool = False, iterations: int | None = None, watch: Watch | None = None
    ) -> Fit:
        """Learn from examples.

        Args:
            data: all examples, old and new.
            warm: go on from the weights and the normaliser of the last fit instead of from the beginning.
            iterations: instead of the settings' own number.
            watch: called now and then, see :data:`Watch`.
        """
        if data.domain != self.domain:
            raise SurrogateError("surrogate: the examples are of another domain than the surrogate.")
        settings = self.training if iterations is None else self.training.changed(iterations=iterations)
        warm = warm and bool(self.weights)
        training, held_in = split(data, settings.validation, self.seed)
        if self.normaliser is None or not warm:
            self.normaliser = Normaliser.fit(training)
        self.shift = 0.0
        batches = Batches(
            training,
            self.normaliser,
            settings,
            [[self.seed, self.fits, member] for member in range(self.members)],
            dtype=self.dtype,
            device=self.device,
        )
        self._held_in, self._watch = held_in, watch
        history = self._fit(batches, settings, warm, len(training))
        self.fits += 1
        error = self.held_in_error(held_in)
        self.shift = self.calibrate(held_in)
        return Fit(float(np.mean(history.losses[-1])), error, self.shift, tuple(history.events), history)

    @abc.abstractmethod
    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool, examples: int) -> History:
        """Train and put the stack of weights into ``self.weights``."""

    def calibrate(self, held_in: Dataset) -> float:
        """The shift of the log-variances under which examples that were not trained on are most likely."""
        pairs = []
        for level, (f, y) in enumerate(zip(held_in.inputs, held_in.outputs, strict=True)):
            if len(f):
                prediction = self.predict(f, level, units="normalised")
                unshifted = Prediction(prediction.mean, prediction.log_var - self.shift)
                pairs.append((unshifted, self._normalised(y)))
        return best_shift(pairs)

    def held_in_error(self, held_in: Dataset) -> float:
        """Mean relative L2 on the finest level that has held-in examples, or NaN."""
        for level in reversed(range(self.domain.levels)):
            if len(held_in.inputs[level]):
                predicted = self.predict(held_in.inputs[level], level).center
                return float(relative_l2(predicted, held_in.outputs[level]).mean())
        return math.nan

    def _normalised(self, y: Array) -> Array:
        assert self.normaliser is not None
        return self.normaliser.outputs(y)

    def _train(
        self,
        network: MemberFNO,
        batches: Batches,
        settings: TrainingSettings,
        *,
        objective: Callable[[], Tensor] | None = None,
        optimiser: torch.optim.Optimizer | None = None,
        after_step: Callable[[int], None] | None = None,
        part: tuple[float, float] = (0.0, 1.0),
        masks: Callable[[int], Sequence[Tensor]] | None = None,
    ) -> History:
        """One call of the training loop, reporting as the given part of the whole work."""

        def watch(step: int, losses: list[float]) -> None:
            if self._watch:
                done = part[0] + (part[1] - part[0]) * (step + 1) / settings.iterations
                self._watch(done, float(np.mean(losses)), self._current_error(network, step, settings.iterations))

        def restart(member: int, times: int) -> None:
            network.initialise_member(member, _seed(self.seed, self.fits, member, times))

        return train(
            objective or network_objective(network, batches, settings.loss, masks),
            optimiser or adam(network, settings),
            settings,
            watch=watch,
            restart=restart if objective is None else None,
            after_step=after_step,
        )

    def _current_error(self, network: MemberFNO, step: int, iterations: int) -> float:
        """The held-in error now, measured ten times in a fit and remembered between."""
        tenth = (10 * step) // iterations
        if step == 0:
            self._last_error, self._last_tenth = math.nan, 0
        if tenth != self._last_tenth:
            self._last_tenth = tenth
            self.weights = _detached(network)
            self._last_error = self.held_in_error(self._held_in)
        return self._last_error

    # Predicting.

    @property
    def samples(self) -> int:
        """Size of the sample axis of a prediction."""
        return self.members

    def predict(
        self, f: Array, level: int | None = None, *, grid: Grid | None = None, units: Units = "physical"
    ) -> Prediction:
        """Predict the outputs of inputs ``(n, in_channels, *grid)``.

        Args:
            level: the resolution whose solver is imitated; None for the finest.
            grid: where the inputs are given and outputs are wanted, any grid; None for the level's own, or, if the
                inputs have another shape, a grid of that shape with the domain's layout.
            units: ``normalised`` for those in which the noise is the same for all channels.
        """
        f, level, mesh = self._placed(f, level, grid)
        network, masks = self._network()
        means, log_vars = [], []
        with torch.no_grad():
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

    def features(self, f: Array, level: int | None = None) -> Array:
        """Output of the last Fourier layer, averaged over samples: ``(n, width, *grid)``."""
        f, level, mesh = self._placed(f, level, None)
        network, masks = self._network()
        with torch.no_grad():
            parts = [
                network.features(chunk, mesh, level, masks).mean(0).transpose(0, 1).double().cpu().numpy()
                for chunk in self._chunks(f, mesh, network.members)
            ]
        return np.concatenate(parts)

    def _placed(self, f: Array, level: int | None, grid: Grid | None) -> tuple[Array, int, Mesh]:
        """Check inputs, and find the level and the mesh they are on."""
        if not self.weights or self.normaliser is None:
            raise SurrogateError("surrogate: it has not been fitted. Call fit first, or load a checkpoint.")
        f = np.asarray(f, dtype=np.float64)
        level = self.domain.levels - 1 if level is None else level
        if not 0 <= level < self.domain.levels:
            raise SurrogateError(f"surrogate: unknown level {level}; it knows 0 to {self.domain.levels - 1}.")
        if f.ndim != 2 + self.domain.dim or f.shape[1] != self.domain.in_channels or not len(f):
            raise SurrogateError(
                f"surrogate: inputs of shape {f.shape} are not (n, {self.domain.in_channels}, grid of "
                f"{self.domain.dim} axes)."
            )
        if not np.isfinite(f).all():
            raise SurrogateError("surrogate: the inputs have NaN or infinite values.")
        grid = grid or Grid(f.shape[2:], self.domain.grids[level].layout)
        if grid.shape != f.shape[2:]:
            raise SurrogateError(f"surrogate: inputs of shape {f.shape} are not on the given grid {grid.shape}.")
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
            return MemberFNO(self.network_settings, members, self.dtype)

    def _started(self, warm: bool) -> MemberFNO:
        """A network to train: the last fit's for a warm start, freshly initialised else."""
        network = MemberFNO(self.network_settings, self.members, self.dtype)
        if warm:
            network.load_state_dict(self.weights)
        else:
            network.initialise([_seed(self.seed, self.fits, member) for member in range(self.members)])
        return network.to(self.device)


class Ensemble(Surrogate):
    """Independent networks."""

    name = "ensemble"

    def __init__(self, domain: Domain, *, members: int = 5, **settings: Any) -> None:
        if members < 1:
            raise SurrogateError(f"ensemble: it needs at least one member, got {members}.")
        self.members = members
        super().__init__(domain, **settings)

    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool, examples: int) -> History:
        network = self._started(warm)
        history = self._train(network, batches, settings)
        self.weights = _detached(network)
        return history


class Point(Ensemble):
    """The standard Fourier neural operator: one network, trained on relative L2 (its noise learnt beside it)."""

    name = "point"

    def __init__(self, domain: Domain, **settings: Any) -> None:
        super().__init__(domain, members=1, **settings)

    def _own_training(self) -> dict[str, Any]:
        return {"loss": "composite"}


class Dropout(Surrogate):
    """One network, trained and asked with a random part of its channels off; a sample keeps its part for all inputs."""

    name = "dropout"

    def __init__(self, domain: Domain, *, rate: float = 0.1, samples: int = 20, **settings: Any) -> None:
        if not 0 < rate < 1:
            raise SurrogateError(f"dropout: the rate must be between 0 and 1, got {rate}. The usual are .1 to .5.")
        self.rate, self._samples = rate, samples
        super().__init__(domain, **settings)

    @property
    def samples(self) -> int:
        """Number of masks."""
        return self._samples

    def _masks(self, generator: torch.Generator, members: int, batch: int) -> list[Tensor]:
        shape = (members, self.network_settings.width, batch)
        draws = [torch.rand(shape, generator=generator) for _ in range(self.network_settings.layers)]
        return [((draw >= self.rate) / (1 - self.rate)).to(self.device, self.dtype) for draw in draws]

    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool, examples: int) -> History:
        network = self._started(warm)
        generator = torch.Generator().manual_seed(_seed(self.seed, self.fits, 1))
        history = self._train(network, batches, settings, masks=lambda batch: self._masks(generator, 1, batch))
        self.weights = _detached(network)
        return history

    def _network(self) -> tuple[MemberFNO, Sequence[Tensor] | None]:
        stack = {name: value.expand(self._samples, *value.shape[1:]) for name, value in self.weights.items()}
        generator = torch.Generator().manual_seed(_seed(self.seed, 2))
        return self._holding(stack), self._masks(generator, self._samples, 1)


class Langevin(Surrogate):
    r"""Stochastic gradient Langevin dynamics under a standard normal prior, started from an optimised network.

    With U the average loss per value, N the number of values and a fixed diagonal preconditioner P (the optimiser's),

    .. math:: \theta \leftarrow \theta - h P (\nabla U + \theta / N) + \sqrt{2 h P / N}\; \xi

    ``burn_in`` is the share of the iterations spent optimising, ``step`` is h.
    """

    name = "sgld"

    def __init__(
        self, domain: Domain, *, samples: int = 20, burn_in: float = 0.7, step: float = 1e-4, **settings: Any
    ) -> None:
        self._samples, self.burn_in, self.step = samples, burn_in, step
        super().__init__(domain, **settings)

    def _own_training(self) -> dict[str, Any]:
        return {"loss": "likelihood"}

    @property
    def samples(self) -> int:
        """Number of states kept."""
        return self._samples

    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool, examples: int) -> History:
        if warm:
            self.weights = {name: value[-1:] for name, value in self.weights.items()}
        network = self._started(warm)
        first = max(1, int(self.burn_in * settings.iterations))
        optimiser = adam(network, settings)
        self._train(network, batches, settings.changed(iterations=first), optimiser=optimiser, part=(0, self.burn_in))
        # The second moments of the last gradients, not of the large first ones.
        scales = [_preconditioner(optimiser, p) for p in network.parameters()]
        rest = settings.changed(
            iterations=max(self._samples, settings.iterations - first), schedule="constant", rate=self.step
        )
        values = batches.total_values
        generator = torch.Generator().manual_seed(_seed(self.seed, self.fits, 3))
        dynamics = _Dynamics(list(network.parameters()), scales, values, generator, self.step)
        states: list[dict[str, Tensor]] = []
        # The first half of the chain forgets the optimum; the rest is kept at equal distances.
        keep = {rest.iterations - 1 - i * (rest.iterations // (2 * self._samples)) for i in range(self._samples)}

        def collect(step: int) -> None:
            if step in keep:
                states.append({name: value.clone() for name, value in _detached(network).items()})

        history = self._train(
            network, batches, rest, optimiser=dynamics, after_step=collect, part=(self.burn_in, 1.0)
        )
        self.weights = {name: torch.cat([state[name] for state in states]) for name in states[0]}
        return history


class _Dynamics(torch.optim.Optimizer):
    """The Langevin step of :class:`Langevin`."""

    def __init__(
        self, parameters: list[Tensor], scales: list[Tensor], values: float, generator: torch.Generator, step: float
    ) -> None:
        super().__init__(parameters, {"lr": step})
        self.scales, self.values, self.generator = scales, values, generator

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step, in place."""
        for group in self.param_groups:
            for parameter, scale in zip(group["params"], self.scales, strict=True):
                noise = torch.randn(parameter.shape, generator=self.generator).to(parameter)
                drift = scale * (parameter.grad + parameter / self.values)
                parameter.add_(drift, alpha=-group["lr"])
                parameter.add_(noise * torch.sqrt(scale), alpha=math.sqrt(2 * group["lr"] / self.values))


class Variational(Surrogate):
    r"""A fully factorised Gaussian posterior of all weights, standard normal prior, reparameterised gradients.

    Minimises the average of :math:`-\log p(y | \theta)` per value over draws of the weights plus KL / N, with N the
    number of values. ``start`` is the initial standard deviation of a weight.
    """

    name = "svi"

    def __init__(self, domain: Domain, *, samples: int = 20, start: float = 1e-3, **settings: Any) -> None:
        self._samples, self.start = samples, start
        super().__init__(domain, **settings)

    def _own_training(self) -> dict[str, Any]:
        return {"loss": "likelihood", "weight_decay": 0.0}

    @property
    def samples(self) -> int:
        """Number of draws."""
        return self._samples

    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool, examples: int) -> History:
        network = self._started(False)
        names = [name for name, _ in network.named_parameters()]
        if warm:
            centres = [self._centres[name].clone().requires_grad_() for name in names]
            spreads = [self._spreads[name].clone().requires_grad_() for name in names]
        else:
            centres = [p.detach().clone().requires_grad_() for p in network.parameters()]
            spreads = [torch.full_like(p, math.log(self.start)).requires_grad_() for p in centres]
        generator = torch.Generator().manual_seed(_seed(self.seed, self.fits, 4))
        values = batches.total_values

        def draw() -> dict[str, Tensor]:
            noise = [torch.randn(p.shape, generator=generator).to(p) for p in centres]
            return {
                name: centre + torch.exp(spread) * z
                for name, centre, spread, z in zip(names, centres, spreads, noise, strict=True)
            }

        def objective() -> Tensor:
            weights = draw()

            def sampled(*arguments: Any, **options: Any) -> Any:
                return functional_call(network, weights, arguments, options)

            fit = network_objective(sampled, batches, settings.loss)()
            divergence = sum(
                0.5 * (torch.exp(2 * spread) + centre.square() - 1).sum() - spread.sum()
                for centre, spread in zip(centres, spreads, strict=True)
            )
            return fit + divergence / values

        optimiser = torch.optim.Adam([*centres, *spreads], lr=settings.rate, fused=True)

        def store(step: int) -> None:
            if (10 * (step + 1)) // settings.iterations != (10 * step) // settings.iterations:
                network.load_state_dict(dict(zip(names, centres, strict=True)))

        history = self._train(network, batches, settings, objective=objective, optimiser=optimiser, after_step=store)
        self._centres = {name: c.detach() for name, c in zip(names, centres, strict=True)}
        self._spreads = {name: s.detach() for name, s in zip(names, spreads, strict=True)}
        with torch.no_grad():
            draws = [draw() for _ in range(self._samples)]
        self.weights = {name: torch.cat([one[name] for one in draws]) for name in names}
        return history


SURROGATES: dict[str, type[Surrogate]] = {
    kind.name: kind for kind in (Ensemble, Point, Dropout, Langevin, Variational)
}


def get_surrogate(name: str, domain: Domain, **settings: Any) -> Surrogate:
    """The way of inference with this name; ``settings`` go to its constructor."""
    if name not in SURROGATES:
        raise SurrogateError(f"unknown inference {name!r}. The known ones are {', '.join(SURROGATES)}.")
    return SURROGATES[name](domain, **settings)


def split(data: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """Examples to train on and examples held in, a share of every level, at least two of each kept for training."""
    training, held_in = [], []
    for level, n in enumerate(data.sizes):
        count = max(0, min(round(share * n), n - 2))
        order = np.random.default_rng([seed, level, n]).permutation(n)
        out, kept = np.sort(order[:count]), np.sort(order[count:])
        training.append((data.inputs[level][kept], data.outputs[level][kept]))
        held_in.append((data.inputs[level][out], data.outputs[level][out]))
    return Dataset.of(data.domain, training), Dataset.of(data.domain, held_in)


def _preconditioner(optimiser: torch.optim.Optimizer, parameter: Tensor) -> Tensor:
    """Adam's own scaling of a parameter's gradient, bounded where gradients vanish."""
    second = optimiser.state[parameter]["exp_avg_sq"]
    typical = second.mean().sqrt().clamp_min(1e-12)
    return 1.0 / (second.sqrt() + 0.1 * typical)


def _detached(network: MemberFNO) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in network.state_dict().items()}


def _seed(*parts: int) -> int:
    """One number from several, for torch's generators."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint32)[0])
