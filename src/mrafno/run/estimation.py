"""A run's own estimate of its error after a fit: gathers what :mod:`mrafno.analysis.estimate` needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mrafno.analysis.estimate import Estimate, estimate_error
from mrafno.data.pool import RunInputs
from mrafno.grids import Array, relative_l2
from mrafno.run.state import RunState
from mrafno.tasks.base import Task

if TYPE_CHECKING:  # they import torch
    from mrafno.surrogate.inference.base import Fit, Surrogate

#: Candidates that the spread of the networks is measured on.
_CANDIDATES = 100
#: Larger relative errors only say that an output is close to zero.
LARGEST_ERROR = 10.0


@dataclass(frozen=True)
class Spreads:
    """Relative distances of networks from their mean, on some candidates that were not used.

    Attributes:
        finest: of their predictions on the finest level, for each candidate.
        levels: mean over candidates, of predictions on the coarsest level and of the differences to the next coarser
            level on others; None for a level that is predicted as the one below.
    """

    finest: Array
    levels: tuple[float | None, ...]


class ErrorEstimator:
    """Estimates the error of a run's surrogate without test examples.

    Args:
        inputs: gives the run's inputs.
    """

    def __init__(self, task: Task, inputs: Callable[[], RunInputs]) -> None:
        self.task, self.inputs = task, inputs

    def estimate(self, fit: "Fit", spreads: Spreads | None) -> Estimate | None:
        """The estimate after a fit; None for a single network, or while too little is known."""
        if spreads is None or len(fit.out_of_fold_errors[-1]) == 0:
            return None
        errors = [np.fmin(level, LARGEST_ERROR) for level in fit.out_of_fold_errors]
        return estimate_error(errors, spreads.finest)

    def spreads(self, surrogate: "Surrogate", state: RunState) -> Spreads | None:
        """How far the networks are apart on some candidates; None for a single one."""
        if surrogate.members < 2:
            return None
        pool = self.inputs().pool
        order = np.random.default_rng([state.seed, 11]).permutation(len(pool))
        rows = order[~np.isin(order, sorted(state.used_rows("pool")))][:_CANDIDATES]
        if not len(rows):
            return Spreads(np.empty(0), (None,) * self.task.levels)
        # On the coarsest grid: a norm is an integral, which needs few points.
        f = self.task.restrict(np.asarray(pool[np.sort(rows)]), 0)
        grid = self.task.grids[0]
        samples = [surrogate.predict(f, level, grid=grid, check=False).samples for level in range(self.task.levels)]
        assert surrogate.normaliser is not None, "a surrogate that predicts has one"
        finest = samples[-1].mean(axis=0)
        typical = surrogate.normaliser.typical_norm(finest.shape[2:])

        def spread(values: Array) -> Array:
            """Root mean square distance from the mean, relative to the finest prediction's norm."""
            around = finest + values - values.mean(axis=0)
            squares = [relative_l2(one, finest, typical) ** 2 for one in around]
            return np.asarray(np.fmin(np.sqrt(np.mean(squares, axis=0)), LARGEST_ERROR))

        found: list[float | None] = [float(spread(samples[0]).mean())]
        for level in range(1, self.task.levels):
            own = level in surrogate.trained_levels
            found.append(float(spread(samples[level] - samples[level - 1]).mean()) if own else None)
        return Spreads(spread(samples[-1]), tuple(found))
