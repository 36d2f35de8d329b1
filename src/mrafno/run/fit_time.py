"""How long a fit will take, from how long earlier fits of the run took: known before the fit starts, but for the first.

A fit takes about as long as it has iterations, and an iteration as long as it has points of examples.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrafno.run.settings import RunSettings
from mrafno.run.state import RunState

if TYPE_CHECKING:  # they import torch
    from mrafno.surrogate.inference.base import Surrogate
    from mrafno.surrogate.training.policy import FitKind

#: Fits from whose speed that of the next is computed, and fits that are looked at for that. Those of its kind come
#: first: a short fit has its own overhead.
_LAST, _LOOKED_AT = 3, 30


@dataclass(frozen=True)
class FitAhead:
    """A fit that is about to start, or going on.

    Attributes:
        number: from 1.
        examples: that it is trained on.
        seconds: that it is expected to take; None for the first fit of a run.
        again: whether it was made before, and its checkpoint is missing.
    """

    number: int
    examples: int
    seconds: float | None = None
    again: bool = False

    def __str__(self) -> str:
        again = " again, as its checkpoint is missing," if self.again else ""
        return f"fit {self.number}{again} on {self.examples} example{'s' * (self.examples != 1)}"


def row(fit: FitAhead | None) -> dict[str, str]:
    """A fit as a row of a table; no row without one."""
    return {} if fit is None else {"fit": str(fit) + (f", about {fit.seconds:.0f} s" if fit.seconds else "")}


def fit_seconds(surrogate: "Surrogate", state: RunState, kind: "FitKind", sizes: Sequence[int]) -> float | None:
    """Seconds that a fit on so many examples of each level is expected to take; None before the first fit."""
    same: list[float] = []
    others: list[float] = []
    before = [0] * surrogate.domain.levels
    for id in state.trained_on:
        before[state.queries[id].level] += 1
    for training in reversed(state.trainings[-_LOOKED_AT:]):
        points = fit_points(surrogate, state.settings, training.kind, before) if sum(before) else 0.0
        if points and training.seconds > 0:
            (same if training.kind == kind else others).append(training.seconds / points)
        if len(same) == _LAST:
            break
        for id in training.added:
            before[state.queries[id].level] -= 1
    speeds = (same or others)[:_LAST]
    return statistics.median(speeds) * fit_points(surrogate, state.settings, kind, sizes) if speeds else None


def fit_points(surrogate: "Surrogate", settings: RunSettings, kind: "FitKind", sizes: Sequence[int]) -> float:
    """Points of examples that a fit goes through, in all of its iterations."""
    from mrafno.surrogate.training.batches import points_per_step  # imports torch

    s = surrogate.policy.settings(kind, surrogate.training, sizes)
    iterations = s.iterations if kind == "update" or settings.iterations is None else settings.iterations
    return iterations * points_per_step([grid.shape for grid in surrogate.domain.grids], sizes, s)
