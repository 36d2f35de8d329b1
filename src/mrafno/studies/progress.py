"""Progress of a study's runs: bars in a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from mrafno.studies.active import Job, Setup
from mrafno.studies.runner import RunProgress, Watcher

#: Seconds between plain lines of a run.
_LINE_SECONDS = 60.0


@contextmanager
def display(todo: Sequence[Job], setup: Setup, console: Console) -> Iterator[Watcher]:
    """A watcher of runs that shows their progress on a console."""
    if console.is_terminal:
        with _Bars(todo, setup, console) as bars:
            yield bars.watch
    else:
        yield _Lines(len(todo), console).watch


def _progress_line(job: Job, progress: RunProgress) -> str:
    error = "" if progress.error is None else f", error {progress.error:.4f}"
    return f"{job.name}: step {progress.step}, cost {progress.cost:g}{error}"


class _Lines:
    """A line when a run ends, and once a minute for every running one."""

    def __init__(self, number: int, console: Console) -> None:
        self.number, self.console = number, console
        self.ended = 0
        self.last: dict[str, float] = {}

    def watch(self, job: Job, progress: RunProgress) -> None:
        now = time.monotonic()
        if progress.phase == "kept":
            self.ended += 1
        elif progress.phase in ("ended", "failed"):
            self.ended += 1
            what = "done" if progress.phase == "ended" else f"FAILED ({progress.reason})"
            self._print(f"[{self.ended}/{self.number}] {_progress_line(job, progress)}, {what}")
        elif now - self.last.setdefault(job.name, now) > _LINE_SECONDS:
            self.last[job.name] = now
            self._print(_progress_line(job, progress))

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class _Bars:
    """A bar for all steps of all runs, and one for each running one."""

    def __init__(self, todo: Sequence[Job], setup: Setup, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console)
        self.setup = setup
        self.steps = {job.name: 0 for job in todo}
        self.ended = 0
        self.whole = self.progress.add_task("", total=len(todo) * setup.steps)
        self.bars: dict[str, TaskID] = {}

    def __enter__(self) -> "_Bars":
        self.progress.start()
        self._describe()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def watch(self, job: Job, progress: RunProgress) -> None:
        over = progress.phase in ("ended", "kept", "failed")
        # A run that ended early, by its budget or its pool, counts as complete.
        self.steps[job.name] = self.setup.steps if over else progress.step
        if over:
            self.ended += 1
            if job.name in self.bars:
                self.progress.remove_task(self.bars.pop(job.name))
            if progress.phase == "failed":
                self.progress.console.print(f"{job.name} failed: {progress.reason}", markup=False)
        else:
            if job.name not in self.bars:
                self.bars[job.name] = self.progress.add_task("", total=self.setup.steps)
            error = "" if progress.error is None else f", error {progress.error:.4f}"
            text = f"  {job.method} seed {job.seed}: {progress.phase}, cost {progress.cost:g}{error}"
            self.progress.update(self.bars[job.name], completed=progress.step, description=text)
        self._describe()

    def _describe(self) -> None:
        text = f"{self.setup.task}: {self.ended} of {len(self.steps)} runs, steps"
        self.progress.update(self.whole, completed=sum(self.steps.values()), description=text)
