"""Which candidates of a large pool are scored: a random part of them, drawn again at each fit.

A pool of up to :data:`SMALL` candidates is predicted as a whole after each fit. Of a larger one as many as the setting
``candidates`` says are scored, and what they say of each other's outputs stands for what they say of all. They are the
first ones of a random order, which depends on the run's seed and the number of the fit alone: choices between two fits
share their predictions, and a run that was interrupted predicts the same candidates in the same groups.

The best of n random candidates is on average among the best 1 / n of all; ``benchmarks/bench_pool.py`` compares the
errors of runs that score a part of the pool and of runs that score all.
"""

from collections.abc import Callable

import numpy as np

from mrafno.acquisition.base import Indices
from mrafno.acquisition.utilities import PoolGrams

#: Candidates in a pool that is predicted as a whole.
SMALL = 1000
#: Candidates predicted at a time.
GROUP = 250


class Screen:
    """The candidates of a pool in a random order, and the Gram matrices of those that were needed since the last fit.

    Args:
        rows: candidates that the surrogate was not trained on.
        pool: how many candidates there are in all.
        seed: of the order.
        predict: makes the Gram matrices of some candidates, all predicted together.
    """

    def __init__(self, rows: Indices, pool: int, seed: list[int], predict: Callable[[Indices], PoolGrams]) -> None:
        order = np.random.default_rng(seed).permutation(rows)
        # The last digits of a prediction may depend on what is predicted with it, so the groups are fixed.
        self.groups = [np.sort(order[start : start + GROUP]) for start in range(0, len(order), GROUP)]
        self.group = np.full(pool, -1)
        for number, group in enumerate(self.groups):
            self.group[group] = number
        self.order, self.pool, self.predict = order, pool, predict
        self._grams: PoolGrams | None = None
        self._known = np.zeros(pool, dtype=bool)

    def first(self, n: int, remaining: Indices) -> Indices:
        """The first n in the random order of those that remain, sorted."""
        here = np.zeros(self.pool, dtype=bool)
        here[remaining] = True
        return np.sort(self.order[here[self.order]][:n]).astype(np.int64)

    def grams(self, rows: Indices) -> PoolGrams:
        """Gram matrices ``(pool, R, S, S)``; those of ``rows`` are right, others may be zero."""
        missing = rows[~self._known[rows]]
        for number in np.unique(self.group[missing]):
            if number >= 0:
                self._add(self.groups[number])
        for row in missing[self.group[missing] < 0]:  # asked for before the fit, and trained on later
            self._add(np.array([row]))
        assert self._grams is not None, "there is a candidate"
        return self._grams

    def _add(self, rows: Indices) -> None:
        found = self.predict(rows)
        if self._grams is None:
            gram = found.gram.new_zeros(self.pool, *found.gram.shape[1:])
            noise = found.log_noise.new_zeros(self.pool, *found.log_noise.shape[1:])
            self._grams = PoolGrams(gram, noise, found.sizes)
        self._grams.gram[rows] = found.gram
        self._grams.log_noise[rows] = found.log_noise
        self._known[rows] = True
