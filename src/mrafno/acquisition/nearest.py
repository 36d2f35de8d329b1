"""Distances of candidates to the nearest used input, in the output of the last Fourier layer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from mrafno.acquisition.base import Choice, Context, Indices
from mrafno.errors import AcquisitionError
from mrafno.grids import Array

#: Rows whose distances are computed at a time: what that takes beside the features is little memory.
_ROWS = 100


@dataclass(frozen=True)
class Distances:
    """Squared distance of each candidate to the nearest used input, and which of the used inputs that is.

    ``nearest`` counts those of ``context.used`` first, then the chosen ones.
    """

    squared: Array
    nearest: Indices


@dataclass
class NearestUsed:
    """Finds distances, and keeps them for a batch: a later choice only adds the distances to what was chosen since.

    Args:
        name: of the acquisition, for messages.
        block_size: how many numbers the features held at a time may take, twice. All features together may not fit into
            memory, so they are computed in blocks, and again when needed.
    """

    name: str
    block_size: int
    _found: dict[int, tuple[Indices, list[Choice], Distances]] = field(default_factory=dict)
    #: Features of candidates at each level, where they take little of what a block may.
    _kept: dict[int, tuple[Indices, Array]] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, name: str, block_size: int) -> "NearestUsed":
        """The one of a batch of choices."""
        found: NearestUsed = context.once((name, block_size), lambda: cls(name, block_size))
        return found

    def distances(self, context: Context, level: int, chosen: Sequence[Choice]) -> Distances:
        """Distances of ``context.candidates`` at a level to all used and chosen inputs, each at its own level."""
        if not context.used:
            raise AcquisitionError(
                f"{self.name}: no input was used yet, so all are equally far. Give initial examples."
            )
        rows, first = context.candidates, len(context.used)
        before = self._known(rows, level, chosen)
        if before is None:
            found = self._measured(context, level, [*context.used, *chosen], 0)
        else:
            known, count = before
            new = self._measured(context, level, chosen[count:], first + count)
            closer = new.squared < known.squared
            found = Distances(
                np.where(closer, new.squared, known.squared), np.where(closer, new.nearest, known.nearest)
            )
        self._found[level] = rows.copy(), list(chosen), found
        return found

    def _known(self, rows: Indices, level: int, chosen: Sequence[Choice]) -> tuple[Distances, int] | None:
        """Distances of ``rows`` to what is used and the first of the chosen, and how many those are."""
        if level not in self._found:
            return None
        before, seen, found = self._found[level]
        if list(chosen[: len(seen)]) != seen or not np.isin(rows, before).all():
            return None
        at = np.searchsorted(before, rows)
        return Distances(found.squared[at], found.nearest[at]), len(seen)

    def _measured(self, context: Context, level: int, used: Sequence[Choice], first: int) -> Distances:
        rows = context.candidates
        squared, nearest = np.full(len(rows), np.inf), np.zeros(len(rows), dtype=np.int64)
        if not used or not len(rows):
            return Distances(squared, nearest)
        for part, here in self._blocks(context, rows, level):
            for other in sorted({choice.level for choice in used}):
                numbers = np.array([i for i, choice in enumerate(used) if choice.level == other], dtype=np.int64)
                indices = np.array([used[i].candidate for i in numbers], dtype=np.int64)
                for block, there in self._blocks(context, indices, other):
                    for start in range(0, len(here), _ROWS):
                        squares = _squared_distances(here[start : start + _ROWS], there)
                        at = slice(part.start + start, part.start + start + len(squares))
                        least = squares.min(1).clip(min=0.0)
                        closer = least < squared[at]
                        squared[at] = np.where(closer, least, squared[at])
                        nearest[at] = np.where(closer, first + numbers[block][squares.argmin(1)], nearest[at])
        return Distances(squared, nearest)

    def _blocks(self, context: Context, rows: Indices, level: int) -> Iterator[tuple[slice, Array]]:
        """Flat features of some inputs at a time, with their place among ``rows``."""
        known, features = self._kept.get(level, (None, None))
        if known is not None and features is not None and np.isin(rows, known).all():
            yield slice(0, len(rows)), features[np.searchsorted(known, rows)]
            return
        parts: list[Array] = []
        start, size = 0, 1  # the first input tells how large the others are
        while start < len(rows):
            part = slice(start, start + size)
            values = np.asarray(context.features(level, rows[part]), dtype=np.float64)
            flat = values.reshape(len(rows[part]), -1)
            if not np.isfinite(flat).all():
                raise AcquisitionError(f"{self.name}: features at level {level} have NaN or infinite values.")
            yield part, flat
            if rows is context.candidates and len(rows) * flat.shape[1] <= self.block_size // 4:
                parts.append(flat)
            start, size = start + size, max(1, self.block_size // flat.shape[1])
        if parts:
            self._kept[level] = rows.copy(), np.concatenate(parts)


def _squared_distances(a: Array, b: Array) -> Array:
    """Squared distances between rows as a matrix product, from a point nearby so that little cancels."""
    a, b = a - b[0], b - b[0]
    return np.asarray(np.sum(a**2, 1)[:, None] + np.sum(b**2, 1) - 2 * a @ b.T)
