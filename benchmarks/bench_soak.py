"""A long run: what a step costs beside simulating and learning, and what the run takes up, at 100, 1,000, 10,000 steps.

Inputs are chosen at random, a simulation is one addition, and a tiny network is trained for one iteration when the
examples have grown, so what is left is bookkeeping: choosing, recording inputs and outputs, and asking what is known.
Each row has the median step of the last hundred before it, by the clock (with the disk's syncs) and in processor time,
the memory of the process, the files and bytes of the run's directory, and how long another process takes to open it.
A longer run, of 20,000 steps, is asked and told without fits, and opened.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import Report, arguments
from mrafno.acquisition.base import Choice
from mrafno.run import Run
from mrafno.tasks import FunctionTask

#: Steps whose median is told.
_RECENT = 100
_OPEN = """
import sys, time
from mrafno.run import Run
start = time.perf_counter(), time.process_time()
with Run.open(sys.argv[1]) as run:
    print(time.perf_counter() - start[0], time.process_time() - start[1])
"""


def task_of(steps: int) -> FunctionTask:
    """A task with as many candidates as steps."""
    candidates = np.random.default_rng(0).normal(size=(steps + 10, 17))
    return FunctionTask(np.add, candidates, resolutions=(9, 17), costs=(1.0, 5.0))


def made(folder: Path, steps: int) -> Run:
    """A run that can make so many steps."""
    settings: dict[str, Any] = {
        "pool": steps,
        "initial": 2,
        "test": 2,
        "members": 2,
        "iterations": 1,
        "evaluate": 10 * steps,
    }
    return Run.create(folder, task_of(steps), method="random-mix", update_every=10 * steps, **settings)


def opened(folder: Path) -> tuple[float, float]:
    """Seconds to open the run in another process: by the clock, and of processor time."""
    done = subprocess.run([sys.executable, "-c", _OPEN, str(folder)], check=True, capture_output=True, text=True)
    clock, processor = map(float, done.stdout.split())
    return clock, processor


def told(folder: Path, steps: int) -> None:
    """Make a run of many steps by asking and telling alone."""
    with made(folder, steps) as run:
        for query in run.ask(6):
            run.tell(query.id, 2 * query.f)
        rows = count()

        def choose(n: int, left: float | None) -> list[tuple[Choice, dict[str, Any]]]:
            del n, left
            row = next(rows)
            return [(Choice(row, row % 2), {"score": 1.25, "best": [1.25, 2.5], "costs": [0.1, 0.9]})]

        for _ in range(steps):
            [query] = run.session.ask(1, choose=choose)
            run.session.tell(query.id, 2 * query.f, seconds=0.001)


class StepTimes:
    """Notes when each output is told, and how much processor time was used by then."""

    def __init__(self) -> None:
        self.clock: list[float] = []
        self.processor: list[float] = []

    def on_told(self, run: Run, query: object) -> None:
        del run, query
        self.clock.append(time.perf_counter())
        self.processor.append(time.process_time())

    def recent(self) -> tuple[float, float]:
        """Milliseconds of a step, in the median of the last ones."""
        clock, processor = (statistics.median(np.diff(times[-_RECENT:])) for times in (self.clock, self.processor))
        return 1e3 * clock, 1e3 * processor


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--folder", type=Path, help="on the disk to measure (default: the system's temporary folder)")
    parser.add_argument("--told", type=int, default=20_000, help="steps of the run that is only opened")
    options = parser.parse_args()
    report = Report("soak", "A long run", __doc__, options)
    table = report.table(
        "A run that goes on",
        {
            "steps": ",d", "ms/step": ".1f", "CPU ms/step": ".1f", "memory, MB": ".0f", "files": "d", "MB": ".1f",
            "open, s": ".2f", "CPU s": ".2f",
        },
    )  # fmt: skip
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder, times = Path(name) / "run", StepTimes()
        made(folder, max(options.steps)).close()
        for steps in sorted(options.steps):
            with Run.open(folder, task_of(max(options.steps)), callbacks=[times]) as run:
                run.advance(total_steps=steps)
            files = [path for path in folder.rglob("*") if path.is_file()]
            clock, processor = times.recent()
            opening, own = opened(folder)
            memory, size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, sum(p.stat().st_size for p in files)
            table.add(steps, clock, processor, memory / 1024, len(files), size / 1e6, opening, own)
        told(Path(name) / "told", options.told)
        seconds = [opened(Path(name) / "told") for _ in range(3)]
    clock, processor = min(seconds)
    report.note(
        f"{options.told:,} steps, asked and told: opened in {clock:.2f} s, {processor:.2f} s of processor time."
    )
    report.save()


if __name__ == "__main__":
    main()
