"""The queries of a run by id, with what is asked of them at every step kept at hand.

A run of many steps asks the same questions again and again: which queries wait, which inputs are used, which number the
next choice has. Answers change with a query's status alone, so the time of a step does not grow with their number.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import count, islice
from typing import Any

from mrafno.run.durations import Durations
from mrafno.run.records import Kind, QueryRecord, Status

_STATUSES: tuple[Status, ...] = ("running", "told", "failed", "abandoned", "expired")


class QueryBook(dict[str, QueryRecord]):
    """Queries by id, as they were asked. A status changes by :meth:`change` only."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, int] = {}
        self._by: dict[tuple[Kind, Status], dict[str, None]] = {}
        self._levels: Counter[tuple[Kind, Status, int]] = Counter()
        self._same: dict[tuple[Kind, Kind, int, int], list[str]] = {}
        #: For every row of a kind, how many of its queries have an answer or wait, and which have failed.
        self._holding: Counter[tuple[Kind, int]] = Counter()
        self._failed: dict[tuple[Kind, int], set[str]] = {}
        self._rows: dict[Kind, set[int]] = {}
        self._forgiven: set[str] = set()
        self._steps: Counter[int] = Counter()
        self._free = 1
        #: Examples that are observed and not trained on, and those that are.
        self._new: dict[str, None] = {}
        self._trained: set[str] = set()
        #: Seconds of those that were simulated for this run and gave an output.
        self.durations = Durations()

    def __setitem__(self, id: str, query: QueryRecord) -> None:
        if id in self:
            self._enter(self[id], -1)
        self._places.setdefault(id, len(self._places))
        super().__setitem__(id, query)
        self._same.setdefault(_simulation(query), []).append(id)
        self._enter(query, 1)

    def __delitem__(self, id: str) -> None:
        raise TypeError("a query is never removed")

    def __deepcopy__(self, memo: Any) -> "QueryBook":
        from copy import deepcopy

        book = QueryBook()
        for id, query in self.items():
            book[id] = deepcopy(query, memo)
        book.forgive(self._forgiven)
        book.train(self._trained)
        return book

    def change(self, id: str, status: Status) -> None:
        """Give a query another status; of an answered one, when and in how many seconds is known by then."""
        query = self[id]
        self._enter(query, -1)
        query.status = status
        self._enter(query, 1)

    def forgive(self, ids: Iterable[str]) -> None:
        """Let the inputs of failed queries be asked for as if these had not failed."""
        for id in ids:
            self._forgiven.add(id)

    def train(self, ids: Iterable[str]) -> None:
        """Note that a surrogate was trained on these."""
        for id in ids:
            self._trained.add(id)
            self._new.pop(id, None)

    def untrain(self, ids: Iterable[str]) -> None:
        """Note that no surrogate will be trained on these again, unless they are answered anew."""
        self._trained -= set(ids)

    def _enter(self, query: QueryRecord, sign: int) -> None:
        """Count a query under its status, or count it no more."""
        kind, status, id, source = query.kind, query.status, query.id, _source(query)
        key = (source, query.row)
        if sign > 0:
            self._by.setdefault((kind, status), {})[id] = None
        else:
            del self._by[kind, status][id]
        self._levels[kind, status, query.level] += sign
        if status == "failed":
            failed = self._failed.setdefault(key, set())
            failed.add(id) if sign > 0 else failed.discard(id)
        elif status != "expired":
            self._holding[key] += sign
            rows = self._rows.setdefault(source, set())
            rows.add(query.row) if self._holding[key] else rows.discard(query.row)
        if kind == "pool" and query.step is not None and status in ("told", "running", "abandoned"):
            self._steps[query.step] += sign
            if not self._steps[query.step]:
                self._free = min(self._free, query.step)
        if kind != "test" and status == "told" and sign > 0 and id not in self._trained:
            self._new[id] = None
        elif sign < 0:
            self._new.pop(id, None)
        if sign < 0:
            self.durations.remove(id)
        elif status == "told" and query.seconds is not None and not query.imported:
            self.durations.add(id, query.level, query.answered or 0.0, query.seconds)

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
        kinds: tuple[Kind, ...] = ("initial", "pool", "test")
        return self._sorted(id for kind in kinds for id in self._by.get((kind, status), ()))

    def duplicates(self, query: QueryRecord, *statuses: Status) -> list[QueryRecord]:
        """Other queries for the same simulation with one of these statuses."""
        same = self._same.get(_simulation(query), [])
        return [self[id] for id in same if id != query.id and self[id].status in statuses]

    def used_rows(self, kind: Kind, retries: int) -> set[int]:
        """Inputs of a kind that are answered, running, abandoned, or failed more often than ``retries``.

        Candidates that initial examples have are among those of kind ``pool``.
        """
        failed = [(key[1], ids) for key, ids in self._failed.items() if key[0] == kind]
        given_up = {row for row, ids in failed if len(ids - self._forgiven) > retries}
        return self._rows.get(kind, set()) | given_up

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

    def _sorted(self, ids: Iterable[str]) -> list[QueryRecord]:
        return [self[id] for id in sorted(ids, key=self._places.__getitem__)]


def _source(query: QueryRecord) -> Kind:
    """Whose inputs a query's row counts: those of its kind, or candidates."""
    return query.kind if query.candidate is None else "pool"


def _simulation(query: QueryRecord) -> tuple[Kind, Kind, int, int]:
    """What two queries for the same simulation have in common."""
    return query.kind, _source(query), query.row, query.level
