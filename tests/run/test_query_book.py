"""What a book of queries keeps at hand, beside the same answers counted anew from all queries."""

from copy import deepcopy

import numpy as np
import pytest

from mrafno.run.query_book import QueryBook
from mrafno.run.records import QueryRecord
from mrafno.storage.arrays import ArrayFile

FILE = ArrayFile("arrays/x.npy", "0" * 64, (1, 9), "float64")
STATUSES = ("running", "told", "failed", "abandoned", "expired")


def used(book, kind, forgiven, retries):
    failures, found = {}, set()
    for query in book.values():
        if query.kind == kind and query.status == "failed":
            failures[query.row] = failures.get(query.row, 0) + (query.id not in forgiven)
        elif query.kind == kind and query.status != "expired":
            found.add(query.row)
    return found | {row for row, times in failures.items() if times > retries}


def check(book, forgiven, trained):
    for kind in ("initial", "pool", "test"):
        for statuses in ((), ("told",), ("told", "running"), ("expired", "failed")):
            expected = [q for q in book.values() if q.kind == kind and (not statuses or q.status in statuses)]
            assert book.of_kind(kind, *statuses) == expected
            assert book.number(kind, *statuses) == len(expected)
            levels = [sum(q.level == level for q in expected) for level in range(2)]
            assert book.counts([kind], 2, *statuses) == levels
        for retries in (0, 1):
            book.allow(retries)
            assert book.used_rows(kind) == used(book, kind, forgiven, retries)
    for status in STATUSES:
        assert book.with_status(status) == [q for q in book.values() if q.status == status]
    taken = {q.step for q in book.values() if q.kind == "pool" and q.status in ("told", "running", "abandoned")}
    assert book.free_steps(3) == [step for step in range(1, 1000) if step not in taken][:3]
    new = [q for q in book.values() if q.kind != "test" and q.status == "told" and q.id not in trained]
    assert (book.new, book.new_number) == (new, len(new))
    for query in list(book.values())[-3:]:
        same = [q for q in book.values() if (q.kind, q.row, q.level) == (query.kind, query.row, query.level)]
        told = [q for q in same if q is not query and q.status == "told"]
        assert sorted(book.duplicates(query, "told"), key=id) == sorted(told, key=id)


@pytest.mark.parametrize("seed", range(4))
def test_every_answer_is_what_counting_anew_gives(seed):
    rng = np.random.default_rng(seed)
    book, forgiven, trained = QueryBook(), set(), set()
    for turn in range(120):
        choice = rng.integers(10)
        if choice < 5 or not book:
            name, kind = f"q{len(book):06d}", ("initial", "pool", "pool", "test")[rng.integers(4)]
            step = book.free_steps(1)[0] if kind == "pool" else None
            book[name] = QueryRecord(name, kind, int(rng.integers(2)), int(rng.integers(12)), step, FILE, 0.0)
        elif choice < 9:
            name = str(rng.choice(list(book)))
            book.change(name, STATUSES[rng.integers(5)])
        elif choice == 9 and turn % 3:
            ids = [q.id for q in book.new][:2]
            book.train(ids)
            trained |= set(ids)
        else:
            ids = [q.id for q in book.with_status("failed")]
            book.forgive(ids)
            forgiven |= set(ids)
        check(book, forgiven, trained)
    copied = deepcopy(book)
    copied.change(next(iter(copied)), "abandoned")
    check(book, forgiven, trained)
    with pytest.raises(TypeError, match="never removed"):
        del book[next(iter(book))]
