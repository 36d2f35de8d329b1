"""Asking and telling from the shell."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from mrafno.run import Run, RunReader
from tests.cli.conftest import PART, TINY, mrafno, shown

FIRST = [("initial", 0)] * 3 + [("initial", 1)] * 3 + [("test", 1)] * 4


@pytest.fixture
def created(solver, tmp_path):
    folder = tmp_path / "run"
    result = mrafno("create", f"{solver}:task", "--out", folder, *TINY)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"created {folder}\n", PART)
    solver.unlink()  # ask and tell do not need it
    return folder


def asked(*arguments):
    result = mrafno("ask", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def simulated(query, folder):
    """What the simulator would give, in a file."""
    f = np.load(query["input"])
    path = folder / f"{query['id']}-out.npy"
    np.save(path, np.cumsum(f, axis=-1) / f.shape[-1])
    return path


def test_ask_and_tell_ask_the_same_queries_as_the_loop(created, tmp_path, original):
    first = asked(created, "-n", 10)
    assert [(q["kind"], q["level"]) for q in first] == FIRST
    assert first[0] == {
        "id": "q000000",
        "kind": "initial",
        "level": 0,
        "resolution": [9],
        "candidate": None,
        "step": None,
        "input": str(created / "asked" / "q000000.npy"),
        "parameters": {},
        "cost": 1.0,
    }
    assert np.load(first[0]["input"]).shape == (1, 9)
    nothing = mrafno("ask", created)
    assert (nothing.stdout, nothing.stderr) == (
        "[]\n", "nothing to ask until some of the 10 running simulations are told.\n"
    )  # fmt: skip
    for left, query in zip(range(9, -1, -1), first, strict=True):
        result = mrafno("tell", created, query["id"], simulated(query, tmp_path))
        assert (result.exit_code, result.stdout) == (0, f"told {query['id']}; {left} running\n")
    [query] = asked(created, "--to", tmp_path / "inputs")
    assert (query["kind"], query["step"], query["input"]) == ("pool", 1, str(tmp_path / "inputs" / "q000010.npy"))
    mrafno("tell", created, query["id"], simulated(query, tmp_path), "--cost", 2.5, "--seconds", 7)
    [step], [first_of_loop, *_] = shown(created)["steps"], shown(original[0])["steps"]
    assert (step["cost"], step["seconds"], step["accumulated_cost"]) == (2.5, 7.0, 2.5)
    assert [step[name] for name in ("query", "candidate", "level")] == [
        first_of_loop[name] for name in ("query", "candidate", "level")
    ]


def test_inputs_whose_outputs_are_told_are_removed_by_the_next_ask(created, tmp_path):
    first, second, third = asked(created, "-n", 3)
    kept = asked(created, "-n", 1, "--to", tmp_path / "own")
    mrafno("tell", created, first["id"], simulated(first, tmp_path))
    mrafno("fail", created, second["id"], "--reason", "no")
    mrafno("tell", created, kept[0]["id"], simulated(kept[0], tmp_path))
    (created / "asked" / "mine.npy").write_text("")
    [fourth] = asked(created, "-n", 1)
    names = sorted(path.name for path in (created / "asked").iterdir())
    assert names == ["mine.npy", *(f"{query['id']}.npy" for query in (second, third, fourth))]
    assert Path(kept[0]["input"]).exists()
    # Those that wait are handed out again, from where they are or anew.
    Path(third["input"]).unlink()
    assert [one["id"] for one in asked(created, "--again", "--all")] == [third["id"], fourth["id"]]
    assert Path(third["input"]).exists()


def test_a_budget_ends_asking(created, tmp_path):
    for query in asked(created, "-n", 10):
        mrafno("tell", created, query["id"], simulated(query, tmp_path))
    result = mrafno("ask", created, "--budget", 0.5)
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert result.stderr == (
        "nothing to ask: the pool or the budget is used up, or too many initial simulations failed.\n"
    )


def test_failed_queries_are_asked_again_and_abandoned_ones_are_not(created):
    first, second, third = asked(created, "-n", 3)
    result = mrafno("fail", created, first["id"], "--reason", "the node went down")
    assert (result.exit_code, result.stdout) == (0, "failed q000000; 2 running\n")
    result = mrafno("abandon", created, second["id"], "--reason", "no steady state")
    assert (result.exit_code, result.stdout) == (0, "abandoned q000001; 1 running\n")
    again = asked(created, "-n", 1)[0]
    np.testing.assert_array_equal(np.load(again["input"]), np.load(first["input"]))
    state = shown(created)
    assert state["failed"] == [{"query": "q000000", "reason": "the node went down", "cost": 1.0, "seconds": None}]
    assert state["running"] == [third["id"], again["id"]]
    assert mrafno("fail", created, "q000002").exit_code == 2  # a reason is needed


def test_invalid_outputs_change_nothing(created, tmp_path):
    query, other = asked(created, "-n", 2)
    mrafno("tell", created, query["id"], simulated(query, tmp_path))
    before = (created / "ledger.jsonl").read_bytes()

    def refusal(id, values, name="wrong.npy", cost=1.0):
        path = tmp_path / name
        np.save(path, values, allow_pickle=True)
        result = mrafno("tell", created, id, path, "--cost", cost)
        assert (result.exit_code, result.stdout) == (1, "")
        assert (created / "ledger.jsonl").read_bytes() == before
        return result.stderr

    good = np.ones((1, 9))
    assert refusal(query["id"], good) == (
        "error: run: q000000 was told already, nothing is changed. Running now: q000001.\n"
    )
    assert refusal("q000099", good) == "error: run: there is no query 'q000099'. Running now: q000001.\n"
    assert refusal("../q1", good) == "error: run: there is no query '../q1'. Running now: q000001.\n"
    assert refusal(other["id"], np.ones((1, 8))).startswith(
        "error: run: the output of q000001 has shape (1, 8), level 0 of tiny gives (1, 9)"
    )
    assert refusal(other["id"], np.full((1, 9), np.nan)).startswith("error: tiny: ")
    assert "hold" in refusal(other["id"], np.array([{}], dtype=object))
    assert refusal(other["id"], good, cost=-1).startswith("error: run: the cost of q000001 must be a number")
    missing = tmp_path / "none.npy"
    result = mrafno("tell", created, other["id"], missing)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {missing} is missing.")


def test_a_folder_for_inputs_that_cannot_be_made(created, tmp_path):
    """No query is recorded then: nobody would answer it."""
    (tmp_path / "file").write_text("")
    result = mrafno("ask", created, "--to", tmp_path / "file" / "inputs")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: ask: the folder {tmp_path / 'file' / 'inputs'} cannot be made (")
    assert shown(created)["running"] == []


def test_a_folder_without_a_run(tmp_path):
    result = mrafno("ask", tmp_path / "none")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert not Path(tmp_path / "none").exists()


def test_tell_does_not_wait_for_the_process_that_holds_the_run(created, tmp_path):
    first, second = asked(created, "-n", 2)
    with Run.open(created):
        result = mrafno("tell", created, first["id"], simulated(first, tmp_path))
        held = "in the run's inbox until the process that holds the run takes it in"
        assert (result.exit_code, result.stdout) == (0, f"told q000000, {held}; 1 running\n")
        result = mrafno("fail", created, second["id"], "--reason", "the node went down")
        assert (result.exit_code, result.stdout) == (0, f"failed q000001, {held}; 0 running\n")
        assert shown(created)["untaken"] == ["q000000", "q000001"]
        assert "q000000, q000001; answered, and taken in when" in mrafno("show", created).stdout
        result = mrafno("tell", created, first["id"], simulated(first, tmp_path))
        assert (result.exit_code, result.stdout) == (1, "")
        assert "q000000 was told already by another process" in result.stderr
        result = mrafno("ask", created, "--wait", "0.1")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "is being written by this very process" in result.stderr
    asked(created, "-n", 1)
    state = shown(created)
    assert (state["untaken"], state["running"]) == ([], ["q000002"])


def test_an_ask_that_waits_says_for_whom(created, monkeypatch):
    monkeypatch.setattr("mrafno.cli.ask_tell._SILENT", 0.05)
    run = Run.open(created)
    timer = threading.Timer(0.5, run.close)
    timer.start()
    result = mrafno("ask", created, "-n", 1, "--wait", "60")
    timer.join()
    assert [query["id"] for query in json.loads(result.stdout)] == ["q000000"]
    assert result.stderr.startswith("waiting for up to 60 s: the run is being written by this very process, ")


# Asked, and not delivered.


def test_queries_of_an_ask_that_was_killed_are_handed_out_again(created, tmp_path):
    """Recorded, and killed before anything was printed."""
    command = (
        "import os, signal, sys; from mrafno.run.session import Session\n"
        "def killed(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "Session.deliver = killed\n"
        "import typer; echo = typer.echo; typer.echo = killed\n"
        f"from mrafno.cli import app; app(['ask', {str(created)!r}, '-n', '3'])"
    )
    died = subprocess.run([sys.executable, "-c", command], capture_output=True, check=False, timeout=100)
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, b"")
    assert shown(created)["undelivered"] == ["q000000", "q000001", "q000002"]
    text = mrafno("show", created).stdout
    assert "not delivered" in text
    assert "ask --again" in text
    [later] = asked(created, "-n", 1)
    assert later["id"] == "q000003"
    again = asked(created, "--again", "--to", tmp_path / "inputs")
    assert [query["id"] for query in again] == ["q000000", "q000001", "q000002"]
    for query in again:
        recorded = RunReader(created).state.queries[query["id"]]
        np.testing.assert_array_equal(np.load(query["input"]), RunReader(created).input(recorded))
    # Now they were delivered.
    nothing = mrafno("ask", created, "--again")
    assert (nothing.stdout, nothing.stderr.split(":")[0]) == ("[]\n", "nothing to hand out again")
    assert shown(created)["undelivered"] == []
    mrafno("tell", created, "q000001", simulated(again[1], tmp_path))
    assert [q["id"] for q in asked(created, "--again", "--all")] == ["q000000", "q000002", "q000003"]
    assert mrafno("ask", created, "--all").exit_code == 2
    with Run.open(created) as run:
        assert run.undelivered() == []
        [query] = run.ask(1)
        assert [one.id for one in run.undelivered()] == [query.id]
