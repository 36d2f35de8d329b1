"""Independent networks, trained side by side."""

from typing import Any, ClassVar

from mrafno.errors import SurrogateError
from mrafno.grids import Domain
from mrafno.surrogate.inference.base import Surrogate
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.loop import History
from mrafno.surrogate.training.settings import TrainingSettings


class Ensemble(Surrogate):
    """Independent networks."""

    name = "ensemble"
    own_settings: ClassVar[tuple[str, ...]] = ("members",)
    takes_network_factory = True

    def __init__(self, domain: Domain, *, members: int = 5, **settings: Any) -> None:
        if members < 1:
            raise SurrogateError(f"ensemble: it needs at least one member, got {members}.")
        self.members = members
        super().__init__(domain, **settings)

    def _own_training(self) -> dict[str, Any]:
        # A twentieth each: all members together see all examples, and there are enough for the calibration.
        return {"out_of_fold_share": 0.05} if self.members > 1 else {}

    def _fit(self, batches: Batches, settings: TrainingSettings, warm: bool) -> History:
        return self._optimise(batches, settings, warm)
