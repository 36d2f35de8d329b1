"""The queries of a run by id, with what is asked of them at every step kept at hand.

A run of many steps asks the same questions again and again: which queries wait, which inputs are used, which number the
next choice has. Answers change with a query's status alone, so the time of a step does not grow with their number.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Set
from itertools import count, islice
from typing import Any

from mrafno.acquisition.base import Choice
from mrafno.run.durations import Durations
from mrafno.run.records import Kind, QueryRecord, Status

#: Statuses of queries that keep others from asking for their input.
_HOLD = frozenset(("running", "told", "abandoned"))
_KINDS: tuple[Kind, ...] = ("initial", "pool", "test")
_STATUSES: tuple[Status, ...] = ("running", "told", "failed", "abandoned", "expired")


class QueryBook(dict[str, QueryRecord]):
    """Queries by id, as they were asked. A status changes by :meth:`change` only."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, int] = {}
        self._by: defaultdict[tuple[Kind, Status], dict[str, None]] = defaultdict(dict)
        self._levels: defaultdict[tuple[Kind, Status, int], int] = defaultdict(int)
        self._same: defaultdict[tuple[Kind, Kind, int, int], list[str]] = defaultdict(list)
        #: For every row of a kind, how many of its queries have an answer or wait, and which have failed.
        self._holding: defaultdict[tuple[Kind, int], int] = defaultdict(int)
        self._failed: dict[tuple[Kind, int], set[str]] = {}
        self._rows: dict[Kind, set[int]] = {kind: set() for kind in _KINDS}
        self._forgiven: set[str] = set()
        self._retries = 0
        self._lost: set[int] = set()
        #: Candidates that came into use, or out of it, one after another.
        self.changes: list[int] = []
        self._steps: defaultdict[int, int] = defaultdict(int)
        self._free = 1
        #: Examples that are observed and not trained on, and those that are.
        self._new: dict[str, None] = {}
        self._trained: set[str] = set()
        self._pending: dict[str, Choice] = {}
        #: Seconds of those that were simulated for this run and gave an output.
        self.durations = Durations()

    def __setitem__(self, id: str, query: QueryRecord) -> None:
        if id in self:
            self._move(self[id], self[id].status, None)
        self._places.setdefault(id, len(self._places))
        super().__setitem__(id, query)
        self._same[_simulation(query)].append(id)
        self._move(query, None, query.status)

    def __delitem__(self, id: str) -> None:
        raise TypeError("a query is never removed")

    def __deepcopy__(self, memo: Any) -> "QueryBook":
        from copy import deepcopy

        book = QueryBook()
        book.allow(self._retries)
        for id, query in self.items():
            book[id] = deepcopy(query, memo)
        book.lose(self._lost)
        book.forgive(self._forgiven)
        book.train(self._trained)
        return book

    def change(self, id: str, status: Status) -> None:
        """Give a query another status; of an answered one, when and in how many seconds is known by then."""
        query = self[id]
        before, query.status = query.status, status
        self._move(query, before, status)

    def allow(self, retries: int) -> None:
        """Say how often a simulation that failed is tried again before its input counts as used."""
        self._retries = retries
        for source, row in self._failed:
            self._mark(source, row)

    def forgive(self, ids: Iterable[str]) -> None:
        """Let the inputs of failed queries be asked for as if these had not failed."""
        for id in ids:
            self._forgiven.add(id)
            self._mark(_source(self[id]), self[id].row)

    def lose(self, rows: Iterable[int]) -> None:
        """Let candidates count as used: nobody has their inputs any more."""
        for row in rows:
            self._lost.add(row)
            self._mark("pool", row)

    @property
    def lost(self) -> Set[int]:
        """These candidates."""
        return self._lost

    def train(self, ids: Iterable[str]) -> None:
        """Note that a surrogate was trained on these."""
        for id in ids:
            self._trained.add(id)
            self._new.pop(id, None)
            self._pending.pop(id, None)

    def untrain(self, ids: Iterable[str]) -> None:
        """Note that no surrogate will be trained on these again, unless they are answered anew."""
        self._trained -= set(ids)

    def _move(self, query: QueryRecord, before: Status | None, after: Status | None) -> None:
        """Count a query under another status; None: it was not there before, or is not any more."""
        kind, id, level = query.kind, query.id, query.level
        if before is not None:
            del self._by[kind, before][id]
            self._levels[kind, before, level] -= 1
        if after is not None:
            self._by[kind, after][id] = None
            self._levels[kind, after, level] += 1
        change = (after in _HOLD) - (before in _HOLD)
        if change or "failed" in (before, after):
            self._hold(query, change, before, after)
        if before == "told":
            self._new.pop(id, None)
            self.durations.remove(id)
        if after == "told":
            if kind != "test" and id not in self._trained:
                self._new[id] = None
            if query.seconds is not None and not query.imported:
                self.durations.add(id, level, query.answered or 0.0, query.seconds)
        if kind == "pool":
            self._wait(query, after)

    def _hold(self, query: QueryRecord, change: int, before: Status | None, after: Status | None) -> None:
        """Count whether a query keeps its input, and its number, from being asked for again."""
        source = _source(query)
        key = source, query.row
        self._holding[key] += change
        if before == "failed":
            self._failed[key].discard(query.id)
        if after == "failed":
            self._failed.setdefault(key, set()).add(query.id)
        self._mark(source, query.row)
        if query.kind == "pool" and query.step is not None:
            self._steps[query.step] += change
            if not self._steps[query.step]:
                self._free = min(self._free, query.step)

    def _mark(self, source: Kind, row: int) -> None:
        """Note whether an input is in use."""
        key, rows = (source, row), self._rows[source]
        failed = self._failed.get(key)
        used = self._holding[key] > 0 or (failed is not None and len(failed - self._forgiven) > self._retries)
        used |= source == "pool" and row in self._lost
        if used != (row in rows):
            rows.add(row) if used else rows.discard(row)
            if source == "pool":
                self.changes.append(row)

    def _wait(self, query: QueryRecord, status: Status | None) -> None:
        """Note whether a choice waits to be trained on; one that was answered keeps its place among those that do."""
        if status == "running" or (status == "told" and query.id not in self._trained):
            if query.id not in self._pending:
                self._pending[query.id] = Choice(query.row, query.level)
        else:
            self._pending.pop(query.id, None)

    # Questions.

    def of_kind(self, kind: Kind, *statuses: Status) -> list[QueryRecord]:
        """Queries of a kind with one of these statuses (any, if none is given), as they were asked."""
        return self._sorted(id for status in statuses or _STATUSES for id in self._by.get((kind, status), ()))

    def number(self, kind: Kind, *statuses: Status) -> int:
        """How many queries of a kind have one of these statuses."""
        return sum(len(self._by.get((kind, status), ())) for status in statuses or _STATUSES)

    def counts(self, kinds: Iterable[Kind], levels: int, *statuses: Status) -> list[int]:
        """Queries of each level, of some kinds, with one of these statuses."""
        wanted = [(kind, status) for kind in kinds for status in statuses or _STATUSES]
        return [sum(self._levels[kind, status, level] for kind, status in wanted) for level in range(levels)]

    def with_status(self, status: Status) -> list[QueryRecord]:
        """Queries with a status, as they were asked."""
        return self._sorted(id for kind in _KINDS for id in self._by.get((kind, status), ()))

    def duplicates(self, query: QueryRecord, *statuses: Status) -> list[QueryRecord]:
        """Other queries for the same simulation with one of these statuses."""
        same = self._same.get(_simulation(query), [])
        return [self[id] for id in same if id != query.id and self[id].status in statuses]

    def used_rows(self, kind: Kind) -> Set[int]:
        """Inputs of a kind that are answered, running, abandoned, or failed too often; the set changes with the book.

        Candidates that initial examples have are among those of kind ``pool``.
        """
        return self._rows[kind]

    def rows_of(self, queries: Iterable[QueryRecord], retries: int) -> set[int]:
        """Rows of some queries that are answered, running, abandoned, or failed more often than ``retries``."""
        failures: Counter[int] = Counter()
        used = set()
        for query in queries:
            if query.status == "failed":
                failures[query.row] += query.id not in self._forgiven
            elif query.status != "expired":
                used.add(query.row)
        return used | {row for row, times in failures.items() if times > retries}

    def free_steps(self, n: int) -> list[int]:
        """The lowest numbers of choices that no query has."""
        while self._steps[self._free]:
            self._free += 1
        return list(islice((step for step in count(self._free) if not self._steps[step]), n))

    @property
    def new(self) -> list[QueryRecord]:
        """Observations that no surrogate was trained on, as they were asked."""
        return self._sorted(self._new)

    @property
    def new_number(self) -> int:
        """How many these are."""
        return len(self._new)

    @property
    def pending(self) -> list[Choice]:
        """Choices that no surrogate was trained on, running or observed, as they were asked."""
        return list(self._pending.values())

    def _sorted(self, ids: Iterable[str]) -> list[QueryRecord]:
        return [self[id] for id in sorted(ids, key=self._places.__getitem__)]


def _source(query: QueryRecord) -> Kind:
    """Whose inputs a query's row counts: those of its kind, or candidates."""
    return query.kind if query.candidate is None else "pool"


def _simulation(query: QueryRecord) -> tuple[Kind, Kind, int, int]:
    """What two queries for the same simulation have in common."""
    return query.kind, _source(query), query.row, query.level
