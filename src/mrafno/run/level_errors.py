"""What each level contributes to a run's error after a fit: gathers what mrafno.acquisition.level_errors needs."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mrafno.acquisition.level_errors import LevelErrors, LevelMeasurements, level_shares
from mrafno.grids import Array, Domain, relative_l2, resample
from mrafno.run.estimation import Spreads
from mrafno.run.records import QueryRecord

if TYPE_CHECKING:  # it imports torch
    from mrafno.surrogate.inference.base import Fit


def measured_level_errors(
    domain: Domain,
    fit: "Fit",
    spreads: Spreads,
    queries: Sequence[QueryRecord],
    example: Callable[[str], tuple[Array, Array]],
) -> LevelErrors:
    """The level errors after a fit on the examples of some queries.

    Args:
        example: gives input and output of a query by its id.
    """
    by_level = [[q for q in queries if q.level == level] for level in range(domain.levels)]
    outputs = [{q.candidate: q.id for q in here if q.candidate is not None} for here in by_level]
    finest = domain.levels - 1

    def distances(coarse: int, fine: int) -> list[float]:
        """Relative distances between the outputs of two levels on the same inputs, on the finer grid."""
        both = [candidate for candidate in outputs[coarse] if candidate in outputs[fine]]
        if not both:
            return []
        low, high = (np.stack([example(outputs[level][c])[1] for c in both]) for level in (coarse, fine))
        return [float(d) for d in relative_l2(resample(low, domain.grids[coarse], domain.grids[fine]), high)]

    found = []
    for level, here in enumerate(by_level):
        errors = [
            error
            for row, error in zip(fit.out_of_fold_rows[level], fit.out_of_fold_errors[level], strict=True)
            if not level or here[row].candidate in outputs[level - 1]
        ]
        below = distances(level - 1, level) if level else []
        found.append(
            LevelMeasurements(spreads.levels[level], errors, below, distances(level, finest) if level < finest else [])
        )
    return LevelErrors(tuple(map(len, by_level)), level_shares(found))
