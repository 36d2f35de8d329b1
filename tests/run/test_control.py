"""Requests to a driver: it pauses, goes on and stops where nothing is lost."""

import threading

import pytest

from mrafno.errors import RunError
from mrafno.run import Run, RunReader
from mrafno.run.control import ask_driver, pending_request
from mrafno.run.status import read_status
from tests.runs import create, decisions, ready, tiny


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch):
    monkeypatch.setattr("mrafno.run.control._LOOK_SECONDS", 0.0)


def test_nothing_is_asked_of_a_run_without_a_driver(tmp_path):
    create(tmp_path / "run").close()
    with pytest.raises(RunError, match="no process advances it"):
        ask_driver(tmp_path / "run", "stop")
    with pytest.raises(RunError, match="unknown request 'jump'"):
        ask_driver(tmp_path / "run", "jump")


def test_stop_keeps_everything_and_resume_makes_the_same_choices(tmp_path):
    with ready(tmp_path / "reference") as run:
        run.advance(total_steps=5)
        expected = decisions(run.state)

    def watch(phase, done=None):
        if run.state.step == 2:
            ask_driver(tmp_path / "run", "stop")

    with ready(tmp_path / "run") as run:
        outcome = run.advance(total_steps=5, watch=watch)
        assert outcome.reason == run.state.stopped == "stopped on request"
        assert outcome.steps == 2
    assert pending_request(tmp_path / "run") is None
    with Run.open(tmp_path / "run", tiny()) as run:
        run.advance(total_steps=5)
        found = decisions(run.state)
    assert found["queries"] == expected["queries"]


def test_a_stop_during_a_fit_leaves_the_state_of_the_last_fit(tmp_path):
    def watch(phase, done=None):
        if phase == "training":
            ask_driver(tmp_path / "run", "stop")

    with create(tmp_path / "run", iterations=60, update_every=1) as run:
        run.advance(total_steps=3, watch=watch)
        fits = len(run.state.trainings)
        assert run.state.stopped == "stopped on request"
        assert run.surrogate.fits == fits


def test_pause_and_resume(tmp_path, monkeypatch):
    monkeypatch.setattr("mrafno.run.control._LOOK_SECONDS", 0.01)
    paused, asked = threading.Event(), []

    def watch(phase, done=None):
        if phase == "paused":
            paused.set()
        elif not asked:
            asked.append(phase)
            ask_driver(tmp_path / "run", "pause")

    def advance():
        with ready(tmp_path / "run") as run:
            ask_driver(tmp_path / "run", "stop")  # from before, and not meant for this advance
            run.advance(total_steps=4, watch=watch)

    thread = threading.Thread(target=advance)
    thread.start()
    assert paused.wait(60)
    reader = RunReader(tmp_path / "run")
    assert reader.lock == "held"
    assert read_status(tmp_path / "run").phase == "paused"
    assert reader.state.step < 4
    ask_driver(tmp_path / "run", "resume")
    thread.join(60)
    reader.refresh()
    assert (reader.state.step, reader.state.stopped) == (4, "finished 4 steps")
    assert read_status(tmp_path / "run").phase == ""


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"request": "jump"}', b'{"request": "stop"' + b" " * 500 + b"}"]
)
def test_a_request_that_makes_no_sense_is_none(tmp_path, content):
    (tmp_path / "control.json").write_bytes(content)
    assert pending_request(tmp_path) is None
