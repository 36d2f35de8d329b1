"""The state is the replay of events, and nothing else."""

import math
import re
import time

import pytest

from mrafno.analysis.estimate import Estimate
from mrafno.errors import LedgerError
from mrafno.run import Run
from mrafno.run.recorder import Recorder
from mrafno.run.settings import RunSettings
from mrafno.run.state import RunState
from mrafno.storage.arrays import ArrayFile
from mrafno.storage.ledger import Event, Ledger
from tests import runs

FILE = ArrayFile("arrays/x.npy", "0" * 64, (1, 9), "float64").as_json()


pytestmark = pytest.mark.usefixtures("quick")


def replayed(*events, **settings):
    """The state after these (kind, data) events of a run."""
    task = {"name": "tiny", "builtin": False}
    created = {"task": task, "method": "mra-u", "seed": 3, "settings": RunSettings(**settings).as_json()}
    pairs = [("created", created), *events]
    return RunState.of([Event(n, kind, 100.0 + n, data) for n, (kind, data) in enumerate(pairs)])


def asked(*rows, kind="pool", first=0, level=0):
    """One event for queries of these rows."""
    entries = [
        {
            "id": f"q{first + i:06d}", "kind": kind, "level": level, "row": row, "input": FILE, "expires": None,
            "step": i + 1 if kind == "pool" else None, "choice": {},
        }
        for i, row in enumerate(rows)
    ]  # fmt: skip
    return "asked", {"queries": entries}


def told(number, cost=1.0):
    return "told", {"id": f"q{number:06d}", "output": FILE, "cost": cost, "seconds": None}


def failed(number):
    return "failed", {"id": f"q{number:06d}", "reason": "no"}


def trained(*numbers, step=0):
    data = {
        "loss": 1.0,
        "out_of_fold_error": None,
        "shift": 0.0,
        "seconds": 1.0,
        "prequential_errors": {},
        "events": [],
    }
    return "trained", {"added": [f"q{n:06d}" for n in numbers], "step": step, **data}


def evaluated(step, cost):
    return "evaluated", {"step": step, "cost": cost, "metrics": {"relative_l2": 1 / (step + 1)}, "seconds": 0.5}


# Replay.


def test_the_replay_equals_the_live_state_after_every_kind_of_event(tmp_path, monkeypatch):
    seen = []
    record = Recorder.record

    def checked(run, kind, /, **data):
        record(run, kind, **data)
        seen.append(kind)
        assert run.state == RunState.of(run.ledger.events)
        assert run.state == RunState.of(Ledger.open(run.ledger.folder).events)

    monkeypatch.setattr(Recorder, "record", checked)
    with runs.create(tmp_path / "run", lease=0.05) as run:
        queries = run.ask(1000)
        run.fail(queries[0].id, "no")
        run.abandon(queries[1].id, "never")
        runs.answer(run, queries[2:], seconds=0.5)
        [again] = run.ask(1)
        time.sleep(0.1)
        [leased] = run.ask(1)
        assert leased.id != again.id
        run.tell(again.id, runs.smooth(again.f, again.level), cost=3)
        runs.answer(run, [leased])
        run.advance(total_steps=1)
    assert set(seen) == {"inputs", "asked", "told", "failed", "abandoned", "expired", "trained", "evaluated", "stopped"}
    with Run.open(tmp_path / "run", write=False) as again:
        assert again.state == run.state


def test_an_event_that_nobody_knows_or_that_makes_no_sense_is_refused():
    with pytest.raises(LedgerError, match=re.escape("event 1 is of unknown kind 'danced'. Upgrade mrafno.")):
        replayed(("danced", {}))
    for event in (told(5), ("told", {}), ("asked", {"queries": [{"id": "q000000"}]}), ("trained", {"added": 3})):
        with pytest.raises(LedgerError, match=rf"event 1 \({event[0]}\) makes no sense"):
            replayed(event)
    with pytest.raises(LedgerError, match="does not name an array"):
        replayed(("inputs", {"inputs": {"file": "../x"}}))


# Questions.


def test_inputs_that_failed_are_asked_for_again_until_they_failed_too_often():
    events = [asked(4, 5, 6), told(0), failed(1)]
    assert replayed(*events, retries=1).used_rows("pool") == {4, 6}
    assert replayed(*events, retries=0).used_rows("pool") == {4, 5, 6}
    again = [*events, asked(5, first=3), failed(3)]
    assert replayed(*again, retries=1).used_rows("pool") == {4, 5, 6}
    assert replayed(*again, retries=2).used_rows("pool") == {4, 6}
    assert replayed(*again, retries=2).used_rows("initial") == set()
    more = [*again, asked(5, first=4), told(4)]
    assert replayed(*more, retries=2).used_rows("pool") == {4, 5, 6}


def test_abandoned_inputs_are_used_and_expired_ones_are_not():
    abandoned = ("abandoned", {"id": "q000000", "reason": "never"})
    expired = ("expired", {"id": "q000001"})
    state = replayed(asked(4, 5), abandoned, expired)
    assert state.used_rows("pool") == {4}
    assert [q.status for q in state.queries.values()] == ["abandoned", "expired"]
    assert replayed(asked(4, 5), abandoned, expired, told(1)).used_rows("pool") == {4, 5}


def test_failures_are_forgiven_when_a_simulator_was_to_be_mended():
    stop = ("stopped", {"reason": "too many", "forgive": True})
    events = [asked(4), failed(0), asked(4, first=1), failed(1), stop]
    state = replayed(*events, retries=1)
    assert state.used_rows("pool") == set()
    assert state.activity() == "too many"
    after = [*events, asked(4, first=2), failed(2)]
    assert replayed(*after, retries=1).used_rows("pool") == set()
    assert replayed(*after, asked(4, first=3), failed(3), retries=1).used_rows("pool") == {4}
    plain = [*events[:-1], ("stopped", {"reason": "interrupted"})]
    assert replayed(*plain, retries=1).used_rows("pool") == {4}


def test_unlearnt_examples_come_as_they_were_asked():
    events = [asked(0, 1, 2, kind="initial"), asked(7, 8, first=3), asked(0, kind="test", first=5)]
    events += [told(n) for n in (5, 4, 2, 0)]
    assert [q.id for q in replayed(*events).not_trained_on] == ["q000000", "q000002", "q000004"]
    state = replayed(*events, trained(0, 2), told(1), told(3))
    assert [q.id for q in state.not_trained_on] == ["q000001", "q000003", "q000004"]
    assert state.trained_on == ["q000000", "q000002"]
    assert state.counts(2, "told") == [5, 0]
    assert (state.step, state.next_step) == (2, 3)


def test_a_choice_that_failed_is_made_anew_under_its_number():
    assert replayed(asked(4, 5)).next_step == 3
    assert replayed(asked(4, 5), told(0), failed(1)).next_step == 2
    assert replayed(asked(4, 5), told(0), ("abandoned", {"id": "q000001", "reason": ""})).next_step == 3
    # In the middle of a batch, too: no two have the same number.
    assert replayed(asked(4, 5, 6), told(0), failed(1), told(2)).next_steps(3) == [2, 4, 5]


def test_the_estimate_is_of_the_last_fit_and_the_bound_of_the_last_two():
    def fits(*highs):
        found = [high and Estimate(high / 2, high / 4, high, 5, 20, 0.1, 100).as_json() for high in highs]
        return [("trained", {**trained()[1], "estimate": estimate}) for estimate in found]

    state = replayed(*fits(9, 5, 4))
    assert (state.estimate, state.bound) == (2, 5)
    assert state.error_estimate == Estimate(2, 1, 4, 5, 20, 0.1, 100)
    assert replayed(*fits(4)).bound is None
    for last in ([None], [5, None], [None, None]):
        state = replayed(*fits(*last))
        assert (state.estimate, state.bound, state.error_estimate) == (None, None, None)


def test_ledgers_of_earlier_versions_have_no_estimate():
    old = ("trained", {**trained()[1], "out_of_fold_error": 0.1, "out_of_fold_bound": 0.2})
    assert replayed(old, old).estimate is None
    assert replayed(old).trainings[0].out_of_fold_error == 0.1


def test_a_run_is_stopped_until_something_happens():
    stop = ("stopped", {"reason": "interrupted"})
    for lock in ("free", "held", "left"):
        assert replayed(asked(4), stop).activity(lock) == "interrupted"
    assert replayed(asked(4), stop, told(0)).activity("free") == "waiting"
    assert replayed(asked(4), told(0), stop, trained(0)).activity("free") == "waiting"


def test_without_a_driver_nothing_runs():
    """Whoever asks by hand leaves no driver; one that was killed leaves its lock."""
    activities = [replayed(*events).activity(lock) for lock in ("held", "left", "free") for events in ([asked(4)], [])]
    assert activities == ["running", "running", "interrupted", "interrupted", "waiting for answers", "waiting"]
    assert replayed(asked(4)).as_json("left")["state"] == "interrupted"


def test_costs_are_exact():
    """Ten times a tenth is one, in all places."""
    events = [asked(*range(10)), *(told(n, 0.1) for n in range(10)), asked(0, kind="initial", first=10), told(10, 7.0)]
    state = replayed(*events)
    assert state.cost == 1.0
    shown = state.as_json()
    assert [s["accumulated_cost"] for s in shown["steps"]] == [math.fsum([0.1] * n) for n in range(1, 11)]
    assert (shown["accumulated_cost"], shown["initial_cost"], shown["test_cost"]) == (1.0, 7.0, 0.0)


# What people see.


def test_json_has_the_shape_of_the_design(tmp_path):
    with runs.advanced(tmp_path / "run", 3) as run:
        shown = run.state.as_json()
    assert {"task", "method", "seed", "state", "steps"} <= shown.keys()
    assert (shown["task"], shown["method"], shown["seed"]) == ("tiny", "mra-uhat", 0)
    assert shown["state"] == "finished 3 steps"
    assert [s["step"] for s in shown["steps"]] == [1, 2, 3]
    spent = 0.0
    for step, query in zip(shown["steps"], run.state.of_kind("pool"), strict=True):
        assert {"step", "query", "candidate", "level", "cost", "accumulated_cost", "metrics"} <= step.keys()
        assert (step["query"], step["candidate"], step["level"]) == (query.id, query.row, query.level)
        assert step["cost"] == runs.COSTS[query.level]
        spent += step["cost"]
        assert step["accumulated_cost"] == spent
    # evaluate=2: after the first examples, at step 2, and at the end.
    assert shown["steps"][0]["metrics"] is None
    assert shown["steps"][1]["metrics"] == run.state.evaluations[1].metrics
    assert shown["steps"][2]["metrics"]["relative_l2"] > 0
    assert shown["initial_metrics"] == run.state.evaluations[0].metrics
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", shown["created"])


def test_what_was_measured_stands_beside_what_had_been_spent_then():
    """As when three run at a time and the last one asked is the first one told."""
    events = [asked(4, 5, 6), told(2, 8.0), evaluated(1, 8.0), told(1, 1.0), told(0, 2.0)]
    events += [trained(0, 1, 2, step=3), evaluated(3, 11.0)]
    state = replayed(*events)
    for step in state.as_json()["steps"]:
        evaluation = {e.step: e for e in state.evaluations}.get(step["step"])
        assert (step["metrics"] is None) == (evaluation is None)
        assert evaluation is None or evaluation.cost == step["accumulated_cost"]
    assert [s["candidate"] for s in state.as_json()["steps"]] == [6, 4, 5]


def test_running_and_failed_queries_are_named():
    state = replayed(asked(4, 5, 6), failed(1), told(2))
    shown = state.as_json()
    assert shown["running"] == ["q000000"]
    assert shown["failed"] == [{"query": "q000001", "reason": "no", "cost": 0.0, "seconds": None}]
    assert [s["candidate"] for s in shown["steps"]] == [6]
    assert shown["steps"][0]["metrics"] is None
