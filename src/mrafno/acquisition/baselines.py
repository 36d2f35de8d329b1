"""Baselines: random choice, and the input farthest from those already used. Their scores are not divided by costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from mrafno.acquisition.base import Choice, Context, Indices
from mrafno.errors import AcquisitionError
from mrafno.grids import Array

#: The coarsest level, the finest, or all of them.
Levels = Literal["low", "high", "mix"]


def allowed_levels(levels: Levels, count: int) -> list[int]:
    """The levels, of ``count``, that a name stands for."""
    if levels not in get_args(Levels):
        raise AcquisitionError(f"levels: unknown name {levels!r}. Choose one of {', '.join(get_args(Levels))}.")
    return {"low": [0], "high": [count - 1], "mix": list(range(count))}[levels]


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
        if not context.used:
            raise AcquisitionError("coreset: no input was used yet, so all are equally far. Give initial examples.")
        nearest = context.once("coreset", _Nearest)
        rows = context.candidates
        scores = np.full((len(rows), context.levels), -np.inf)
        for level in allowed_levels(self.levels, context.levels):
            known, new = nearest.known(rows, level, chosen)
            used = new if known is not None else [*context.used, *chosen]
            found = self._squared(context, level, used)
            squared = found if known is None else np.minimum(known, found)
            nearest.keep(rows, level, chosen, squared)
            scores[:, level] = np.sqrt(squared)
        return scores

    def _squared(self, context: Context, level: int, used: Sequence[Choice]) -> Array:
        """Squared distances ``(candidates,)`` to the nearest of those used."""
        rows = context.candidates
        found = np.full(len(rows), np.inf)
        if not used or not len(rows):
            return found
        for part, here in self._blocks(context, rows, level):
            for other in sorted({choice.level for choice in used}):
                indices = np.array([choice.candidate for choice in used if choice.level == other], dtype=np.int64)
                for _, there in self._blocks(context, indices, other):
                    # |a - b|^2 as a matrix product, from a point nearby so that little cancels.
                    a, b = here - there[0], there - there[0]
                    squares = np.sum(a**2, 1)[:, None] + np.sum(b**2, 1) - 2 * a @ b.T
                    found[part] = np.minimum(found[part], squares.min(1).clip(min=0.0))
        return found

    def _blocks(self, context: Context, rows: Indices, level: int) -> Iterator[tuple[slice, Array]]:
        """Flat features of some inputs at a time, with their place among ``rows``."""
        start, size = 0, 1  # the first input tells how large the others are
        while start < len(rows):
            part = slice(start, start + size)
            values = np.asarray(context.features(level, rows[part]), dtype=np.float64)
            flat = values.reshape(len(rows[part]), -1)
            if not np.isfinite(flat).all():
                raise AcquisitionError(f"coreset: features at level {level} have NaN or infinite values.")
            yield part, flat
            start, size = start + size, max(1, self.block_size // flat.shape[1])


class _Nearest:
    """Squared distances found for a batch: a later choice only adds the distances to what was chosen since."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Indices, list[Choice], Array]] = {}

    def known(self, rows: Indices, level: int, chosen: Sequence[Choice]) -> tuple[Array | None, list[Choice]]:
        """Distances of ``rows`` to a part of what was chosen, and the rest of it; None if they are not known."""
        if level not in self._found:
            return None, []
        before, seen, squared = self._found[level]
        if list(chosen[: len(seen)]) != seen or not np.isin(rows, before).all():
            return None, []
        return squared[np.searchsorted(before, rows)], list(chosen[len(seen) :])

    def keep(self, rows: Indices, level: int, chosen: Sequence[Choice], squared: Array) -> None:
        """Keep distances for the next choice."""
        self._found[level] = rows.copy(), list(chosen), squared
