"""What people see while the runs of a study are done: one display in a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from mrafno.studies.active import Job, Setup
from mrafno.studies.runner import Heard, News

#: Seconds between the plain lines about a run.
_EVERY = 60.0


@contextmanager
def display(todo: Sequence[Job], setup: Setup, console: Console) -> Iterator[Heard]:
    """Something to tell the news to; ``console`` is for what people watch, not for results."""
    if console.is_terminal:
        with _Bars(todo, setup, console) as bars:
            yield bars.heard
    else:
        yield _Lines(len(todo), console).heard


def _told(job: Job, news: News) -> str:
    error = "" if news.error is None else f", error {news.error:.4f}"
    return f"{job.name}: step {news.step}, cost {news.cost:g}{error}"


class _Lines:
    """A line when a run ends, and about every running one once a minute."""

    def __init__(self, number: int, console: Console) -> None:
        self.number, self.console = number, console
        self.ended = 0
        self.last: dict[str, float] = {}

    def heard(self, job: Job, news: News) -> None:
        now = time.monotonic()
        if news.phase == "kept":
            self.ended += 1
        elif news.phase in ("ended", "failed"):
            self.ended += 1
            what = "done" if news.phase == "ended" else f"FAILED ({news.reason})"
            self._print(f"[{self.ended}/{self.number}] {_told(job, news)}, {what}")
        elif now - self.last.setdefault(job.name, now) > _EVERY:
            self.last[job.name] = now
            self._print(_told(job, news))

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class _Bars:
    """A bar for all steps of all runs, and one for each that is running."""

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

    def heard(self, job: Job, news: News) -> None:
        over = news.phase in ("ended", "kept", "failed")
        # A run that ended early, by its budget or its pool, has no more steps to wait for.
        self.steps[job.name] = self.setup.steps if over else news.step
        if over:
            self.ended += 1
            if job.name in self.bars:
                self.progress.remove_task(self.bars.pop(job.name))
            if news.phase == "failed":
                self.progress.console.print(f"{job.name} failed: {news.reason}", markup=False)
        else:
            if job.name not in self.bars:
                self.bars[job.name] = self.progress.add_task("", total=self.setup.steps)
            error = "" if news.error is None else f", error {news.error:.4f}"
            text = f"  {job.method} seed {job.seed}: {news.phase}, cost {news.cost:g}{error}"
            self.progress.update(self.bars[job.name], completed=news.step, description=text)
        self._describe()

    def _describe(self) -> None:
        text = f"{self.setup.task}: {self.ended} of {len(self.steps)} runs, steps"
        self.progress.update(self.whole, completed=sum(self.steps.values()), description=text)
