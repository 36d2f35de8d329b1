"""The recorder keeps ledger and state together, and tells its listeners."""

import numpy as np
import pytest

from mrafno.errors import RunError
from mrafno.run.recorder import Recorder
from mrafno.run.state import RunState
from mrafno.storage.ledger import Ledger
from tests import runs


def test_an_event_is_on_disk_and_in_the_state_before_listeners_hear_of_it(tmp_path):
    with runs.create(tmp_path / "run"):
        pass
    with Ledger.open(tmp_path / "run", write=True) as ledger:
        recorder, seen = Recorder(ledger), []
        recorder.listeners.append(
            lambda event: seen.append((recorder.state.stopped, Ledger.open(tmp_path / "run").events[-1] == event))
        )
        recorder.record("stopped", reason="one")
        recorder.record("stopped", quiet=True, reason="two")
        assert seen == [("one", True)]
        assert recorder.state.stopped == "two"


def test_a_replay_gives_the_same_state(tmp_path):
    with runs.create(tmp_path / "run") as run:
        runs.answer(run, run.ask(3))
        live = run.state
        run.recorder.replay()
        assert run.state is not live
        assert run.state == live == RunState.of(run.ledger.events)


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_between_disk_and_state_leaves_them_the_same(tmp_path, monkeypatch, before):
    """Somebody presses Ctrl-C in a notebook, and tells again: it must not count twice."""
    with runs.create(tmp_path / "run") as run:
        [query] = run.ask(1)
        apply, left = RunState.apply, [True]

        def interrupted(state, event):
            if left and before:
                left.pop()
                raise KeyboardInterrupt
            apply(state, event)
            if left:
                left.pop()
                raise KeyboardInterrupt

        monkeypatch.setattr(RunState, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runs.answer(run, [query])
        assert run.state == RunState.of(run.ledger.events)
        assert run.state.queries[query.id].status == "told"
        with pytest.raises(RunError, match="was told already"):
            runs.answer(run, [query])


def test_examples_and_sizes(tmp_path):
    with runs.create(tmp_path / "run") as run:
        [query] = run.ask(1)
        runs.answer(run, [query])
        f, y = run.recorder.example(run.state.queries[query.id])
        np.testing.assert_array_equal(f, query.f)
        np.testing.assert_array_equal(y, runs.smooth(query.f, query.level))
        assert run.recorder.sizes.initial_levels(2) == [0, 0, 0, 1, 1, 1]
        assert run.recorder.imported_inputs() == []
