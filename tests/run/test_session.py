"""Asking and telling by hand: what was asked is kept, what is refused changes nothing, and bits come back."""

import errno
import json
import math
import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest

from mrafno.acquisition import PoolGrams, annealed_cost, pool_grams, scorer, select
from mrafno.data.pool import draw
from mrafno.errors import (
    LedgerError,
    MrafnoError,
    RunError,
)
from mrafno.grids import resample
from mrafno.run import Run
from tests import runs
from tests.acquisition.contexts import ACQUISITIONS, context_of

pytestmark = pytest.mark.usefixtures("quick")


# Asking.


def test_first_come_initial_examples_of_every_level_then_test_ones_then_choices(tmp_path):
    with runs.create(tmp_path / "run") as run:
        queries = [query for n in (1, 4, 2, 100) for query in run.ask(n)]
        assert [(q.kind, q.level) for q in queries] == [
            *[("initial", 0)] * 3, *[("initial", 1)] * 3, *[("test", 1)] * 4,
        ]  # fmt: skip
        assert [q.id for q in queries] == [f"q{n:06d}" for n in range(10)]
        inputs = draw(run.task, run.recorder.sizes, 0)
        for query in queries:
            row = run.state.queries[query.id].row
            np.testing.assert_array_equal(query.f, run.task.restrict(inputs.of(query.kind, row)[None], query.level)[0])
            assert (query.candidate, query.step) == (None, None)
        assert {run.state.queries[q.id].row for q in queries if q.kind == "initial"} == set(range(6))
        # Everything is running: there is nothing to choose by.
        assert run.ask(3) == []
        runs.answer(run, queries[:4])
        assert run.ask(3) == []  # three of the coarse level, one of the fine one
        runs.answer(run, queries[4:])
        [query] = run.ask()
        assert (query.kind, query.step, query.id) == ("pool", 1, "q000010")
        np.testing.assert_array_equal(query.f, run.task.restrict(inputs.pool[query.candidate][None], query.level)[0])


def test_what_is_asked_is_on_the_disk_before_it_is_returned(run):
    [query] = run.ask(1)
    with Run.open(run.ledger.folder, write=False) as reader:
        [seen] = reader.state.running
        assert (seen.id, seen.row, seen.level, seen.step) == (query.id, query.candidate, query.level, 1)
        np.testing.assert_array_equal(reader.query(seen).f, query.f)
        assert reader.query(seen).candidate == query.candidate


def test_a_batch_is_asked_as_a_whole_or_not_at_all(run, monkeypatch):
    """A driver that dies in between must not learn from a part of it."""
    before = len(run.ledger.events)
    queries = run.ask(3)
    assert len(run.ledger.events) == before + 1
    assert [q.step for q in queries] == [1, 2, 3]
    kept = runs.ledger_bytes(run)
    write = os.write

    def full(handle, content):
        write(handle, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LedgerError, match="no space"):
        run.ask(4)
    assert runs.ledger_bytes(run) == kept
    assert len(run.state.running) == 3
    monkeypatch.undo()
    again = run.ask(4)
    for query in (*queries, *again):
        np.testing.assert_array_equal(run.query(run.state.queries[query.id]).f, query.f)


def oracle(run, kind):
    """The Gram matrices of the pool, computed directly, with as many values as each level has points."""
    task, grid = run.task, run.task.grids[0]
    pool = resample(run.inputs.pool, task.grids[-1], grid)
    predictions = [run.surrogate.predict(pool, level, grid=grid, units="normalised") for level in range(task.levels)]
    found = pool_grams([predictions])
    scale = [math.prod(g.shape) / math.prod(grid.shape) for g in task.grids]
    gram = found.gram * found.gram.new_tensor(scale)[:, None, None]
    pool = PoolGrams(gram, found.log_noise, tuple(math.prod(g.shape) for g in task.grids))
    return scorer(ACQUISITIONS[kind], context_of(pool=pool, costs=task.costs))


@pytest.mark.parametrize(("method", "kind"), [("mra-uhat", "u-hat"), ("mra-u", "u"), ("mr-predvar", "predvar")])
def test_four_ask_four_each_before_anything_is_told(tmp_path, method, kind):
    """Sixteen different candidates, each the best given all that are running: as selecting them directly gives."""
    with runs.ready(tmp_path / "run", method, pool=20, members=4) as run:
        utility, running = oracle(run, kind), []
        for _ in range(4):
            costs = annealed_cost(run.task.costs, len(running), rate=0.01)
            rest = np.setdiff1d(np.arange(20), [row for row, _ in running])
            expected = select(utility, n=4, remaining=rest, pending=running, costs=costs)
            found = [(q.candidate, q.level) for q in run.ask(4)]
            assert found == [tuple(choice) for choice in expected]
            running += found
        assert len({row for row, _ in running}) == 16
        assert [q.step for q in run.state.of_kind("pool")] == list(range(1, 17))


def test_what_runs_changes_what_is_asked(tmp_path):
    """Otherwise the oracle above would prove nothing."""
    with runs.ready(tmp_path / "run", pool=20, members=4) as run:
        alone = select(oracle(run, "u-hat")(np.arange(20), []), n=16, costs=annealed_cost(run.task.costs, 0, rate=0.01))
        assert [(q.candidate, q.level) for q in run.ask(16)] != [tuple(choice) for choice in alone]


def test_the_default_number_is_the_batch(tmp_path):
    with runs.ready(tmp_path / "run", batch=3) as run:
        assert len(run.ask()) == 3
        for n in (0, -1):
            with pytest.raises(RunError, match=f"cannot ask for {n} simulations"):
                run.ask(n)


def test_no_candidate_is_asked_twice_and_the_pool_ends(run):
    seen = []
    while queries := run.ask(5):
        seen += [q.candidate for q in queries]
        runs.answer(run, queries[::2])
    assert sorted(seen) == list(range(12))
    assert run.ask(1) == []


@pytest.mark.parametrize(
    ("method", "budget"),
    [("mra-uhat", 0.5), ("mra-uhat", 7.0), ("mra-auto", 1.0), ("mra-auto", 6.5), ("random-mix", 5.0), ("mra-u", 11.5)],
)
def test_the_budget_is_never_exceeded_whatever_runs_and_nothing_that_fits_is_left(tmp_path, method, budget):
    with runs.ready(tmp_path / "run", method) as run:
        before = run.spent.total
        while queries := run.ask(2, budget=before + budget):
            costs = [run.task.costs[q.level] for q in run.state.of_kind("pool")]
            assert math.fsum(costs) <= budget
            runs.answer(run, queries[:1])
        left = budget - math.fsum(costs if run.state.of_kind("pool") else [])
        assert left < 1.0 or len(run.state.of_kind("pool")) == 12


def test_what_failed_takes_its_budget_and_what_was_dearer_takes_more(run):
    before = run.spent.total
    [query] = run.ask(1, budget=before + 5.0)
    run.fail(query.id, "no", cost=0.5)
    [query] = run.ask(1, budget=before + 5.5)
    run.tell(query.id, runs.smooth(query.f, query.level), cost=4.5)
    assert (run.state.cost, run.spent.total) == (4.5, before + 5.0)
    assert run.ask(1, budget=before + 5.5) == []
    assert run.ask(1, budget=5.0, count="chosen") == []
    [query] = run.ask(1, budget=5.5, count="chosen")
    assert query.level == 0


def test_a_budget_covers_the_first_examples(tmp_path):
    with runs.create(tmp_path / "run") as run:
        assert [query.level for query in run.ask(100, budget=8.5)] == [0, 0, 0, 1]
        assert run.ask(100, budget=8.5) == []
        assert [query.kind for query in run.ask(100, budget=8.5, count="chosen")] == ["initial"] * 2 + ["test"] * 4


def test_the_test_examples_are_never_learnt_from(tmp_path):
    """Whatever they are, weights and choices are the same."""
    bits = []
    for factor in (1.0, 1e6):
        with runs.create(tmp_path / str(factor)) as run:
            for query in run.ask(1000):
                y = runs.smooth(query.f, query.level)
                run.tell(query.id, factor * y if query.kind == "test" else y)
            for _ in range(3):
                runs.answer(run, run.ask(1))
                run.train()
                run.evaluate()
            trained_on = {run.state.queries[id].kind for id in run.state.trained_on}
            bits.append((trained_on, runs.choices(run.state), runs.weights(run)))
    assert bits[0] == bits[1]
    assert bits[0][0] == {"initial", "pool"}


# Telling.


def test_an_output_is_on_the_disk_when_telling_returns(run):
    [query] = run.ask(1)
    y = runs.smooth(query.f, query.level)
    run.tell(query.id, y, cost=2.5, seconds=7)
    with Run.open(run.ledger.folder, write=False) as reader:
        told = reader.state.queries[query.id]
        assert (told.status, told.cost, told.seconds) == ("told", 2.5, 7.0)
        np.testing.assert_array_equal(reader.ledger.read_array(told.output), y)
    assert run.state.cost == 2.5


def test_a_single_channel_may_be_left_out_and_the_cost_is_the_tasks_own(run):
    first, second = run.ask(2)
    run.tell(first.id, first.f[0].tolist())
    run.tell(second.id, second.f.astype(np.float32))
    told = run.state.queries[first.id]
    assert told.output.shape == (1, *run.task.resolutions[first.level])
    assert (told.cost, told.seconds) == (run.task.costs[first.level], None)


def test_what_is_refused_changes_nothing(run):
    told, query = run.ask(2)
    runs.answer(run, [told])
    y = runs.smooth(query.f, query.level)
    before, state = runs.files(run.ledger.folder), runs.decisions(run.state)
    nan, infinite = y.copy(), y.copy()
    nan[0, 3], infinite[0, 0] = np.nan, np.inf
    refused = [
        (told.id, runs.smooth(told.f, told.level), {}, rf"{told.id} was told already, nothing is changed. Running"),
        ("q000099", y, {}, f"there is no query 'q000099'. Running now: {query.id}."),
        ("../../q000011", y, {}, "there is no query"),
        (query.id, y[:, 1:], {}, rf"{query.id} has shape \(1, {y.size - 1}\), level .* gives \(1, {y.size}\)"),
        (query.id, y[0, 1:], {}, rf"{query.id} has shape \({y.size - 1},\), level"),
        (query.id, y[0, :, None], {}, rf"has shape \({y.size}, 1\), level"),
        (query.id, y[None], {}, rf"has shape \(1, 1, {y.size}\), level"),
        (query.id, 3.0, {}, r"has shape \(\), level"),
        (query.id, nan, {}, "1 values that are NaN or infinite"),
        (query.id, infinite, {}, "1 values that are NaN or infinite"),
        (query.id, y + 0j, {}, "complex128"),
        (query.id, y.astype(str), {}, "Give real numbers"),
        (query.id, y > 0, {}, "bool"),
        (query.id, np.array([[None] * y.shape[1]]), {}, "object"),
        (query.id, [[1.0, 2.0], [3.0]], {}, "rows differ in length"),
        (query.id, y, {"cost": -1}, f"the cost of {query.id} must be a number, 0 or more, got -1"),
        (query.id, y, {"cost": math.nan}, "got nan"),
        (query.id, y, {"cost": math.inf}, "got inf"),
        (query.id, y, {"cost": "much"}, "got 'much'"),
        (query.id, y, {"seconds": math.nan}, f"the seconds of {query.id} must be a number"),
        (query.id, y, {"seconds": -1}, "got -1"),
    ]
    for id, output, how, says in refused:
        with pytest.raises(MrafnoError, match=says):
            run.tell(id, output, **how)
        assert runs.files(run.ledger.folder) == before, says
        assert runs.decisions(run.state) == state
    for answer in (run.fail, run.abandon):
        for id in (told.id, "q000099"):
            with pytest.raises(RunError, match=r"already|there is no query"):
                answer(id, "no")
    assert runs.files(run.ledger.folder) == before
    runs.answer(run, [query])


def test_what_failed_is_asked_for_again_and_not_too_often(tmp_path):
    with runs.create(tmp_path / "run", retries=2) as run:
        rows = []
        for _ in range(3):
            [query] = run.ask(1)
            rows.append(run.state.queries[query.id].row)
            run.fail(query.id, "the node went down")
        [other] = run.ask(1)
        assert rows == [0, 0, 0]
        assert run.state.queries[other.id].row == 1
        assert run.state.queries["q000000"].reason == "the node went down"


def test_a_choice_that_failed_comes_back_and_one_that_is_abandoned_does_not(run):
    [first] = run.ask(1)
    run.fail(first.id, "no")
    [again] = run.ask(1)
    assert (again.candidate, again.level, again.step) == (first.candidate, first.level, 1)
    run.abandon(again.id, "no steady state")
    rest = []
    while queries := run.ask(4):
        rest += [q.candidate for q in queries]
    assert sorted([*rest, first.candidate]) == list(range(12))


def test_the_run_goes_on_with_fewer_initial_examples_where_no_candidate_is_left(tmp_path):
    with runs.create(tmp_path / "run", "random-low", task=runs.tiny(n=13), retries=0) as run:
        for query in run.ask(1000):
            if query.id == "q000001":
                run.fail(query.id, "no")
            else:
                runs.answer(run, [query])
        for candidate in range(3):
            [query] = run.ask(5)
            assert (query.kind, query.candidate) == ("initial", candidate)
            run.fail(query.id, "no")
        assert run.ask(1) == []
        assert run.state.used_rows("pool") == {0, 1, 2}
        assert len(run.state.trained_on) == 5


# Leases.


def test_what_nobody_answered_in_time_goes_back_to_the_pool(tmp_path, monkeypatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    with runs.ready(tmp_path / "run", lease=60.0) as run:
        [first] = run.ask(1)
        now += 50
        [second] = run.ask(1)
        assert second.candidate != first.candidate
        assert run.state.queries[second.id].expires == now + 60
        now += 59
        with Run.open(tmp_path / "run", write=False) as reader:
            assert [q.id for q in reader.state.running] == [first.id, second.id]
        now += 2
        [again] = run.ask(1)
        assert [run.state.queries[q.id].status for q in (first, second, again)] == ["expired", "expired", "running"]
        assert (again.candidate, again.level, again.step) == (first.candidate, first.level, 1)
        # Who is late is heard all the same, once.
        runs.answer(run, [second])
        with pytest.raises(RunError, match=f"{second.id} was told already"):
            runs.answer(run, [second])
        with pytest.raises(RunError, match=f"{first.id} was expired already"):
            run.fail(first.id, "no")
        assert second.candidate in run.state.used_rows("pool")
        assert [q.id for q in run.state.not_trained_on] == [second.id]


@pytest.mark.parametrize("kind", ["initial", "pool"])
def test_of_two_answers_to_one_simulation_the_first_counts(tmp_path, monkeypatch, kind):
    """It was asked again after its lease; both are answered, in either order, and one example comes of it."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    for first in (0, 1):
        folder = tmp_path / str(first)
        with runs.create(folder, lease=60.0) if kind == "initial" else runs.ready(folder, lease=60.0) as run:
            asked = run.ask(1)
            now += 61
            asked += run.ask(1)
            early, late = asked[first], asked[1 - first]
            assert np.array_equal(early.f, late.f)
            assert (early.kind, early.level) == (late.kind, late.level)
            y = runs.smooth(early.f, early.level)
            run.tell(early.id, y, cost=2.0)
            assert run.state.running == []
            [other] = run.ask(1)
            assert not np.array_equal(other.f, early.f)
            step, cost, not_trained_on = run.state.step, run.state.cost, run.state.not_trained_on
            run.tell(late.id, 2 * y, cost=3.0)
            assert (run.state.step, run.state.cost, run.state.not_trained_on) == (step, cost, not_trained_on)
            assert [q.id for q in not_trained_on if q.row == run.state.queries[early.id].row] == [early.id]
            duplicate = run.state.queries[late.id]
            assert (duplicate.status, duplicate.reason) == (
                "abandoned",
                f"{early.id} answered the same simulation before",
            )
            assert duplicate.cost == 3.0
            np.testing.assert_array_equal(run.ledger.read_array(duplicate.output), 2 * y)
            for id in (early.id, late.id):
                with pytest.raises(RunError, match=rf"{id} was (told|abandoned) already"):
                    run.tell(id, y)
            live = run.state
        with Run.open(folder, write=False) as reader:
            assert reader.state.queries == live.queries


def test_the_same_input_on_another_mesh_is_another_simulation(tmp_path, monkeypatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    with runs.ready(tmp_path / "run", lease=60.0) as run:
        [first] = run.ask(1)
        now += 61
        other = {"kind": "pool", "level": 1 - first.level, "row": first.candidate, "step": 1}
        run.session.expire()
        [second] = run.session._ask([other])
        runs.answer(run, [first, second])
        assert [run.state.queries[q.id].status for q in (first, second)] == ["told", "told"]
        assert [q.id for q in run.state.not_trained_on] == [first.id, second.id]


def test_without_a_lease_nothing_is_taken_back(run):
    [query] = run.ask(1)
    assert run.state.queries[query.id].expires is None


def test_telling_loads_neither_torch_nor_statistics(run):
    """They take seconds, and a person at a shell would wait for them with every output."""
    [query] = run.ask(1)
    run.close()
    script = f"""
import sys, numpy
from mrafno.run import Run
with Run.open({str(run.ledger.folder)!r}) as run:
    run.tell({query.id!r}, numpy.ones({query.f.shape}))
print(sorted({{"torch", "scipy.stats"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# Damage.


def test_a_changed_byte_in_an_output_is_named_and_refused(run):
    [query] = run.ask(1)
    runs.answer(run, [query])
    file = run.state.queries[query.id].output
    path = run.ledger.folder / file.file
    content = bytearray(path.read_bytes())
    content[file.offset + file.size - 3] ^= 1
    path.write_bytes(content)
    says = rf"{path.name} at byte {file.offset} is damaged or another file: its checksum does not fit"
    with pytest.raises(LedgerError, match=says):
        run.train()
    assert len(run.state.trainings) == 1
    with Run.open(run.ledger.folder, write=False) as reader:  # the rest stays readable
        assert reader.state.as_json()["steps"][0]["query"] == query.id


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("what", ["link", "pickle", "objects"])
@pytest.mark.parametrize("part", ["inputs.npy", "000000.pack"])
def test_nothing_else_is_read_in_place_of_an_array(tmp_path, what, part):
    folder = tmp_path / "run"
    with runs.ready(folder) as run:
        [query] = run.ask(1)
        runs.answer(run, [query])
    path = folder / "arrays" / part
    if what == "link":
        path.rename(tmp_path / "elsewhere.npy")
        path.symlink_to(tmp_path / "elsewhere.npy")
    elif what == "pickle":
        path.write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    else:
        with path.open("wb") as file:
            np.save(file, np.array([Bomb(tmp_path / "exploded")], dtype=object), allow_pickle=True)
    says = "is a symbolic link, which is not followed" if what == "link" else "checksum does not fit"
    with pytest.raises(LedgerError, match=rf"{path.name}.* (is damaged|{says})"), Run.open(folder) as run:
        run.train()
    assert not (tmp_path / "exploded").exists()


def test_an_event_that_names_a_file_elsewhere_is_refused(tmp_path):
    """Somebody who means harm can make checksums too."""
    with runs.ready(tmp_path / "run") as run:
        [query] = run.ask(1)
        file = run.state.queries[query.id].input.as_json()
        for name in ("../secret.npy", "arrays/../../secret.pack", "/etc/passwd", "arrays/x"):
            data = {"id": query.id, "output": {**file, "file": name}, "cost": 1.0, "seconds": None}
            run.ledger.append("told", **data)
            with pytest.raises(LedgerError, match="is no name of an array in a run"):
                Run.open(tmp_path / "run", write=False)
            content = runs.ledger_bytes(run).splitlines(keepends=True)
            assert json.loads(content.pop())["kind"] == "told"
            for name in ("ledger.jsonl", "ledger.copy.jsonl"):
                (tmp_path / "run" / name).write_bytes(b"".join(content))
            run.close()
            run = Run.open(tmp_path / "run", runs.tiny())
