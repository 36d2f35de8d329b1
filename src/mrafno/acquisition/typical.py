"""The input that is typical of many others: for a mesh of which there are few examples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrafno.acquisition.base import Acquisition, Choice, Context, Indices
from mrafno.acquisition.baselines import Levels, allowed_levels, predicted_sizes
from mrafno.errors import AcquisitionError
from mrafno.grids import Array


@dataclass(frozen=True)
class Typical:
    r"""The input that most lowers the sum of the distances of candidates to the nearest used input.

    .. math:: \sum_j \max(d_j - \lVert \phi(j, r) - \phi(h, r) \rVert, 0) / \lVert \hat y_j \rVert

    over candidates j, with :math:`d_j` the distance to the nearest input used on level r or a finer one, and
    :math:`\hat y_j` the predicted output. Of a fine mesh there are few examples. What distant inputs, which
    :class:`~mrafno.acquisition.baselines.LargestClusterMaxDist` takes, teach of the difference between the meshes does
    not hold for typical ones, and there the surrogate knows the coarse solution least.

    Reference: Kaufman and Rousseeuw (1990), Finding Groups in Data, the BUILD phase of PAM.

    Args:
        levels: those that may be chosen; of several, the one with the largest sum.
        targets: number of candidates in the sum, drawn at random if there are more.
    """

    levels: Levels = "mix"
    targets: int = 300
    name = "typical"

    def score(self, context: Context, chosen: Sequence[Choice]) -> Array:
        """Scores ``(candidates, levels)``."""
        scores = np.full((len(context.candidates), context.levels), -np.inf)
        for level in allowed_levels(self.levels, context.levels, context.only):
            if len(scores):
                scores[:, level] = self._lowered(context, level, chosen)
        return scores

    def _lowered(self, context: Context, level: int, chosen: Sequence[Choice]) -> Array:
        def measure() -> tuple[Indices, Indices, Array, Array]:
            rows = context.candidates
            drawn = context.generator(4).permutation(len(rows))[: self.targets]
            flat = _flat(context, rows, level)
            return rows, rows[drawn], _distances(flat[drawn], flat), predicted_sizes(context, level)[drawn]

        # The candidates of later choices of a batch are among those of the first.
        rows, targets, distances, sizes = context.once((self.name, self.targets, level), measure)
        nearest = np.full(len(targets), distances.max())
        used = [choice for choice in (*context.used, *chosen) if choice.level >= level]
        for other in sorted({choice.level for choice in used}):
            indices = np.array([choice.candidate for choice in used if choice.level == other], dtype=np.int64)
            apart = _distances(_flat(context, targets, level), _flat(context, indices, other))
            nearest = np.minimum(nearest, apart.min(axis=1))
        here = np.searchsorted(rows, context.candidates)
        return np.asarray((np.maximum(nearest[:, None] - distances[:, here], 0.0) / sizes[:, None]).sum(axis=0))


@dataclass(frozen=True)
class ByLevel:
    """One acquisition for the coarsest level, another one for all finer levels."""

    coarsest: Acquisition
    finer: Acquisition
    name = "by-level"

    def score(self, context: Context, chosen: Sequence[Choice]) -> Array:
        """Scores ``(candidates, levels)``; those of different levels are not comparable, so a mesh rule decides."""
        scores = np.full((len(context.candidates), context.levels), -np.inf)
        if context.only in (None, 0):
            scores[:, 0] = np.asarray(self.coarsest.score(context, chosen))[:, 0]
        if context.only != 0:
            scores[:, 1:] = np.asarray(self.finer.score(context, chosen))[:, 1:]
        return scores


def _distances(a: Array, b: Array) -> Array:
    """Distances between rows, as a matrix product from a point nearby so that little cancels."""
    a, b = a - b[0], b - b[0]
    return np.asarray(np.sqrt(np.maximum(np.sum(a**2, 1)[:, None] + np.sum(b**2, 1) - 2 * a @ b.T, 0.0)))


def _flat(context: Context, rows: Indices, level: int) -> Array:
    values = np.asarray(context.features(level, rows), dtype=np.float64)
    if not np.isfinite(values).all():
        raise AcquisitionError(f"typical: features at level {level} have NaN or infinite values.")
    return values.reshape(len(rows), -1)
