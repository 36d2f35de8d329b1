"""What to compare with: random choice, and the input farthest from those already used.

Both are utilities as :func:`~mrafno.acquisition.select.select` calls them; levels that they do not use score minus
infinity. They are compared without costs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mrafno.acquisition.select import Choice, Indices
from mrafno.errors import AcquisitionError
from mrafno.grids import Array

#: Features ``(n, width, *grid)`` of inputs, by their indices, at a level.
Features = Callable[[Indices, int], Array]


@dataclass(frozen=True)
class RandomUtility:
    """Every remaining input at every allowed level with the same chance.

    Args:
        levels: those allowed: ``(0,)`` is random-low, ``(R - 1,)`` random-high, ``range(R)`` random-mix.
        resolutions: their number R.
        seed: with the step, what the choice depends on.
        step: which choice it is.
    """

    levels: Sequence[int]
    resolutions: int
    seed: int
    step: int

    def __post_init__(self) -> None:
        check_levels(self.levels, self.resolutions)

    def __call__(self, remaining: Indices, chosen: Sequence[Choice]) -> Array:
        """Scores ``(len(remaining), R)``."""
        scores = np.full((len(remaining), self.resolutions), -np.inf)
        # The last number keeps this stream apart from others of the same seed and step.
        rng = np.random.default_rng([self.seed, self.step, len(chosen), 2])
        scores[:, list(self.levels)] = rng.random((len(remaining), len(self.levels)))
        return scores


class CoresetUtility:
    r"""Distance in feature space from what is already used: farthest-point choice.

    .. math:: \min_{(j, s) \in \text{used}} \left\lVert \phi(h, r) - \phi(j, s) \right\rVert_2

    Args:
        features: of inputs by index; those of all levels on one grid. It is asked for some inputs at a time, and again
            when needed: all features together may not fit into memory.
        used: (input, level) pairs already used, in the numbering of ``features``; at least one.
        levels: those allowed.
        resolutions: their number R.
        numbers: how many numbers the features held at a time may take, twice.
    """

    def __init__(
        self,
        features: Features,
        used: Sequence[tuple[int, int]],
        *,
        levels: Sequence[int],
        resolutions: int,
        numbers: int = 40_000_000,
    ) -> None:
        check_levels(levels, resolutions)
        if not used:
            raise AcquisitionError("coreset: nothing is used yet, so all are equally far. Give the initial examples.")
        self.features = features
        self.used = [Choice(int(row), int(level)) for row, level in used]
        self.levels = tuple(levels)
        self.resolutions = resolutions
        self.numbers = numbers
        # Squared distances found so far; a batch's later choices only add what was chosen since.
        self._nearest: dict[int, Array] = {}
        self._rows: Indices = np.empty(0, dtype=np.int64)
        self._seen: list[Choice] = []

    def __call__(self, remaining: Indices, chosen: Sequence[Choice]) -> Array:
        """Scores ``(len(remaining), R)``."""
        known = list(chosen[: len(self._seen)]) == self._seen and bool(np.isin(remaining, self._rows).all())
        new = list(chosen[len(self._seen) :]) if self._nearest and known else [*self.used, *chosen]
        keep = np.searchsorted(self._rows, remaining) if self._nearest and known else None
        scores = np.full((len(remaining), self.resolutions), -np.inf)
        for level in self.levels:
            before = np.full(len(remaining), np.inf) if keep is None else self._nearest[level][keep]
            self._nearest[level] = np.minimum(before, self._squared(remaining, level, new))
            scores[:, level] = np.sqrt(self._nearest[level])
        self._rows, self._seen = remaining.copy(), list(chosen)
        return scores

    def _squared(self, rows: Indices, level: int, used: Sequence[Choice]) -> Array:
        """Squared distances ``(len(rows),)`` to the nearest of those used."""
        found = np.full(len(rows), np.inf)
        if not used or not len(rows):
            return found
        for part, here in self._chunks(rows, level):
            for other in sorted({choice.level for choice in used}):
                indices = np.array([choice.candidate for choice in used if choice.level == other], dtype=np.int64)
                for _, there in self._chunks(indices, other):
                    # |a - b|^2 as a matrix product, from a point nearby so that little cancels.
                    a, b = here - there[0], there - there[0]
                    squares = np.sum(a**2, 1)[:, None] + np.sum(b**2, 1) - 2 * a @ b.T
                    found[part] = np.minimum(found[part], squares.min(1).clip(min=0.0))
        return found

    def _chunks(self, rows: Indices, level: int) -> Iterator[tuple[slice, Array]]:
        """Flat features of some inputs at a time, with their place among ``rows``."""
        start, size = 0, 1  # one input tells how large the others are
        while start < len(rows):
            part = slice(start, start + size)
            values = np.asarray(self.features(rows[part], level), dtype=np.float64)
            flat = values.reshape(len(rows[part]), -1)
            if not np.isfinite(flat).all():
                raise AcquisitionError(f"coreset: features at level {level} have NaN or infinite values.")
            yield part, flat
            start, size = start + size, max(1, self.numbers // flat.shape[1])


def check_levels(levels: Sequence[int], resolutions: int) -> None:
    """Raise unless the levels are some of ``range(resolutions)``."""
    if not len(levels) or not set(levels) <= set(range(resolutions)):
        raise AcquisitionError(f"levels: {list(levels)} are not some of 0 to {resolutions - 1}.")
