"""Monte Carlo dropout of channels (Gal & Ghahramani, 2016)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mrafno.errors import SurrogateError
from mrafno.grids import Domain
from mrafno.surrogate.inference.base import Surrogate, seed_of
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.loop import History
from mrafno.surrogate.training.settings import TrainingSettings


class Dropout(Surrogate):
    """One network, trained and evaluated with random channels off; a sample has the same mask for all inputs."""

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
