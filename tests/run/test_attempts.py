"""A simulation that ends its process does not end one driver after another; real processes, really ended."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import MrafnoWarning
from mrafno.run import Run
from mrafno.run.attempts import Attempts
from tests import runs

SETUP = runs.SETTINGS["initial"] * 2 + runs.SETTINGS["test"]
ROOT = Path(__file__).parents[2]


def drive(folder, how, task):
    """Drive a run to three steps in a process of its own."""
    code = (
        "from tests import runs\n"
        "from mrafno.run import Run\n"
        f"with Run.open({str(folder)!r}, {task}) as run: print(run.advance(total_steps=3).reason)"
    )
    environment = {**os.environ, "DEADLY": how, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(("how", "code", "said"), [
    ("exit", 0, "ended with exit code 0 before it gave an output"),
    ("segfault", -11, "was ended by a signal (Segmentation fault)"),
])  # fmt: skip
def test_a_simulation_that_ends_its_process_fails_and_the_run_goes_on_isolated(tmp_path, how, code, said):
    """The first time it takes the driver with it; then a child process; then its input is left alone."""
    task = "runs.tiny(runs.deadly)"
    runs.create(tmp_path / "run", task=runs.tiny(runs.deadly), retries=1).close()
    first = drive(tmp_path / "run", how, task)
    assert (first.returncode, first.stdout) == (code, "")
    [culprit] = json.loads((tmp_path / "run" / "attempt").read_text())
    second = drive(tmp_path / "run", how, task)
    assert (second.returncode, second.stdout) == (0, "finished 3 steps\n"), second.stderr
    assert not (tmp_path / "run" / "attempt").exists()
    with Run.open(tmp_path / "run", write=False) as run:
        state = run.state
        failed = [q for q in state.queries.values() if q.status == "failed"]
        assert failed[0].id == culprit
        assert all(said in q.reason for q in failed)
        assert set(Counter((q.kind, q.row) for q in failed).values()) == {2}  # and not again
        assert state.lost == {culprit: 1}
        assert f"ended while it simulated {culprit}" in state.warnings[f"loss of {culprit}"]
        assert state.step == 3


def test_a_task_that_cannot_be_sent_away_fails_at_its_second_driver(tmp_path):
    runs.create(tmp_path / "run", task=runs.tiny(runs.deadly)).close()
    task = "runs.tiny(runs.immovable())"
    codes = [drive(tmp_path / "run", "exit", task).returncode for _ in range(2)]
    assert codes == [0, 0]
    with Run.open(tmp_path / "run", runs.tiny(runs.smooth)) as run:
        [(culprit, times)] = run.state.lost.items()
        assert times == 1
        assert run.advance(steps=1).reason == "finished 1 step"
        query = run.state.queries[culprit]
        assert query.status == "failed"
        assert "ended the process that drove the run 2 times, by a crash or an exit" in query.reason
        assert "--isolate" in query.reason


def test_a_driver_that_was_killed_for_another_reason_is_no_failure(tmp_path):
    """The simulation is tried again in a child process, and succeeds; so does the rest, in this process."""
    with runs.ready(tmp_path / "run") as run:
        [query] = run.ask(1)
        (tmp_path / "run" / "attempt").write_text(json.dumps([query.id, "q999999", 3]))
        with pytest.warns(MrafnoWarning, match=f"ended while it simulated {query.id}"):
            assert run.advance(steps=2).reason == "finished 2 steps"
        assert run.state.lost == {query.id: 1}
        assert [q.status for q in run.state.of_kind("pool")] == ["told", "told"]
        expected = runs.smooth(query.f, query.level)
        np.testing.assert_array_equal(run.ledger.read_array(run.state.queries[query.id].output), expected)
        assert not Attempts(run.session, exposed=True).deadly


@pytest.mark.parametrize("kind", ["lost", "warned"])
def test_a_driver_that_dies_while_it_counts_a_loss_does_not_let_it_count_twice(tmp_path, monkeypatch, kind):
    with runs.ready(tmp_path / "run") as run:
        [query] = run.ask(1)
        (tmp_path / "run" / "attempt").write_text(json.dumps([query.id]))
        record = run.recorder.record

        def dies(what, /, **data):
            record(what, **data)
            if what == kind:
                raise KeyboardInterrupt

        monkeypatch.setattr(run.recorder, "record", dies)
        with pytest.raises(KeyboardInterrupt):
            run.advance(steps=1)
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert run.advance(steps=1).reason == "finished 1 step"
        assert run.state.lost == {query.id: 1}
        assert run.state.queries[query.id].status == "told"


@pytest.mark.parametrize("content", ["", "[", "{}", '["../../etc"]', "3"])
def test_a_file_of_attempts_that_means_nothing_is_removed(tmp_path, content):
    with runs.ready(tmp_path / "run") as run:
        (tmp_path / "run" / "attempt").write_text(content)
        run.advance(steps=1)
        assert run.state.lost == {}
    assert not (tmp_path / "run" / "attempt").exists()


def test_what_runs_is_on_the_disk_while_it_runs(tmp_path):
    seen = []

    def looks(f, level):
        seen.append(json.loads((tmp_path / "run" / "attempt").read_text()))
        return runs.smooth(f, level)

    with runs.create(tmp_path / "run", task=runs.tiny(looks)) as run:
        run.advance(steps=2)
        assert seen == [[id] for id in run.state.queries]
    assert len(seen) == SETUP + 2
