"""One network: the standard Fourier neural operator."""

from typing import Any

from mrafno.grids import Domain
from mrafno.surrogate.inference.ensemble import Ensemble


class Point(Ensemble):
    """The standard Fourier neural operator: one network, trained on relative L2, with a separately trained noise."""

    name = "point"
    own_settings = ()

    def __init__(self, domain: Domain, **settings: Any) -> None:
        super().__init__(domain, members=1, **settings)

    def _own_training(self) -> dict[str, Any]:
        return {"loss": "composite"}
