"""Stochastic gradient Langevin dynamics (Welling & Teh, 2011)."""

import math
from typing import Any

import torch
from torch import Tensor

from mrafno.grids import Domain
from mrafno.surrogate.inference.base import Surrogate, seed_of
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.divergence import detached
from mrafno.surrogate.training.loop import History, adam
from mrafno.surrogate.training.optimiser import Optimiser
from mrafno.surrogate.training.settings import TrainingSettings

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
        optimiser = adam(network, settings, batches.sizes)
        burn_in = settings.changed(iterations=first)
        history = self._train(network, batches, burn_in, optimiser=optimiser, part=(0.0, self.burn_in))
        rest = settings.changed(
            iterations=max(2 * self.samples, settings.iterations - first),
            schedule="constant",
            rate=self.step,
            # Rounding and coarse points would be noise that the posterior does not have.
            bfloat16_share=0.0,
            early_share=0.0,
        )
        values = batches.total_values
        # Corrections of a level without examples have no gradient and are not moved.
        moved: list[Tensor] = [p for p in network.parameters() if p in optimiser.state]
        scales = [_preconditioner(optimiser, p, values, self.step) for p in moved]
        generator = torch.Generator().manual_seed(seed_of(self.seed, self.fits, 3))
        dynamics = Dynamics(moved, scales, values, generator, self.step, _LONGEST)
        states: list[dict[str, Tensor]] = []
        # The first half of the chain is discarded; of the rest, states at equal distances are kept.
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
                # Limits steps with gradients far larger than those of the preconditioner.
                parameter.sub_(drift.clamp_(-self.longest, self.longest))
                parameter.add_(noise * torch.sqrt(scale), alpha=math.sqrt(2 * group["lr"] / self.values))


def _preconditioner(optimiser: Optimiser, parameter: Tensor, values: float, step: float) -> Tensor:
    """Adam's scaling of a parameter's gradient, bounded because the noise is unbounded where gradients vanish."""
    state = optimiser.state[parameter]
    second: Tensor = state["exp_avg_sq"] / (1 - 0.999 ** float(state["step"]))
    typical = second.mean().sqrt().clamp_min(1e-12)
    largest = _LONGEST**2 * values / (2 * step)
    return torch.reciprocal(second.sqrt() + 0.1 * typical).clamp_max(largest)
