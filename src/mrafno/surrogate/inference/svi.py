"""Stochastic variational inference with a factorised Gaussian posterior (Kingma & Welling, 2014)."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from mrafno.grids import Domain
from mrafno.surrogate.inference.base import Surrogate, seed_of
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.loop import History
from mrafno.surrogate.training.objective import network_objective
from mrafno.surrogate.training.optimiser import make_adamw
from mrafno.surrogate.training.settings import TrainingSettings


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
        return {"loss": "likelihood", "weight_decay": 0.0, "bfloat16_share": 0.0, "early_share": 0.0}

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
