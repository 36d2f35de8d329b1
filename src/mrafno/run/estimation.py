"""A run's own estimate of its error after a fit: gathers what :mod:`mrafno.analysis.estimate` needs."""

from collections.abc import Callable
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


class ErrorEstimator:
    """Estimates the error of a run's surrogate without test examples.

    Args:
        inputs: gives the run's inputs.
    """

    def __init__(self, task: Task, inputs: Callable[[], RunInputs]) -> None:
        self.task, self.inputs = task, inputs

    def estimate(self, surrogate: "Surrogate", fit: "Fit", state: RunState) -> Estimate | None:
        """The estimate after a fit; None for a single network, or while too little is known."""
        if surrogate.members < 2 or len(fit.out_of_fold_errors[-1]) == 0:
            return None
        errors = [np.fmin(level, LARGEST_ERROR) for level in fit.out_of_fold_errors]
        return estimate_error(errors, self._spreads(surrogate, state))

    def _spreads(self, surrogate: "Surrogate", state: RunState) -> Array:
        """Distance of the networks from their mean, relative to its norm, on some candidates that were not used."""
        pool = self.inputs().pool
        order = np.random.default_rng([state.seed, 11]).permutation(len(pool))
        rows = order[~np.isin(order, sorted(state.used_rows("pool")))][:_CANDIDATES]
        if not len(rows):
            return np.empty(0)
        # On the coarsest grid: a norm is an integral, which needs few points.
        f = self.task.restrict(np.asarray(pool[np.sort(rows)]), 0)
        prediction = surrogate.predict(f, self.task.levels - 1, grid=self.task.grids[0], check=False)
        assert surrogate.normaliser is not None, "a surrogate that predicts has one"
        typical = surrogate.normaliser.typical_norm(prediction.mean.shape[2:])
        squares = [relative_l2(sample, prediction.mean, typical) ** 2 for sample in prediction.samples]
        return np.asarray(np.fmin(np.sqrt(np.mean(squares, axis=0)), LARGEST_ERROR))
