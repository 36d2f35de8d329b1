"""Callbacks are called after each event is on disk; an exception in one stops the run and loses nothing."""

import shutil
import socket
import warnings
from types import SimpleNamespace

import pytest

from mrafno.errors import CallbackError, FailuresError, MrafnoWarning, RunError
from mrafno.run import Run
from mrafno.run.callbacks import HOOKS
from mrafno.storage.ledger import Ledger
from tests import runs

pytestmark = pytest.mark.usefixtures("quick")


class Recorder:
    """Keeps what it is called with, and what was on disk then."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        if name not in HOOKS:
            raise AttributeError(name)

        def hook(run, payload):
            last = Ledger.open(run.path).events[-1].kind
            self.calls.append((name, payload, last))

        return hook

    def __dir__(self):
        return HOOKS

    def names(self):
        return [name for name, _, _ in self.calls]


def test_every_event_is_told_after_it_was_recorded(tmp_path):
    callback = Recorder()
    with runs.create(tmp_path / "run", callbacks=[callback]) as run:
        outcome = run.advance(steps=2)
    for name, _, last in callback.calls:
        assert name == f"on_{last}"
    found = dict.fromkeys(callback.names())
    found.pop("on_warned", None)  # a surrogate of two steps is not worth having
    assert list(found) == ["on_asked", "on_told", "on_trained", "on_evaluated", "on_stopped"]
    payloads = {name: payload for name, payload, _ in callback.calls}
    assert payloads["on_asked"][0].f.shape[0] == 1
    assert payloads["on_told"].status == "told"
    assert payloads["on_trained"] == run.state.trainings[-1]
    assert payloads["on_evaluated"] == run.state.evaluations[-1]
    assert payloads["on_stopped"] == outcome
    assert callback.names().count("on_told") == len(run.state.queries)


def test_failures_are_told_with_their_reason(tmp_path):
    callback = Recorder()
    run = runs.create(tmp_path / "run", callbacks=[callback], task=runs.tiny(runs.broken))
    with run, pytest.raises(FailuresError):
        run.advance(steps=1)
    failed = [payload for name, payload, _ in callback.calls if name == "on_failed"]
    assert len(failed) == 5
    assert "nothing works on level 0" in failed[0].reason
    name, outcome, _ = callback.calls[-1]
    assert name == "on_stopped"
    assert "5 simulations failed" in outcome.reason


@pytest.mark.parametrize("hook", [name for name in HOOKS if name not in ("on_failed", "on_warned")])
def test_an_exception_stops_the_run_cleanly_and_nothing_is_lost(tmp_path, hook):
    """Whatever was recorded stays, and the run ends as one that was not interrupted."""

    def broken(run, payload):
        raise ZeroDivisionError("not today")

    callback = type("Broken", (), {hook: staticmethod(broken)})()
    with runs.create(tmp_path / "run", callbacks=[callback]) as run:
        with pytest.raises(CallbackError, match=r".*broken raised ZeroDivisionError \(test_callbacks.py:\d+\)"):
            run.advance(steps=2)
        assert hook == "on_stopped" or "not today" in run.state.stopped
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        run.advance(total_steps=2)
        found = runs.choices(run.state)
    with runs.create(tmp_path / "other") as run:
        run.advance(steps=2)
        assert runs.choices(run.state) == found


def test_callbacks_are_called_in_their_order_and_on_opening_too(tmp_path):
    order = []

    class Named:
        def __init__(self, name):
            self.name = name

        def on_told(self, run, record):
            order.append(self.name)

    with runs.create(tmp_path / "run", callbacks=[Named("a"), Named("b")]) as run:
        runs.answer(run, run.ask(1))
    with Run.open(tmp_path / "run", runs.tiny(), callbacks=[Named("c")]) as run:
        runs.answer(run, run.ask(1))
    assert order == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (object(), "at least one of the methods on_asked, .*; got <object"),
        (type("Typo", (), {"on_tell": len})(), "It has on_tell"),
        (Recorder, "got the class, not an instance"),
    ],
)
def test_what_is_no_callback_is_refused(tmp_path, callback, words):
    with pytest.raises(RunError, match=words):
        runs.create(tmp_path / "run", callbacks=[callback])


def test_a_warning_is_heard_once_by_callbacks_and_in_python(tmp_path, monkeypatch):
    """A disk that is nearly full, here."""
    heard = []
    callback = type("Hears", (), {"on_warned": staticmethod(lambda run, text: heard.append(text))})()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**20))
    with runs.create(tmp_path / "run", callbacks=[callback]) as run:
        with pytest.warns(MrafnoWarning, match="the disk of .* is nearly full: 1 MiB are free"):
            outcome = run.advance(steps=1)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "the disk of", MrafnoWarning)
            run.advance(steps=1)
        [text] = [text for text in heard if "the disk of" in text]
        assert text in outcome.warnings
        assert text in run.state.as_json()["warnings"]
        warned = [event for event in run.ledger.events if event.kind == "warned"]
        assert [event.data["text"] for event in warned].count(text) == 1
        run.recorder.warn(f"disk of {run.path} on {socket.gethostname()}", None)
        assert text not in run.state.warnings.values()
        assert heard.count(text) == 1
