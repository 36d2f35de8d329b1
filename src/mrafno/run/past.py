"""What the choices of a run rest on: it grows with the run, and is not gathered anew at every choice."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from mrafno.acquisition.base import Choice, Indices
from mrafno.acquisition.level_errors import LevelErrors
from mrafno.run.state import RunState

T = TypeVar("T")


class View(Sequence[T]):
    """What lists that only grow hold now, one list after another, without a copy of them."""

    def __init__(self, *lists: list[T]) -> None:
        self._parts = [(items, len(items)) for items in lists]

    def __len__(self) -> int:
        return sum(number for _, number in self._parts)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(islice(items, number) for items, number in self._parts)

    def __reversed__(self) -> Iterator[T]:
        for items, number in reversed(self._parts):
            yield from (items[place] for place in range(number - 1, -1, -1))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        places = range(len(self))[index]  # raises IndexError, and knows negative ones
        return tuple(map(self._at, places)) if isinstance(places, range) else self._at(places)

    def _at(self, place: int) -> T:
        for items, number in self._parts:
            if place < number:
                return items[place]
            place -= number
        raise IndexError(place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


class Past:
    """What a run has learnt from so far, and which candidates it has not used.

    Args:
        pool: how many candidates there are.

    Attributes:
        observed: chosen examples that the surrogate was trained on, in this order.
        errors: level and prequential error of every chosen example.
        level_errors: what each level contributes to the error, after each fit that measured it.
    """

    def __init__(self, pool: int) -> None:
        self._pool = pool
        self._state: RunState | None = None
        self._trained = self._fits = self._changes = 0
        self._free: NDArray[np.bool_] = np.ones(pool, dtype=bool)
        self.observed: list[Choice] = []
        self.errors: list[tuple[int, float]] = []
        self.level_errors: list[LevelErrors] = []

    def follow(self, state: RunState) -> None:
        """Add what a state has more; start again with another state."""
        if state is not self._state or len(state.trained_on) < self._trained or len(state.trainings) < self._fits:
            self._state, self._trained, self._fits, self._changes = state, 0, 0, 0
            self.observed, self.errors, self.level_errors = [], [], []
            self._free = np.ones(self._pool, dtype=bool)
        queries = state.queries
        fresh = [queries[id] for id in state.trained_on[self._trained :]]
        self.observed += [Choice(q.row, q.level) for q in fresh if q.kind == "pool"]
        for training in state.trainings[self._fits :]:
            errors = [(queries[id], error) for id, error in training.prequential_errors.items()]
            self.errors += [(q.level, error) for q, error in errors if q.kind == "pool"]
            self.level_errors += [] if training.level_errors is None else [training.level_errors]
        self._trained, self._fits = len(state.trained_on), len(state.trainings)
        used = state.used_rows("pool")
        for row in queries.changes[self._changes :]:
            self._free[row] = row not in used
        self._changes = len(queries.changes)

    @property
    def remaining(self) -> Indices:
        """Candidates that were not used, in order."""
        return np.flatnonzero(self._free).astype(np.int64)

    def used(self, state: RunState, first: int) -> Sequence[Choice]:
        """Inputs that were simulated or are: initial examples, whose rows count from ``first``, then observed ones."""
        initial = [
            Choice(q.row if q.from_pool else first + q.row, q.level)
            for q in state.of_kind("initial", "told", "running")
        ]
        return View(initial, self.observed)
