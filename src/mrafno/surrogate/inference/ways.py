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

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.func import functional_call

from mrafno.errors import SurrogateError, hint
from mrafno.grids import Domain
from mrafno.surrogate.inference.base import Surrogate, seed_of
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.divergence import detached
from mrafno.surrogate.training.loop import History, TrainingSettings, adam
from mrafno.surrogate.training.objective import network_objective
from mrafno.surrogate.training.optimiser import Optimiser, make_adamw


class Optimised(Surrogate):
    """What is found by optimisation, from random weights or from those of the last fit, down to a rate of zero."""

    def _optimise(
        self,
        batches: Batches,
        settings: TrainingSettings,
        warm: bool,
        masks: Callable[[int], Sequence[Tensor]] | None = None,
    ) -> History:
        network = self._started(self.weights if warm else None, settings)
        history = self._train(network, batches, settings, masks=masks)
        self.weights = detached(network)
        return history


class Ensemble(Optimised):
    """Independent networks."""

    name = "ensemble"
    own_settings: ClassVar[tuple[str, ...]] = ("members",)
    takes_model = True

    def __init__(self, domain: Domain, *, members: int = 5, **settings: Any) -> None:
        if members < 1:
            raise SurrogateError(f"ensemble: it needs at least one member, got {members}.")
        self.members = members
        super().__init__(domain, **settings)

    def _own_training(self) -> dict[str, Any]:
        # A twentieth each: few enough to cost nothing together, enough to calibrate by.
        return {"out_of_fold": 0.05} if self.members > 1 else {}

    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool) -> History:
        return self._optimise(batches, settings, warm)


class Point(Ensemble):
    """The standard Fourier neural operator: one network, trained on relative L2 (its noise learnt beside it)."""

    name = "point"
    own_settings = ()

    def __init__(self, domain: Domain, **settings: Any) -> None:
        super().__init__(domain, members=1, **settings)

    def _own_training(self) -> dict[str, Any]:
        return {"loss": "composite"}


class Dropout(Optimised):
    """One network, trained and asked with a random part of its channels off; a sample keeps its part for all inputs."""

    name = "dropout"
    own_settings = ("rate", "samples")

    def __init__(self, domain: Domain, *, rate: float = 0.1, samples: int = 20, **settings: Any) -> None:
        if not 0 < rate < 1:
            raise SurrogateError(f"dropout: the rate must be between 0 and 1, got {rate}. The usual are .1 to .5.")
        self.rate, self.samples = rate, samples
        super().__init__(domain, **settings)

    @property
    def sample_count(self) -> int:
        """Number of masks."""
        return self.samples

    def _masks(self, generator: torch.Generator, members: int, batch: int) -> list[Tensor]:
        shape = (members, batch, self.network_settings.width)
        draws = [torch.rand(shape, generator=generator) for _ in range(self.network_settings.layers)]
        return [((draw >= self.rate) / (1 - self.rate)).to(self.device, self.dtype) for draw in draws]

    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool) -> History:
        generator = torch.Generator().manual_seed(seed_of(self.seed, self.fits, 1))
        return self._optimise(batches, settings, warm, masks=lambda batch: self._masks(generator, 1, batch))

    def _network(self) -> tuple[MemberFNO, Sequence[Tensor] | None]:
        stack = {name: value.expand(self.samples, *value.shape[1:]) for name, value in self.weights.items()}
        generator = torch.Generator().manual_seed(seed_of(self.seed, 2))
        return self._holding(stack), self._masks(generator, self.samples, 1)


#: How far a weight may move in one Langevin step, by drift or (one standard deviation) by noise.
_LONGEST = 0.01


class Langevin(Surrogate):
    r"""Stochastic gradient Langevin dynamics under a standard normal prior, started from an optimised network.

    With U the average loss per value, N the number of values and a fixed diagonal preconditioner P (the optimiser's),

    .. math:: \theta \leftarrow \theta - h P (\nabla U + \theta / N) + \sqrt{2 h P / N}\; \xi

    ``burn_in`` is the share of the iterations spent optimising, ``step`` is h.
    """

    name = "sgld"
    own_settings = ("samples", "burn_in", "step")

    def __init__(
        self, domain: Domain, *, samples: int = 20, burn_in: float = 0.7, step: float = 1e-4, **settings: Any
    ) -> None:
        self.samples, self.burn_in, self.step = samples, burn_in, step
        super().__init__(domain, **settings)

    def _own_training(self) -> dict[str, Any]:
        return {"loss": "likelihood"}

    @property
    def sample_count(self) -> int:
        """Number of states kept."""
        return self.samples

    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool) -> History:
        if warm:
            self.weights = {name: value[-1:] for name, value in self.weights.items()}
        network = self._started(self.weights if warm else None, settings)
        first = max(1, int(self.burn_in * settings.iterations))
        optimiser = adam(network, settings)
        burn_in = settings.changed(iterations=first)
        history = self._train(network, batches, burn_in, optimiser=optimiser, part=(0.0, self.burn_in))
        rest = settings.changed(
            iterations=max(2 * self.samples, settings.iterations - first), schedule="constant", rate=self.step
        )
        values = batches.total_values
        # Corrections of a level without examples have no gradient and no say: they stay as they are.
        moved: list[Tensor] = [p for p in network.parameters() if p in optimiser.state]
        scales = [_preconditioner(optimiser, p, values, self.step) for p in moved]
        generator = torch.Generator().manual_seed(seed_of(self.seed, self.fits, 3))
        dynamics = Dynamics(moved, scales, values, generator, self.step, _LONGEST)
        states: list[dict[str, Tensor]] = []
        # The first half of the chain forgets the optimum; the rest is kept at equal distances.
        distance = rest.iterations // (2 * self.samples)
        keep = {rest.iterations - 1 - i * distance for i in range(self.samples)}

        def collect(step: int) -> None:
            if step in keep:
                states.append({name: value.clone() for name, value in detached(network).items()})

        chain = self._train(
            network, batches, rest, optimiser=dynamics, after_step=collect, part=(self.burn_in, 1.0), restarts=False
        )
        self.weights = {name: torch.cat([state[name] for state in states]) for name in states[0]}
        return History(chain.steps, chain.losses, history.events + chain.events)


class Dynamics:
    """The Langevin step of :class:`Langevin`."""

    def __init__(
        self,
        parameters: list[Tensor],
        scales: list[Tensor],
        values: float,
        generator: torch.Generator,
        step: float,
        longest: float = math.inf,
    ) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": parameters, "lr": step}]
        self.state: dict[Tensor, Any] = {}
        self.scales, self.values, self.generator, self.longest = scales, values, generator, longest

    @torch.no_grad()
    def step(self) -> None:
        """One step, in place."""
        for group in self.param_groups:
            for parameter, scale in zip(group["params"], self.scales, strict=True):
                noise = torch.randn(parameter.shape, generator=self.generator).to(parameter)
                drift = group["lr"] * scale * (parameter.grad + parameter / self.values)
                # A gradient far larger than those the preconditioner knows must not throw the chain off.
                parameter.sub_(drift.clamp_(-self.longest, self.longest))
                parameter.add_(noise * torch.sqrt(scale), alpha=math.sqrt(2 * group["lr"] / self.values))


class Variational(Surrogate):
    r"""A fully factorised Gaussian posterior of all weights, standard normal prior, reparameterised gradients.

    Minimises the average of :math:`-\log p(y | \theta)` per value over draws of the weights plus KL / N, with N the
    number of values. ``start`` is the initial standard deviation of a weight.
    """

    name = "svi"
    own_settings = ("samples", "start")
    stacks = ("weights", "_centres", "_spreads")

    def __init__(self, domain: Domain, *, samples: int = 20, start: float = 1e-3, **settings: Any) -> None:
        self.samples, self.start = samples, start
        self._centres: dict[str, Tensor] = {}
        self._spreads: dict[str, Tensor] = {}
        super().__init__(domain, **settings)

    def _own_training(self) -> dict[str, Any]:
        return {"loss": "likelihood", "weight_decay": 0.0}

    @property
    def sample_count(self) -> int:
        """Number of draws."""
        return self.samples

    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool) -> History:
        network = self._started(None, settings)
        names = [name for name, _ in network.named_parameters()]
        if warm and self._centres:
            centres = [self._centres[name].clone().requires_grad_() for name in names]
            spreads = [self._spreads[name].clone().requires_grad_() for name in names]
        else:
            centres = [p.detach().clone().requires_grad_() for p in network.parameters()]
            spreads = [torch.full_like(p, math.log(self.start)).requires_grad_() for p in centres]
        generator = torch.Generator().manual_seed(seed_of(self.seed, self.fits, 4))
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

        optimiser = make_adamw([*centres, *spreads], settings.rate)

        def store(step: int) -> None:
            if (10 * (step + 1)) // settings.iterations != (10 * step) // settings.iterations:
                network.load_state_dict(dict(zip(names, centres, strict=True)))

        history = self._train(
            network, batches, settings, objective=objective, optimiser=optimiser, after_step=store, restarts=False
        )
        self._centres = {name: c.detach() for name, c in zip(names, centres, strict=True)}
        self._spreads = {name: s.detach() for name, s in zip(names, spreads, strict=True)}
        with torch.no_grad():
            draws = [draw() for _ in range(self.samples)]
        self.weights = {name: torch.cat([one[name] for one in draws]) for name in names}
        return history


SURROGATES: dict[str, type[Surrogate]] = {kind.name: kind for kind in (Ensemble, Point, Dropout, Langevin, Variational)}


def get_surrogate(name: str, domain: Domain, **settings: Any) -> Surrogate:
    """The way of inference with this name; ``settings`` go to its constructor."""
    if name not in SURROGATES:
        raise SurrogateError(f"unknown inference {name!r}. The known ones are {', '.join(SURROGATES)}.")
    kind = SURROGATES[name]
    known = {*inspect.signature(kind.__init__).parameters, *inspect.signature(Surrogate.__init__).parameters}
    known -= {"self", "settings"}
    for setting in settings:
        if setting not in known:
            raise SurrogateError(f"{name}: unknown setting {setting!r}. {hint(setting, sorted(known))}")
    return kind(domain, **settings)


def _preconditioner(optimiser: Optimiser, parameter: Tensor, values: float, step: float) -> Tensor:
    """Adam's own scaling of a parameter's gradient, bounded where gradients vanish: noise would grow without limit."""
    state = optimiser.state[parameter]
    second: Tensor = state["exp_avg_sq"] / (1 - 0.999 ** float(state["step"]))
    typical = second.mean().sqrt().clamp_min(1e-12)
    largest = _LONGEST**2 * values / (2 * step)
    return torch.reciprocal(second.sqrt() + 0.1 * typical).clamp_max(largest)
