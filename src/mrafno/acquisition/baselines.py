"""Choices by chance, and by distance to the inputs already used. Their scores are not divided by costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from mrafno.acquisition.base import Choice, Context, Indices
from mrafno.acquisition.nearest import NearestUsed
from mrafno.errors import AcquisitionError
from mrafno.grids import Array

#: The coarsest level, the finest, or all of them.
Levels = Literal["low", "high", "mix"]


def allowed_levels(levels: Levels, count: int, only: int | None = None) -> list[int]:
    """The levels, of ``count``, that a name stands for; of these only one if it is given."""
    if levels not in get_args(Levels):
        raise AcquisitionError(f"levels: unknown name {levels!r}. Choose one of {', '.join(get_args(Levels))}.")
    named = {"low": [0], "high": [count - 1], "mix": list(range(count))}[levels]
    return [level for level in named if only in (None, level)]


@dataclass(frozen=True)
class RandomChoice:
    """Every remaining input at every allowed level with the same probability."""

    levels: Levels = "mix"
    name = "random"

    def score(self, context: Context, chosen: Sequence[Choice]) -> Array:
        """Scores ``(candidates, levels)``."""
        levels = allowed_levels(self.levels, context.levels)
        scores = np.full((len(context.candidates), context.levels), -np.inf)
        # The last number separates this stream from others of the same seed and step.
        rng = np.random.default_rng([context.seed, context.step, len(chosen), 2])
        scores[:, levels] = rng.random((len(scores), len(levels)))
        return scores


@dataclass(frozen=True)
class Coreset:
    r"""Distance in feature space to the nearest used input: farthest-point choice.

    .. math:: \min_{(j, s) \in \text{used}} \left\lVert \phi(h, r) - \phi(j, s) \right\rVert_2

    Reference: Sener and Savarese (2018).

    Args:
        levels: those that may be chosen.
        block_size: how many numbers the features held at a time may take, twice. All features together may not fit into
            memory, so they are computed in blocks, and again when needed.
    """

    levels: Levels = "mix"
    block_size: int = 40_000_000
    name = "coreset"

    def score(self, context: Context, chosen: Sequence[Choice]) -> Array:
        """Scores ``(candidates, levels)``."""
        nearest = NearestUsed.of(context, self.name, self.block_size)
        scores = np.full((len(context.candidates), context.levels), -np.inf)
        for level in allowed_levels(self.levels, context.levels, context.only):
            scores[:, level] = np.sqrt(nearest.distances(context, level, chosen).squared)
        return scores


@dataclass(frozen=True)
class LargestClusterMaxDist:
    r"""The input farthest from the used ones in the region of inputs that is covered worst.

    Every candidate h belongs to the used input that is nearest to it, at the squared distance :math:`d_h`. Of the used
    input whose candidates' :math:`d_h` sum to most, the candidate with the largest :math:`d_h` is chosen. Where coreset
    choice takes outliers one after another, this counts how many candidates a choice is near to.

    Reference: Holzmueller et al. (2023), "A Framework and Benchmark for Deep Batch Active Learning for Regression",
    JMLR 24, LCMD.

    Args:
        levels: those that may be chosen; of several, the one with the largest distance.
        block_size: as of :class:`Coreset`.
        relative: divide a candidate's distance by the norm of its predicted output, as relative errors are. Otherwise
            inputs with large outputs are far from all others, and those with small ones are never chosen.
    """

    levels: Levels = "mix"
    block_size: int = 40_000_000
    relative: bool = False
    name = "lcmd"

    def score(self, context: Context, chosen: Sequence[Choice]) -> Array:
        """Scores ``(candidates, levels)``: positive in the worst covered region only."""
        nearest = NearestUsed.of(context, self.name, self.block_size)
        scores = np.full((len(context.candidates), context.levels), -np.inf)
        for level in allowed_levels(self.levels, context.levels, context.only):
            found = nearest.distances(context, level, chosen)
            squared = found.squared / predicted_sizes(context, level) ** 2 if self.relative else found.squared
            distance = np.sqrt(squared)
            if len(distance):
                largest = np.bincount(found.nearest, weights=squared).argmax()
                # Candidates of other used inputs come after, for when a budget leaves nothing else.
                distance = np.where(found.nearest == largest, distance, distance - distance.max())
            scores[:, level] = distance
        return scores


def predicted_sizes(context: Context, level: int) -> Array:
    """Norms ``(candidates,)`` of the candidates' predicted outputs, at least a hundredth of the typical one."""

    def predict() -> tuple[Indices, Array]:
        mean = context.predict(level).mean
        return context.candidates, np.sqrt(np.mean(mean.reshape(len(mean), -1) ** 2, axis=1))

    # The candidates of later choices of a batch are among those of the first.
    rows, sizes = context.once(("predicted sizes", level), predict)
    typical = float(np.median(sizes)) or 1.0
    return np.asarray(np.maximum(sizes[np.searchsorted(rows, context.candidates)], 0.01 * typical))
