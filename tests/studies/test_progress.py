"""What is shown while runs of a study advance: lines without a terminal, bars on one."""

import io

import pytest
from rich.console import Console

from mrafno.run.settings import RunSettings
from mrafno.studies import progress
from mrafno.studies.active import Job
from mrafno.studies.progress import display
from mrafno.studies.runner import RunProgress
from tests.studies.tiny import tiny_setup

JOBS = [Job.of("burgers", "random-mix", seed, RunSettings()) for seed in range(3)]


def shown(progress, terminal, clock=None):
    console = Console(file=io.StringIO(), width=120, force_terminal=terminal, color_system=None)
    with display(JOBS, tiny_setup(), console) as watch:
        for number, one in progress:
            if clock is not None:
                clock[0] += 40.0
            watch(JOBS[number], one)
    return console.file.getvalue()


def test_a_line_when_a_run_ends(monkeypatch):
    said = shown(
        [
            (0, RunProgress(4, 22.0, 0.5, "kept")),
            (1, RunProgress(2, 2.0, None, "training")),
            (1, RunProgress(4, 22.0, 0.25, "ended")),
            (2, RunProgress(1, 1.0, None, "failed", "no room")),
        ],
        terminal=False,
    )
    assert said.splitlines() == [
        f"[2/3] {JOBS[1].name}: step 4, cost 22, error 0.2500, done",
        f"[3/3] {JOBS[2].name}: step 1, cost 1, FAILED (no room)",
    ]


def test_a_line_a_minute_for_every_running_one(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    said = shown([(0, RunProgress(step, step, None, "training")) for step in range(5)], terminal=False, clock=clock)
    assert said.splitlines() == [f"{JOBS[0].name}: step {step}, cost {step}" for step in (2, 4)]


@pytest.mark.parametrize("phase", ["ended", "kept", "failed"])
def test_bars_on_a_terminal(phase):
    said = shown(
        [(0, RunProgress(2, 2.0, 0.5, "training")), (0, RunProgress(4, 22.0, 0.25, phase, "no room"))], terminal=True
    )
    assert "burgers: 1 of 3 runs, steps" in said
    assert "4/12" in said
    assert ("failed: no room" in said) == (phase == "failed")
