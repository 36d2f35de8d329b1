"""Output of the studies of active learning: tables in the terminal, ``OUT/NAME.json`` and ``OUT/NAME.html``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from mrafno._version import __version__
from mrafno.errors import MrafnoError
from mrafno.plot.text import counted, mesh_name
from mrafno.report.html import Cells, Section, write_page
from mrafno.run.methods import METHODS
from mrafno.simulation.processes import cores
from mrafno.studies.active import Entry, Result, Setup, results
from mrafno.studies.progress import display
from mrafno.studies.runner import prepare, run_jobs
from mrafno.studies.summary import as_table, write_json
from mrafno.tasks import Task, get_task

#: What None means, by setting.
_DEFAULTS = {
    "targets": "all", "candidates": "all", "lease": "none", "inference": "of the method",
    "update_every": "by the number of examples",
    "refit_growth": "0.5",
}  # fmt: skip


@dataclass(frozen=True)
class StudyRuns:
    """The runs of a study by label, and the reasons of failures by run."""

    runs: dict[str, list[Result]]
    failures: dict[str, str]

    @property
    def methods(self) -> dict[str, str]:
        """The method of every label."""
        return {label: some[0].job.method for label, some in self.runs.items()}

    @property
    def each(self) -> str:
        """In words, the number of runs of each label."""
        numbers = sorted({len(some) for some in self.runs.values()})
        if numbers == [1]:
            return "one run each"
        return f"{numbers[0]} runs each" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]} runs each"


@dataclass(frozen=True)
class Study:
    """A study's setup and its output folder.

    Attributes:
        out: folder of the page, the JSON file and, in ``runs``, the runs.
        workers: runs at a time; None for one per core.
        note: how the settings were chosen, printed on the page.
        run: whether to do missing runs; if not, only existing ones are reported.
    """

    name: str
    setup: Setup
    out: Path
    workers: int | None = None
    note: str = ""
    run: bool = True

    def results(self, entries: Sequence[Entry]) -> "StudyRuns":
        """Do the missing runs, and return all that were measured."""
        if self.out.exists() and not self.out.is_dir():
            raise MrafnoError(f"study: {self.out} is a file. Give a folder with --out.")
        runs = self.out / "runs"
        failures: dict[str, str] = {}
        if self.run:
            todo, workers = self.setup.jobs(entries), self.workers or cores()
            prepare(todo, runs, workers)
            with display(todo, self.setup, Console(stderr=True)) as watch:
                failures = run_jobs(todo, runs, self.setup, workers=workers, watch=watch)
        found = results(self.setup, entries, runs)
        if not found:
            reasons = "".join(f" {name}: {reason}" for name, reason in list(failures.items())[:1])
            raise MrafnoError(f"study: {runs} has no run of this study that was measured.{reasons}")
        return StudyRuns(found, failures)

    def write(
        self,
        title: str,
        lead: str,
        sections: Sequence[Section],
        tables: Sequence[tuple[str, Cells]],
        summary: Mapping[str, Any],
        found: "StudyRuns",
    ) -> None:
        """Print the tables, and write the JSON file and the page."""
        console = Console()
        for heading, cells in tables:
            console.print(as_table(heading, cells))
        self.out.mkdir(parents=True, exist_ok=True)
        values = {"study": self.name, "version": __version__, **self._described(found.runs), **summary}
        write_json(self.out / f"{self.name}.json", values)
        page = self.out / f"{self.name}.html"
        write_page(page, title, lead, [*sections, *self._what_was_run(found.runs)])
        console.print(f"Results: {self.out / (self.name + '.json')}. Page: {page.resolve().as_uri()}", soft_wrap=True)
        if found.failures:
            said = " ".join(f"{name}: {reason}" for name, reason in list(found.failures.items())[:3])
            raise MrafnoError(
                f"study: {counted(len(found.failures), 'run')} failed; the page shows them up to there. {said} The "
                "same call tries them again."
            )

    @property
    def task(self) -> Task:
        """The task."""
        return get_task(self.setup.task, **self.setup.task_settings)

    @property
    def meshes(self) -> list[str]:
        """The task's meshes, coarse to fine."""
        return [mesh_name(shape) for shape in self.task.resolutions]

    def _described(self, found: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
        s = self.setup
        return {
            "task": s.task,
            "steps": s.steps,
            "budget": s.budget,
            "count": s.count,
            "seeds": list(s.numbers),
            "settings": s.settings.as_json(),
            "task_settings": dict(s.task_settings),
            "note": self.note,
            "unfinished": [r.job.name for some in found.values() for r in some if not s.ended(r.state)],
        }

    def _what_was_run(self, found: Mapping[str, Sequence[Result]]) -> list[Section]:
        """The settings of the runs, and how they were chosen."""
        s = self.setup
        task = self.task
        runs = [r for some in found.values() for r in some]
        scheduled = sorted({_schedule(r) for r in runs if METHODS[r.job.method].divide_by_cost})
        chosen = f" {self.note}" if self.note else " How that was chosen is not recorded (--note)."
        rate = f"Cost schedule of methods that have one: {', '.join(scheduled)}.{chosen} " if scheduled else self.note
        unfinished = [r.job.name for r in runs if not s.ended(r.state)]
        if unfinished:
            rate += f" Not finished yet: {', '.join(unfinished)}."
        cells = [["setting", "value"], ["meshes", ", ".join(self.meshes)]]
        cells += [["cost of one solve", " : ".join(f"{cost:g}" for cost in task.costs)]]
        cells += [["steps", str(s.steps)], ["seeds", ", ".join(map(str, s.numbers))]]
        cells += [["budget", f"{s.budget:g}"]] if s.budget is not None else []
        hidden = () if scheduled else ("alpha", "schedule", "renormalise")
        cells += [[name, _shown(name, value)] for name, value in s.settings.as_json().items() if name not in hidden]
        return [("What was run", f"{rate} mrafno {__version__}; every run has one thread.", cells)]


def _schedule(result: Result) -> str:
    s = result.job.settings
    return s.schedule if s.schedule == "constant" else f"{s.schedule} with alpha {s.alpha:g}"


def _shown(name: str, value: Any) -> str:
    if value is None:
        return _DEFAULTS.get(name, "of the preset")
    return f"{value:g}" if isinstance(value, float) else str(value)
