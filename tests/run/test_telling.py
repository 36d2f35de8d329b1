"""Telling a run that somebody else holds: nobody waits, everything that was acknowledged is there, once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import LedgerLockedError, RunError, SimulationError
from mrafno.run import Run, RunReader, telling
from mrafno.run.answers import Answer, leave_answer
from tests import runs


@pytest.fixture
def held(tmp_path):
    """A run that this process holds, and four of its queries."""
    with runs.create(tmp_path / "run") as run:
        yield run, run.ask(4)


def output(run, query):
    return run.task.solve(query.f[None], query.level)[0]


def statuses(run):
    return [record.status for record in run.state.queries.values()]


def test_a_run_that_is_held_is_told_at_once_and_takes_it_in_when_it_asks(held):
    run, queries = held
    receipt = telling.tell(run.path, queries[0].id, output(run, queries[0]), cost=2.5, seconds=7.0)
    assert receipt == telling.Receipt(recorded=False, running=3)
    assert telling.fail(run.path, queries[1].id, "the node went down").running == 2
    assert telling.abandon(run.path, queries[2].id, "no steady state").running == 1
    assert statuses(run) == ["running"] * 4
    assert RunReader(run.path).untaken == [query.id for query in queries[:3]]
    run.ask(1)
    assert statuses(run) == ["told", "failed", "abandoned", "running", "running"]
    first, second, third, *_ = run.state.queries.values()
    assert (first.cost, first.seconds) == (2.5, 7.0)
    assert (second.reason, third.reason) == ("the node went down", "no steady state")
    np.testing.assert_array_equal(run.recorder.example(first)[1], output(run, queries[0]))
    assert RunReader(run.path).untaken == []
    assert [path.name for path in (run.path / "inbox").iterdir()] == []


def test_a_run_that_nobody_holds_is_told_directly(held):
    run, queries = held
    run.close()
    receipt = telling.tell(run.path, queries[0].id, output(run, queries[0]))
    assert receipt == telling.Receipt(recorded=True, running=3)
    with Run.open(run.path, write=False) as reader:
        assert statuses(reader) == ["told", "running", "running", "running"]


def test_what_is_wrong_is_refused_at_once_and_changes_nothing(held):
    run, queries = held
    good = output(run, queries[0])
    for id, values, how, error, match in (
        ("q000099", good, {}, RunError, "there is no query 'q000099'. Running now: q000000"),
        ("../q1", good, {}, RunError, "there is no query"),
        (queries[0].id, good[:, 1:], {}, RunError, "has shape"),
        (queries[0].id, np.full_like(good, np.nan), {}, SimulationError, "NaN"),
        (queries[0].id, good, {"cost": -1}, RunError, "the cost of q000000 must be a number"),
    ):
        with pytest.raises(error, match=match):
            telling.tell(run.path, id, values, **how)
    assert not (run.path / "inbox").exists()
    telling.tell(run.path, queries[0].id, good)
    with pytest.raises(RunError, match="q000000 was told already by another process; the answer is in the run's inbox"):
        telling.tell(run.path, queries[0].id, good)
    with pytest.raises(RunError, match="was told already by another process"):
        telling.fail(run.path, queries[0].id, "no")
    run.ask(1)
    with pytest.raises(RunError, match="q000000 was told already, nothing is changed"):
        telling.tell(run.path, queries[0].id, good)


def test_an_answer_that_waits_comes_before_one_of_the_holder(held):
    run, [query, other, *_] = held
    y = output(run, query)
    telling.tell(run.path, query.id, y)
    for answer in (lambda: run.fail(query.id, "not known here"), lambda: run.abandon(query.id, "not known here")):
        with pytest.raises(RunError, match=f"{query.id} was told already"):
            answer()
    np.testing.assert_array_equal(run.recorder.example(run.state.queries[query.id])[1], y)
    telling.fail(run.path, other.id, "the node went down")
    with pytest.raises(RunError, match=f"{other.id} was failed already"):
        run.tell(other.id, output(run, other))
    assert run.state.refused == {}


def test_of_two_answers_the_first_taken_in_counts_and_the_other_is_kept_and_reported(held):
    run, [query, *_] = held
    # Both passed the check before either had left its answer.
    first = leave_answer(run.path, Answer(query.id, "told", output(run, query), cost=2.0))
    second = leave_answer(run.path, Answer(query.id, "told", 2 * output(run, query), cost=3.0))
    run.ask(1)
    record = run.state.queries[query.id]
    assert (record.status, record.cost, record.message) == ("told", 2.0, first.name)
    [(name, reason)] = run.state.refused.items()
    assert name == second.name
    assert reason.startswith(f"run: {query.id} was told already")
    assert [path.name for path in (run.path / "inbox" / "refused").iterdir()] == [second.name]
    run.close()
    with Run.open(run.path, runs.tiny()) as again:
        assert again.state.refused == run.state.refused


def test_a_holder_that_dies_before_it_removes_a_message_records_it_once(held, monkeypatch):
    run, queries = held
    for query in queries[:2]:
        leave_answer(run.path, Answer(query.id, "told", output(run, query)))
    leave_answer(run.path, Answer(queries[0].id, "failed", reason="twice"))
    with monkeypatch.context() as patch:
        patch.setattr("mrafno.run.session.remove_message", lambda *_: None)
        patch.setattr("mrafno.run.session.refuse_message", lambda *_: None)
        run.session.take_in()
    assert len(list((run.path / "inbox").iterdir())) == 3
    assert RunReader(run.path).untaken == []
    run.close()
    with Run.open(run.path, runs.tiny()) as again:
        assert statuses(again) == ["told", "told", "running", "running"]
        assert len(again.state.refused) == 1
        assert [event.kind for event in again.ledger.events].count("told") == 2
        assert [event.kind for event in again.ledger.events].count("refused") == 1
    assert [path.name for path in (run.path / "inbox").iterdir()] == ["refused"]


def test_a_damaged_message_is_reported_and_left(held):
    run, [query, other, *_] = held
    damaged = leave_answer(run.path, Answer(query.id, "told", output(run, query)))
    leave_answer(run.path, Answer(other.id, "told", output(run, other)))
    path = run.path / "inbox" / damaged.name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    run.session.take_in()
    run.session.take_in()
    assert statuses(run)[:2] == ["running", "told"]
    assert [text for text in run.ledger.damage if damaged.name in text] == run.ledger.damage
    assert len(run.ledger.damage) == 1
    assert path.exists()


def test_a_loop_takes_in_what_is_told_meanwhile_and_keeps_its_own_result_apart(tmp_path):
    """Somebody tells a query that the loop simulates: what came first counts."""
    told = []

    def solve(f, level):
        if not told:
            told.append(True)
            telling.tell(tmp_path / "run", "q000000", np.zeros(9), cost=7.0)
        return runs.smooth(f, level)

    with runs.create(tmp_path / "run", task=runs.tiny(solve)) as run:
        outcome = run.advance(steps=1)
        assert outcome.steps == 1
        first = run.state.queries["q000000"]
        assert (first.status, first.cost) == ("told", 7.0)
        np.testing.assert_array_equal(run.recorder.example(first)[1], np.zeros((1, 9)))
        assert len(run.state.refused) == 1
        assert len(list((run.path / "inbox" / "refused").iterdir())) == 1


def test_an_ask_waits_for_the_run(held):
    run, _ = held
    with pytest.raises(LedgerLockedError, match="is being written by this very process"):
        Run.open(run.path, wait=0.2)
    run.close()
    Run.open(run.path, runs.tiny(), wait=0.0).close()


# Many at once.


def crowd(*arguments):
    """Processes that tell at the same moment, and are killed at random, or that ask: what they reported."""
    command = [sys.executable, "-m", "tests.crowd", *map(str, arguments)]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_crowd(report, folder, least_killed, record_property):
    record_property("writers", report["queries"])
    record_property("kills", report["killed"])
    record_property("acknowledged", len(report["acknowledged"]))
    assert report["killed"] >= least_killed
    with Run.open(folder, runs.tiny(n=report["queries"] + 20)) as run:
        told = [event.data["id"] for event in run.ledger.events if event.kind == "told"]
        assert len(told) == len(set(told))
        assert set(report["acknowledged"]) <= set(told)
        for id in told:
            record = run.state.queries[id]
            f, y = run.recorder.example(record)
            np.testing.assert_array_equal(y, runs.smooth(f, record.level))
        assert run.state.refused == {}
        assert RunReader(folder).untaken == []


def test_twenty_processes_tell_at_once_and_are_killed_at_random(tmp_path, record_property):
    report = crowd(tmp_path / "run", 20, 1)
    check_crowd(report, tmp_path / "run", 1, record_property)
    # Nobody was refused: whoever was not killed was acknowledged.
    assert len(report["acknowledged"]) + report["killed"] >= 20


def test_twenty_processes_ask_at_once_and_each_is_given_another_simulation(tmp_path, record_property):
    report = crowd("ask", tmp_path / "run", 20)
    record_property("asks at once", 20)
    assert report["ends"] == [0] * 20
    given = [query for [query] in report["given"]]
    with Run.open(tmp_path / "run", runs.tiny(n=40)) as run:
        assert sorted(query["id"] for query in given) == [record.id for record in run.state.running]
        assert len({(record.row, record.level) for record in run.state.running}) == 20
        assert all(record.delivered for record in run.state.running)
        for query in given:
            np.testing.assert_array_equal(np.load(query["input"]), run.query(run.state.queries[query["id"]]).f)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_hundred_processes_tell_at_once_and_are_killed_at_random(tmp_path, seed, record_property):
    report = crowd(tmp_path / "run", 200, seed)
    check_crowd(report, tmp_path / "run", 20, record_property)
    print(len(report["acknowledged"]), "acknowledged,", report["killed"], "killed")
