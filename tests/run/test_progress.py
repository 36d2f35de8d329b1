"""Standing and progress of a run, with numbers that can be counted by hand."""

import pytest

from mrafno.run.progress import progress, standing
from mrafno.run.settings import RunSettings
from mrafno.run.state import RunState
from mrafno.run.status import Status
from mrafno.storage.ledger import Event

ARRAY = {"file": "arrays/a.npy", "sha256": "0" * 64, "shape": [1, 9], "dtype": "float64"}


def state_with(times, cost=2.0, stopped=None):
    """A chosen example told at each of these times."""
    state = RunState()

    def happens(kind, at, **data):
        state.apply(Event(0, kind, at, data))

    task = {"name": "tiny", "resolutions": [[9], [17]], "costs": [1.0, 8.0]}
    happens("created", 0.0, task=task, method="mra-u", seed=3, settings=RunSettings().as_json())
    for number, at in enumerate(times):
        query = {"id": f"q{number}", "kind": "pool", "level": 0, "row": number, "step": number + 1, "input": ARRAY}
        happens("asked", at, queries=[query])
        happens("told", at, id=f"q{number}", output=ARRAY, cost=cost, seconds=1.0)
    if stopped is not None:
        happens("stopped", 99.0, reason=stopped)
    return state


@pytest.mark.parametrize(
    ("stopped", "lock", "expected"),
    [
        ("finished 5 steps", "free", "finished"),
        ("reached the target: estimated error 0.1, at most 0.2", "free", "finished"),
        ("used up the budget of 5", "free", "finished"),
        ("interrupted", "free", "interrupted"),
        ("stopped on request", "free", "stopped"),
        ("run x: 5 simulations failed", "free", "failed"),
        ("finished 5 steps", "held", "finished"),
        (None, "held", "running"),
        (None, "left", "interrupted"),
        (None, "free", "waiting"),
    ],
)
def test_standing(stopped, lock, expected):
    assert standing(state_with([1.0], stopped=stopped), lock) == expected


def test_a_paused_driver():
    status = Status(1, "here", 0.0, 0.0, {}, phase="paused")
    assert standing(state_with([1.0]), "held", status) == "paused"
    assert standing(state_with([1.0]), "free", status) == "waiting"


def test_a_driver_that_works_again_after_it_was_stopped():
    state = state_with([1.0], stopped="finished 5 steps")
    assert standing(state, "held", Status(1, "here", 0.0, 0.0, {}, phase="training")) == "running"
    assert standing(state, "held", Status(1, "here", 0.0, 0.0, {}, phase="")) == "finished"


def test_time_left_is_that_to_the_first_goal():
    state = state_with([100.0, 110.0, 120.0])
    found = progress(state, {"steps": 10, "budget": 10.0, "target": 0.1}, since=0.0, now=120.0)
    assert (found.steps, found.budget, found.target) == (10, 10.0, 0.1)
    assert found.seconds_per_step == pytest.approx(10.0)
    assert found.share == pytest.approx(0.6)
    assert found.cost_left == pytest.approx(4.0)
    assert found.seconds_left == pytest.approx(20.0)  # 4 of cost at 0.2 a second; the steps would take 70 s
    assert progress(state, {"steps": 10}, since=0.0, now=125.0).seconds_left == pytest.approx(65.0)
    assert progress(state, {"steps": 3}, since=0.0, now=400.0).seconds_left == 0.0


def test_time_in_which_a_run_stood_still_does_not_count():
    found = progress(state_with([10.0, 20.0, 5000.0, 5004.0]), {"steps": 6}, since=4990.0, now=5004.0)
    assert found.seconds_left == pytest.approx(8.0)


def test_nothing_is_known_before_the_second_step_or_without_a_goal():
    found = progress(state_with([10.0]), {"steps": 6}, since=0.0, now=10.0)
    assert (found.seconds_left, found.share) == (None, pytest.approx(1 / 6))
    assert progress(state_with([10.0, 20.0]), {}, since=0.0, now=20.0).share is None
