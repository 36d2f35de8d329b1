"""What is shown of a run: the figures are those of its events, lines are whole, JSON is JSON."""

import io
import json
import threading
from types import SimpleNamespace

import pytest
from rich.console import Console

from mrafno.analysis.estimate import Estimate
from mrafno.cli import display
from mrafno.cli.display import JsonDisplay, LineDisplay, LiveDisplay, Snapshot
from mrafno.run.fit_time import FitAhead
from mrafno.run.progress import progress
from mrafno.run.settings import RunSettings
from mrafno.run.spending import Spent
from mrafno.run.state import RunState
from mrafno.storage.ledger import Event

ARRAY = {"file": "arrays/a.npy", "sha256": "0" * 64, "shape": [1, 9], "dtype": "float64"}
METRICS = {"relative_l2": 0.25}


class Story:
    """A run's state, told event by event."""

    def __init__(self):
        self.state, self.clock = RunState(), SimpleNamespace(now=100.0)
        task = {"name": "tiny", "resolutions": [[9], [17]], "costs": [1.0, 8.0]}
        self.happens("created", task=task, method="mra-u", seed=3, settings=RunSettings().as_json())

    def happens(self, what, /, **data):
        self.state.apply(Event(0, what, self.clock.now, data))

    def asks(self, id, kind, level, step=None):
        choice = {"seconds": 0.5} if kind == "pool" else {}
        query = {"id": id, "kind": kind, "level": level, "row": 0, "step": step, "input": ARRAY, "choice": choice}
        self.happens("asked", queries=[query])

    def tells(self, id, cost):
        self.happens("told", id=id, output=ARRAY, cost=cost, seconds=2.0)

    def trains(self, error, seconds=60.0):
        self.happens(
            "trained",
            added=[],
            events=[],
            step=0,
            loss=1.0,
            out_of_fold_error=error,
            estimate=error and Estimate(error, error / 2, 2 * error, 9, 20, 0.1, 100).as_json(),
            shift=0.0,
            seconds=seconds,
            prequential_errors={},
        )

    def measures(self, step, cost, **metrics):
        self.happens("evaluated", step=step, cost=cost, metrics={**METRICS, **metrics}, seconds=1.0)


@pytest.fixture
def story():
    """Four initial examples, a test example, one choice that is told, one that failed and one that runs."""
    story = Story()
    for number, level in enumerate((0, 0, 1, 1)):
        story.asks(f"i{number}", "initial", level)
        story.tells(f"i{number}", 8.0 if level else 1.0)
    story.asks("t0", "test", 1)
    story.tells("t0", 8.0)
    story.trains(0.5)
    story.trains(None)
    story.trains(0.4)
    story.measures(0, 0.0)
    story.asks("q1", "pool", 1, 1)
    story.tells("q1", 8.5)
    story.asks("q2", "pool", 0, 2)
    story.happens("failed", id="q2", reason="no")
    story.asks("q3", "pool", 0, 2)
    return story


@pytest.fixture
def clock(monkeypatch, story):
    """A clock that the test advances; events have its time."""
    clock = SimpleNamespace(monotonic=lambda: story.clock.now, time=lambda: story.clock.now)
    monkeypatch.setattr(display, "time", clock)
    return story.clock


def test_figures_of_a_snapshot(story):
    assert Snapshot.of(story.state) == Snapshot(
        step=1,
        spent=Spent(initial=18.0, chosen=8.5, test=8.0),
        error=0.25,
        measured=0,
        estimate=0.4,
        meshes=("9", "17"),
        examples=(2, 3),
        running=(1, 0),
        failed=1,
        seconds={"simulating": 12.0, "training": 180.0, "choosing": 1.5, "evaluating": 1.0},
    )


def test_a_snapshot_while_events_are_appended(story):
    """The display's thread draws while the run's thread appends."""
    stop = threading.Event()

    def append():
        number = 0
        while not stop.is_set():
            story.asks(f"x{number}", "pool", 0, 3)
            number += 1

    thread = threading.Thread(target=append)
    thread.start()
    try:
        counts = [Snapshot.of(story.state).running[0] for _ in range(50)]
    finally:
        stop.set()
        thread.join()
    assert counts == sorted(counts)


def test_a_line_for_every_measurement_and_every_ten_seconds(story, clock):
    out = io.StringIO()
    with LineDisplay(story, {"steps": 5, "budget": 56.0}, out) as lines:
        lines("simulating")
        clock.now += 9.9
        lines("training", 0.5)
        assert out.getvalue() == ""
        clock.now += 0.1
        lines("training", 0.75)
        first = (
            "step 1 of 5; cost 34.5, 21.5 left of 56; error 0.25 after step 0, by its own estimate 0.4; "
            "examples 9: 2 (1 running), 17: 3, 1 failed; training 75 %; 10 s so far\n"
        )
        assert out.getvalue() == first
        clock.now += 4
        story.tells("q3", 1.0)
        story.measures(2, 9.5, relative_l2=0.125)
        lines("choosing")
        second = (
            "step 2 of 5; cost 35.5, 20.5 left of 56; error 0.125, by its own estimate 0.4; "
            "examples 9: 3, 17: 3, 1 failed; 14 s so far; about 42 s left\n"
        )
        assert out.getvalue() == first + second
        lines.finish("done", "finished 5 steps")
    assert out.getvalue() == first + second + "finished 5 steps\n"


def test_time_left_is_that_of_the_dashboard(story, clock):
    goals = {"steps": 101, "budget": 54.5}
    clock.now += 3
    lines = LineDisplay(story, goals, io.StringIO())
    story.tells("q3", 1.0)
    assert lines.time_left() is None  # the step before this advance does not count
    clock.now += 5
    story.asks("q4", "pool", 0, 3)
    story.tells("q4", 1.0)
    # A cost of 1 in 5 s leaves 18 more, 90 s; a step in 5 s leaves 98 steps.
    assert lines.time_left() == 90.0
    clock.now += 2
    assert lines.time_left() == progress(story.state, goals, since=103.0, now=clock.now).seconds_left == 88.0
    clock.now += 200
    assert lines.time_left() == 0.0


def test_earlier_measurements_are_not_printed_again(story, clock):
    out = io.StringIO()
    lines = LineDisplay(story, {"target": 0.01}, out)
    lines("simulating")
    lines.finish("interrupted", "Ctrl-C")
    assert out.getvalue() == ""


def test_json_lines(story):
    out = io.StringIO()
    with JsonDisplay(story, {"steps": 5}, out) as lines:
        lines("training", 0.5)
        assert out.getvalue() == ""
        story.measures(1, 8.5, relative_l2=0.2)
        lines("choosing")
        lines.finish("done", "finished")
    first, last = map(json.loads, out.getvalue().splitlines())
    assert first == {
        "event": "evaluated",
        "step": 1,
        "accumulated_cost": 8.5,
        "spent": {"initial": 18.0, "chosen": 8.5, "test": 8.0, "failed": 0.0, "imported": 0.0, "total": 34.5},
        "metrics": {"relative_l2": 0.2},
        "measured_at_step": 1,
        "estimate": 0.4,
        "examples": {"9": 2, "17": 3},
        "failed": 1,
        "seconds": {"simulating": 12.0, "training": 180.0, "choosing": 1.5, "evaluating": 2.0},
    }
    assert last == {**first, "event": "ended", "outcome": "done", "reason": "finished"}


def watched(story, *fits):
    """A display on lines, the fits that it is to show, and what it prints."""
    file, going_on = io.StringIO(), list(fits)
    return LineDisplay(story, {"steps": 4}, file, ahead=lambda: going_on[0]), going_on, file


def test_a_long_fit_is_announced_before_it_starts_where_its_time_is_known(story, clock):
    lines, going_on, file = watched(story, FitAhead(4, 31, 200.0), FitAhead(5, 32, 9.0))
    lines("training", 0.0)
    assert file.getvalue() == "fit 4 on 31 examples: about 3 min 20 s\n"
    clock.now += 2
    lines("training", 0.01)
    clock.now += 2
    lines("training", 0.02)
    del going_on[0]
    lines("training", 0.0)  # the next fit, which is short
    clock.now += 2
    lines("training", 0.5)
    assert file.getvalue().count("fit ") == 1


def test_the_first_fit_is_announced_after_its_first_iterations(story, clock):
    """Its first iteration is slower than the others, and does not count."""
    lines, _, file = watched(story, FitAhead(1, 5))
    lines("simulating", None)
    clock.now += 50
    lines("training", 0.0)
    clock.now += 4
    lines("training", 0.01)
    assert "fit" not in file.getvalue()
    clock.now += 1
    lines("training", 0.02)
    assert file.getvalue().splitlines()[1:] == ["fit 1 on 5 examples: about 1 min 38 s"]


def test_a_fit_that_takes_longer_than_was_said_is_announced_again(story, clock):
    lines, _, file = watched(story, FitAhead(4, 31, 20.0))
    lines("training", 0.0)
    clock.now += 1
    lines("training", 0.01)
    clock.now += 1
    lines("training", 0.02)
    assert file.getvalue().splitlines() == [
        "fit 4 on 31 examples: about 20 s",
        "fit 4 on 31 examples: about 1 min 38 s, longer than expected",
    ]
    clock.now += 1
    lines("training", 0.03)
    assert len(file.getvalue().splitlines()) == 2


def drawn(live, width=100):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(live.render())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_live_block(story, clock):
    console = Console(file=io.StringIO(), force_terminal=True)
    live = LiveDisplay(story, {"steps": 4, "target": 0.1}, console, ahead=lambda: FitAhead(4, 5))
    live("training", 0.0)
    clock.now += 1
    live("training", 0.1)
    clock.now += 4
    live("training", 0.5)
    live._live.stop()
    assert drawn(live) == [
        "run       tiny, mra-u, seed 3",
        "step      1 of 4",
        "cost      34.5",
        "error     0.25 after step 0, by its own estimate 0.4, target 0.1",
        "examples  9: 2 (1 running), 17: 3, 1 failed",
        "time      simulating 12 s, training 3 min 5 s, choosing 1.5 s, evaluating 1 s",
        "now       training 50 % (fit 4 on 5 examples, about 5 s)",
        "          " + "━" * 15,  # a quarter of the steps
    ]
    clock.now += 2
    story.tells("q3", 1.0)
    assert drawn(live)[6] == "now       training 50 % (fit 4 on 5 examples, about 3 s), about 14 s left"
    # When the fit is recorded, before the next phase, its seconds are not counted twice.
    assert "training 3 min 7 s" in drawn(live)[5]
    story.trains(None, seconds=7.0)
    assert "training 3 min 7 s" in drawn(live)[5]


def test_the_live_block_fits_a_narrow_terminal(story, clock):
    live = LiveDisplay(story, {"budget": 30.0}, Console(file=io.StringIO(), force_terminal=True))
    lines = drawn(live, width=40)
    assert len(lines) == 8
    assert max(map(len, lines)) <= 40
    assert lines[3] == "error     0.25 after step 0, by its own…"


def test_the_live_display_starts_late_and_leaves_the_last_figures(story):
    """Before the first phase nothing is drawn, since the first examples have a bar of their own."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100, legacy_windows=False)
    with LiveDisplay(story, {"steps": 4}, console) as live:
        assert console.file.getvalue() == ""
        live("training", 0.5)
        live.finish("failed", "the disk is full")
    shown = console.file.getvalue()
    hide, unhide, erase = "\x1b[?25l", "\x1b[?25h", "\x1b[2K"
    assert shown.startswith(hide)
    assert shown.endswith(unhide)
    last = shown.rpartition(erase)[2]
    assert last.count("failed: the disk is full") == 1
    assert "training 50 %" not in last
