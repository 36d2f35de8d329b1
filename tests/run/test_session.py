"""Asking and telling by hand: what was asked is kept, what is refused changes nothing, and bits come back."""

import io
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
from rich.console import Console

from mrafno import surrogate
from mrafno.acquisition import PoolGrams, PoolUtility, annealed_cost, pool_grams, select
from mrafno.cli.display import Snapshot
from mrafno.cli.tables import comparison, run_table
from mrafno.data.pool import draw
from mrafno.errors import (
    AcquisitionError,
    CheckpointError,
    LedgerError,
    LedgerLockedError,
    MrafnoError,
    RunError,
    SimulationError,
    TaskError,
)
from mrafno.grids import relative_l2, resample
from mrafno.report import write_report
from mrafno.run import Run
from mrafno.run import session as asktell
from mrafno.run import trainer as learning
from mrafno.storage.ledger import Ledger
from mrafno.surrogate.out_of_fold import OutOfFoldPredictions
from mrafno.tasks import get_task
from tests import runs


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        yield run


def files(folder):
    """Everything in a folder: names and contents."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# Beginning.


def test_a_run_is_not_begun_twice_in_a_folder(tmp_path):
    with runs.create(tmp_path / "run") as run:
        before = runs.ledger_bytes(run)
    with Run.open(tmp_path / "run") as run:
        assert repr(run) == f"<Run {tmp_path / 'run'}: tiny, {run.state.method}, seed 0, step 0, cost 0>"
    with pytest.raises(LedgerError, match=r"exists already. Go on with it .*, or choose another folder"):
        runs.create(tmp_path / "run", seed=1)
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"method": "mra-uhut"}, AcquisitionError, r"unknown method 'mra-uhut'. The known ones are .*mra-uhat"),
        ({"inital": 3}, RunError, "unknown setting 'inital'. Did you mean 'initial'"),
        ({"alpha": -1}, RunError, "alpha"),
        ({"seed": -1}, RunError, "seed must be a whole number, 0 or more, got -1"),
        ({"seed": 0.5}, RunError, "got 0.5"),
        ({"seed": True}, RunError, "got True"),
        ({"test": 40}, RunError, "40 candidates are too few"),
    ],
)
def test_what_is_wrong_leaves_no_run_behind(tmp_path, settings, error, says):
    with pytest.raises(error, match=says):
        runs.create(tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_a_run_that_could_not_keep_its_inputs_is_let_go_and_keeps_them_when_it_is_opened(tmp_path, monkeypatch):
    """As when it is killed, or the disk is full, between its first two events."""
    with monkeypatch.context() as patched:

        def full(*_):
            raise LedgerError("no space")

        patched.setattr(Ledger, "write_array", full)
        with pytest.raises(LedgerError, match="no space"):
            runs.create(tmp_path / "run")
    with pytest.raises(TaskError, match="its inputs are missing"):
        Run.open(tmp_path / "run")
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        np.testing.assert_array_equal(run.inputs.pool, draw(run.task, run.settings, 0).pool)
        assert len(run.ask(1)) == 1
    with Run.open(tmp_path / "run") as run:
        assert [event.kind for event in run.ledger.events] == ["created", "inputs", "asked"]


# Asking.


def test_first_come_initial_examples_of_every_level_then_test_ones_then_choices(tmp_path):
    with runs.create(tmp_path / "run") as run:
        queries = [query for n in (1, 4, 2, 100) for query in run.ask(n)]
        assert [(q.kind, q.level) for q in queries] == [
            *[("initial", 0)] * 3, *[("initial", 1)] * 3, *[("test", 1)] * 4,
        ]  # fmt: skip
        assert [q.id for q in queries] == [f"q{n:06d}" for n in range(10)]
        inputs = draw(run.task, run.settings, 0)
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
    write, calls = run.ledger.write_array, []

    def full(name, values):
        calls.append(name)
        if len(calls) == 3:
            raise LedgerError("no space")
        return write(name, values)

    monkeypatch.setattr(run.ledger, "write_array", full)
    with pytest.raises(LedgerError, match="no space"):
        run.ask(4)
    assert runs.ledger_bytes(run) == kept
    assert len(run.state.running) == 3


def oracle(run, kind):
    """The Gram matrices of the pool, computed directly, with as many values as each level has points."""
    task, grid = run.task, run.task.grids[0]
    pool = resample(run.inputs.pool, task.grids[-1], grid)
    predictions = [run.surrogate.predict(pool, level, grid=grid, units="normalised") for level in range(task.levels)]
    found = pool_grams([predictions])
    scale = [math.prod(g.shape) / math.prod(grid.shape) for g in task.grids]
    gram = found.gram * found.gram.new_tensor(scale)[:, None, None]
    return PoolUtility(PoolGrams(gram, found.log_noise, tuple(math.prod(g.shape) for g in task.grids)), kind)


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
        while queries := run.ask(2, budget=budget):
            costs = [run.task.costs[q.level] for q in run.state.of_kind("pool")]
            assert math.fsum(costs) <= budget
            runs.answer(run, queries[:1])
        left = budget - math.fsum(costs if run.state.of_kind("pool") else [])
        assert left < 1.0 or len(run.state.of_kind("pool")) == 12


def test_what_failed_gives_its_budget_back_and_what_was_dearer_takes_more(run):
    [query] = run.ask(1, budget=5.0)
    run.fail(query.id, "no")
    [query] = run.ask(1, budget=5.0)
    run.tell(query.id, runs.smooth(query.f, query.level), cost=4.5)
    assert run.state.cost == 4.5
    assert run.ask(1, budget=5.0) == []
    [query] = run.ask(1, budget=5.5)
    assert query.level == 0


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
    before, state = files(run.ledger.folder), runs.decisions(run.state)
    nan, infinite = y.copy(), y.copy()
    nan[0, 3], infinite[0, 0] = np.nan, np.inf
    refused = [
        (told.id, runs.smooth(told.f, told.level), {}, rf"{told.id} was told already, nothing is changed. Running"),
        ("q000099", y, {}, f"nobody asked for 'q000099'. Running now: {query.id}."),
        ("../../q000011", y, {}, "nobody asked for"),
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
        assert files(run.ledger.folder) == before, says
        assert runs.decisions(run.state) == state
    for answer in (run.fail, run.abandon):
        for id in (told.id, "q000099"):
            with pytest.raises(RunError, match=r"already|nobody asked"):
                answer(id, "no")
    assert files(run.ledger.folder) == before
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


def test_the_run_goes_on_with_fewer_initial_examples(tmp_path):
    with runs.create(tmp_path / "run", retries=0) as run:
        for query in run.ask(1000):
            if query.id == "q000001":
                run.fail(query.id, "no")
            else:
                runs.answer(run, [query])
        [query] = run.ask(1)
        assert query.kind == "pool"
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
        other = asktell._Wanted("pool", 1 - first.level, first.candidate, 1)
        run._take_back()
        [second] = run._record([other])
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


# Learning.


def test_surprises_are_errors_before_learning(run):
    queries = run.ask(3)
    expected = {}
    for query in queries:
        y = runs.smooth(query.f, query.level)
        expected[query.id] = float(relative_l2(run.surrogate.predict(query.f[None], query.level).mean, y[None])[0])
    runs.answer(run, queries)
    training = run.train()
    assert training.prequential_errors == pytest.approx(expected, rel=1e-6)
    assert training.added == tuple(q.id for q in queries)
    assert run.train() is None


def test_outputs_of_nothing_but_zeros_are_examples_too(tmp_path):
    """Their relative error is beyond all numbers."""
    with runs.ready(tmp_path / "run", "mra-auto") as run:
        for _ in range(3):
            for query in run.ask(2):
                run.tell(query.id, np.zeros_like(query.f))
            run.train()
        assert max(error for _, error in run.state.prequential_errors()) <= 10


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_metric_beyond_all_numbers_does_not_stop_a_run(tmp_path):
    """Test outputs whose squares are beyond float64: everybody who reads the run copes."""
    with runs.create(tmp_path / "run", test=2) as run, np.errstate(all="ignore"):
        for query in run.ask(1000):
            y = runs.smooth(query.f, query.level)
            run.tell(query.id, 0 * y + 1e200 if query.kind == "test" else y)
        run.advance(2)
        assert [e.metrics["relative_l2"] for e in run.state.evaluations] == [None, None]
        assert all(0 <= share <= 1 for share in run.state.evaluations[0].metrics["coverage"].values())
        assert run.state.measurements == []
        assert Snapshot.of(run.state).error is None
        assert run.state.as_json()["steps"][1]["metrics"]["relative_l2"] is None
        Console(file=io.StringIO()).print(run_table(run.state, tmp_path / "run"))
        assert comparison([(tmp_path / "run", run.state)], [0.1])["runs"][0]["error"] is None
    with np.errstate(all="ignore"):
        write_report([tmp_path / "run"], tmp_path / "report.html")
    assert "No error has been measured." in (tmp_path / "report.html").read_text(encoding="utf-8")


class Interrupted(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("moment", ["early", "late", "recording"])
def test_training_that_is_interrupted_begins_again_with_what_the_ledger_knows(tmp_path, monkeypatch, moment):
    with runs.ready(tmp_path / "run") as run, runs.ready(tmp_path / "other") as other:
        for one in (run, other):
            runs.answer(one, one.ask(2))
        other.train()

        def interrupt(*_, **__):
            raise Interrupted

        with monkeypatch.context() as patched:
            if moment == "late":
                patched.setattr(OutOfFoldPredictions, "shift", interrupt)
            if moment == "recording":
                patched.setattr(run.ledger, "append", interrupt)
            with pytest.raises(Interrupted):
                run.train(interrupt if moment == "early" else None)
        assert len(run.state.trainings) == 1
        run.train()
        assert runs.weights(run) == runs.weights(other)
        assert runs.decisions(run.state) == runs.decisions(other.state)
        run.save()
        run._surrogate = None
        assert runs.weights(run) == runs.weights(other)


def test_brief_fits_between_whole_ones_follow_from_the_ledger_too(tmp_path, monkeypatch):
    quick = partial(surrogate.get_surrogate, training={"brief_iterations": 2, "early_iterations": 2})
    monkeypatch.setattr(surrogate, "get_surrogate", quick)
    with runs.create(tmp_path / "run", refresh=1.0, brief=2) as run:
        runs.set_up(run)
        for _ in range(7):
            runs.answer(run, run.ask(1), cost=1.0)
        run.train_and_evaluate_if_due()
        # Six to begin with, so the seventh is more than as many again; thirteen are few enough to begin anew.
        assert [(len(t.added), t.brief, t.from_scratch) for t in run.state.trainings] == [
            (6, False, True), (2, True, False), (2, True, False), (2, True, False), (1, False, True),
        ]  # fmt: skip
        runs.answer(run, run.ask(2), cost=1.0)
        run.train_and_evaluate_if_due()
        assert run.state.trainings[-1].brief
        expected = runs.weights(run)
    shutil.rmtree(tmp_path / "run" / "surrogate")
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert runs.weights(run) == expected


@pytest.mark.parametrize(
    ("few", "refresh", "last", "needed", "from_scratch"),
    [
        (100, 0.0, False, 2, True),
        (100, 0.0, True, 2, True),
        (100, 1.0, True, 2, False),
        (8, 0.0, False, 2, False),
        (100, 0.0, False, 20, False),
    ],
)
def test_whole_fits_begin_anew_while_examples_are_few(tmp_path, monkeypatch, few, refresh, last, needed, from_scratch):
    """But not one that is only made because a run ends, or that has not half the iterations that are needed."""
    monkeypatch.setattr(learning, "_FEW", few)
    fits = []
    with runs.ready(tmp_path / "run", refresh=refresh) as run:
        run.surrogate.training = run.surrogate.training.changed(early_iterations=needed)
        fit = type(run.surrogate).fit
        monkeypatch.setattr(
            type(run.surrogate), "fit", lambda *a, **k: fits.append((k["warm"], k["brief"])) or fit(*a, **k)
        )
        runs.answer(run, run.ask(2), cost=1.0)
        run.train_and_evaluate_if_due(last=last)
        assert [(t.brief, t.from_scratch) for t in run.state.trainings] == [(False, True), (False, from_scratch)]
        assert fits == [(not from_scratch, from_scratch)]
        expected = runs.weights(run)
    shutil.rmtree(tmp_path / "run" / "surrogate")
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert runs.weights(run) == expected


@pytest.mark.parametrize(
    ("method", "inference"), [("mra-uhat", "sgld"), ("mra-auto", "svi"), ("mra-u", "dropout"), ("coreset-mix", "point")]
)
def test_every_way_of_inference_chooses_and_is_resumed(tmp_path, method, inference):
    with runs.ready(tmp_path / "run", method, inference=inference) as run:
        assert run.surrogate.name == inference
        for _ in range(2):
            [query] = run.ask(1)
            runs.answer(run, [query])
            run.train()
        expected = runs.weights(run), runs.choices(run.state)
    shutil.rmtree(tmp_path / "run" / "surrogate", ignore_errors=True)
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert (runs.weights(run), runs.choices(run.state)) == expected
        assert run.surrogate.name == inference


def test_a_run_whose_inference_cannot_choose_is_not_begun(tmp_path):
    with pytest.raises(AcquisitionError, match="mra-u: information is measured between the samples"):
        runs.create(tmp_path / "run", "mra-u", inference="point")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "retrain", "fate"),
    [
        *[("mra-uhat", "warm", fate) for fate in ("missing", "old", "damaged", "description", "empty", "foreign")],
        ("mra-uhat", "warm", "ahead"),
        ("mra-uhat", "scratch", "old"),
        ("mr-dropout", "warm", "old"),
        ("mr-dropout", "scratch", "missing"),
    ],
)
def test_whatever_becomes_of_the_checkpoint_the_bits_are_the_same(tmp_path, method, retrain, fate):
    folder = tmp_path / "run"
    checkpoint = folder / "surrogate"
    with runs.ready(folder, method, retrain=retrain) as run:
        runs.answer(run, run.ask(2))
        run.train()
        run.save()
        shutil.copytree(checkpoint, tmp_path / "old")
        runs.answer(run, run.ask(2))
        run.train()
        expected = runs.weights(run), [(q.candidate, q.level) for q in run.ask(2)]
    [tensors] = checkpoint.glob("*.safetensors")
    shutil.copytree(folder, tmp_path / "copy")
    if fate in ("missing", "old"):
        shutil.rmtree(checkpoint)
    if fate == "old":
        shutil.copytree(tmp_path / "old", checkpoint)
    if fate == "damaged":
        content = bytearray(tensors.read_bytes())
        content[len(content) // 2] ^= 1
        tensors.write_bytes(content)
    if fate == "description":
        (checkpoint / "surrogate.json").write_text("{}")
    if fate == "empty":
        shutil.rmtree(checkpoint)
        checkpoint.mkdir()
    if fate == "ahead":
        with Run.open(tmp_path / "copy", runs.tiny()) as run:
            runs.answer(run, run.ask(2))
            run.train()
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / "copy" / "surrogate", checkpoint)
    if fate == "foreign":
        with runs.create(tmp_path / "foreign", method, seed=1) as run:
            runs.set_up(run).train()
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / "foreign" / "surrogate", checkpoint)
    with Run.open(folder, runs.tiny()) as run:
        found = runs.weights(run), [(q.row, q.level) for q in run.state.of_kind("pool")[-2:]]
        assert found == expected
        complaints = [note for note in run.ledger.damage if note.endswith("Trained again from the ledger.")]
        assert len(complaints) == (fate in ("damaged", "description", "empty"))
    # And the choice after it rests on the same predictions.
    with Run.open(folder, runs.tiny()) as run, Run.open(tmp_path / "copy", runs.tiny()) as copy:
        if fate != "ahead":
            assert run.ask(3)[0].candidate == copy.ask(3)[0].candidate
            assert runs.decisions(run.state) == runs.decisions(copy.state)


def test_a_checkpoint_of_another_past_is_not_taken(tmp_path):
    """As when the ledger is restored from an older copy, and the run goes another way from there."""
    folder = tmp_path / "run"
    with runs.ready(folder, initial=14) as run:
        shutil.copytree(folder, tmp_path / "older")
        for query in run.ask(2):
            run.tell(query.id, 3 * query.f)
        run.train()
    with Run.open(tmp_path / "older", runs.tiny()) as run:
        runs.answer(run, run.ask(2))
        run.train()
        expected = runs.weights(run)
    shutil.rmtree(tmp_path / "older" / "surrogate")
    shutil.copytree(folder / "surrogate", tmp_path / "older" / "surrogate")
    with Run.open(tmp_path / "older", runs.tiny()) as run:
        assert run.state.trainings[-1].shift != 0
        assert runs.weights(run) == expected


@pytest.mark.parametrize("what", ["folder", "surrogate.json", "weights"])
def test_a_link_in_place_of_a_checkpoint_is_not_followed(tmp_path, what):
    folder = tmp_path / "run"
    with runs.ready(folder) as run:
        expected = runs.weights(run)
        runs.answer(run, run.ask(1))
    path = folder / "surrogate"
    if what != "folder":
        [path] = path.glob("*.safetensors") if what == "weights" else [path / what]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = files(tmp_path / "elsewhere") if what == "folder" else (tmp_path / "elsewhere").read_bytes()
    run = Run.open(folder, runs.tiny())
    assert runs.weights(run) == expected
    assert any("is a symbolic link, which is not followed" in note for note in run.ledger.damage)
    if what == "folder":
        with pytest.raises(CheckpointError, match="symbolic link"):
            run.close()
        assert files(tmp_path / "elsewhere") == before
    else:
        run.close()
        assert not path.is_symlink()
        assert (tmp_path / "elsewhere").read_bytes() == before
    with Run.open(folder, runs.tiny(), write=False) as run:  # the first one has let go of its lock
        assert runs.weights(run) == expected


def test_a_reader_saves_nothing(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        expected = runs.weights(run)
    shutil.rmtree(tmp_path / "run" / "surrogate")
    before = files(tmp_path / "run")
    with Run.open(tmp_path / "run", write=False) as reader:
        assert runs.weights(reader) == expected
        reader.save()
    assert files(tmp_path / "run") == before


# Opening.


def test_reading_works_while_another_writes_and_writing_does_not(run):
    [query] = run.ask(1)
    reader = Run.open(run.ledger.folder, write=False)
    assert reader.state == run.state
    before = files(run.ledger.folder)
    for refused in (lambda: reader.ask(1), lambda: reader.tell(query.id, query.f), lambda: reader.fail(query.id, "")):
        with pytest.raises(LedgerError, match="not open for writing"):
            refused()
    assert files(run.ledger.folder) == before
    with pytest.raises(LedgerLockedError, match="is being written by this very process"):
        Run.open(run.ledger.folder)
    runs.answer(run, [query])
    reader.close()


def test_a_run_that_is_closed_can_be_opened_by_the_next(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        run.ask(1)
    with pytest.raises(LedgerError, match="was closed"):
        run.ask(1)
    with Run.open(tmp_path / "run") as again:
        assert again.state == run.state


def test_another_task_is_refused_and_nothing_stays_locked(tmp_path):
    runs.create(tmp_path / "run").close()
    for other in (runs.tiny(costs=(1.0, 6.0)), runs.tiny3(), get_task("burgers")):
        with pytest.raises(TaskError, match="not the task that the run began with"):
            Run.open(tmp_path / "run", other)
    Run.open(tmp_path / "run", runs.tiny()).close()


def test_no_run_is_an_error_that_names_the_folder(tmp_path):
    with pytest.raises(LedgerError, match=r"ledger.jsonl is missing. Give the folder of a run"):
        Run.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_ones_own_task_is_not_needed_for_asking_and_telling(tmp_path):
    shutil.copytree(runs._template("mra-uhat", ()), tmp_path / "with")
    shutil.copytree(runs._template("mra-uhat", ()), tmp_path / "without")
    with Run.open(tmp_path / "with", runs.tiny()) as known, Run.open(tmp_path / "without") as unknown:
        for _ in range(3):
            for run in (known, unknown):
                for query in run.ask(2):
                    run.tell(query.id, runs.smooth(query.f, query.level))
        assert runs.decisions(known.state) == runs.decisions(unknown.state)
        assert runs.weights(known) == runs.weights(unknown)
        before = runs.ledger_bytes(unknown)
        with pytest.raises(SimulationError, match=r"tiny: this run does not know its simulator. Open it with the task"):
            unknown.advance(9)
        # No query was failed for that.
        assert runs.ledger_bytes(unknown) == before


def test_a_built_in_task_comes_back_by_its_name(tmp_path):
    task = runs.tiny_burgers()
    with runs.create(tmp_path / "run", "random-mix", task) as run:
        runs.set_up(run)
        assert run.state.inputs is None
    with Run.open(tmp_path / "run") as again:
        assert again.task.identity == task.identity
        np.testing.assert_array_equal(again.inputs.pool, run.inputs.pool)
        runs.answer(again, again.ask(2))


def test_a_copy_elsewhere_goes_on_to_the_same_end(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        runs.answer(run, run.ask(2)[:1])  # one is running still
    shutil.copytree(tmp_path / "run", tmp_path / "far" / "away")
    ends = []
    for folder in (tmp_path / "run", tmp_path / "far" / "away"):
        with Run.open(folder, runs.tiny()) as run:
            run.advance(6)
            ends.append((runs.decisions(run.state), runs.weights(run)))
        shutil.rmtree(tmp_path / "run", ignore_errors=True)  # nothing of it is needed
    assert ends[0] == ends[1]


# Damage.


def test_a_changed_byte_in_an_output_is_named_and_refused(run):
    [query] = run.ask(1)
    runs.answer(run, [query])
    path = run.ledger.folder / "arrays" / f"{query.id}-output.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=rf"{path.name} is damaged or another file: its checksum does not fit"):
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
@pytest.mark.parametrize("part", ["inputs", "output", "input"])
def test_nothing_else_is_read_in_place_of_an_array(tmp_path, what, part):
    folder = tmp_path / "run"
    with runs.ready(folder) as run:
        [query] = run.ask(1)
        runs.answer(run, [query])
    path = folder / "arrays" / ("inputs.npy" if part == "inputs" else f"{query.id}-{part}.npy")
    if what == "link":
        path.rename(tmp_path / "elsewhere.npy")
        path.symlink_to(tmp_path / "elsewhere.npy")
    elif what == "pickle":
        path.write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    else:
        np.save(path, np.array([Bomb(tmp_path / "exploded")], dtype=object), allow_pickle=True)
    says = "is a symbolic link, which is not followed" if what == "link" else "checksum does not fit"
    with pytest.raises(LedgerError, match=rf"{path.name} {says}|{path.name} is damaged"), Run.open(folder) as run:
        run.train()
    assert not (tmp_path / "exploded").exists()


def test_an_event_that_names_a_file_elsewhere_is_refused(tmp_path):
    """Somebody who means harm can make checksums too."""
    with runs.ready(tmp_path / "run") as run:
        [query] = run.ask(1)
        file = run.state.queries[query.id].input.as_json()
        for name in ("../secret.npy", "arrays/../../secret.npy", "/etc/passwd", "arrays/x"):
            data = {"id": query.id, "output": {**file, "file": name}, "cost": 1.0, "seconds": None}
            run.ledger.append("told", **data)
            with pytest.raises(LedgerError, match="is no name of an array in a run"):
                Run.open(tmp_path / "run", write=False)
            content = runs.ledger_bytes(run).splitlines(keepends=True)
            assert json.loads(content.pop())["kind"] == "told"
            (tmp_path / "run" / "ledger.jsonl").write_bytes(b"".join(content))
            run.close()
            run = Run.open(tmp_path / "run", runs.tiny())


def test_checkpoints_are_written_now_and_then(run, monkeypatch):
    """After so many seconds of training, not after every step."""
    path = run.ledger.folder / "surrogate" / "surrogate.json"
    before = path.read_bytes()
    runs.answer(run, run.ask(1))
    run.train()
    assert path.read_bytes() == before
    monkeypatch.setattr(learning, "_CHECKPOINT_SECONDS", 0.0)
    runs.answer(run, run.ask(1))
    run.train()
    assert json.loads(path.read_bytes())["fits"] == 3
