"""Studies of active learning: their runs, and where these are.

Every run is a directory ``OUT/runs/NAME``, named by everything that determines it except its length. So an interrupted
study continues, a longer one extends the runs of a shorter one (which were trained once more where they ended before),
and studies share runs. Missing runs are done by :mod:`mrafno.studies.runner`.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from mrafno.analysis.curves import Curve
from mrafno.data.pool import ENDLESS_POOL
from mrafno.errors import MrafnoError
from mrafno.run import Run
from mrafno.run.methods import METHODS, get_method
from mrafno.run.reader import RunReader
from mrafno.run.settings import RunSettings
from mrafno.run.spending import Count, check_count
from mrafno.run.state import RunState
from mrafno.storage.layout import is_run
from mrafno.tasks import Task, get_task

#: Steps of the paper's runs, where they are not 500.
_STEPS = {"navier-stokes": 300}
#: Settings of the paper's runs that are not the defaults: the same first examples for every method.
PAPER: dict[str, Any] = {"initial": 10, "design": "random", "test": 200}
#: Settings of a quick study, which shows that everything works and nothing about accuracy.
_QUICK: dict[str, Any] = {
    "pool": 40, "initial": 4, "test": 10, "members": 2, "iterations": 20, "evaluate": 5, "refit_growth": 0.2,
}  # fmt: skip
_QUICK_STEPS = 10


@dataclass(frozen=True)
class Entry:
    """A row of a study's table: a method, and the settings in which it differs from the study's."""

    label: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> "Entry":
        """From ``METHOD``, ``METHOD@ALPHA``, ``METHOD@SCHEDULE:ALPHA`` or, with true costs, ``METHOD@constant``."""
        method, at, rest = text.strip().partition("@")
        get_method(method)
        if not at:
            return Entry(method, method)
        schedule, colon, alpha = rest.rpartition(":")
        changes: dict[str, Any]
        try:
            changes = {"schedule": rest} if rest == "constant" else {"alpha": float(alpha)}
        except ValueError:
            raise MrafnoError(
                f"study: {text!r} is not a method. Write METHOD, METHOD@ALPHA, METHOD@exp:ALPHA or METHOD@constant."
            ) from None
        if colon:
            changes["schedule"] = schedule
        if not METHODS[method].divide_by_cost:
            raise MrafnoError(f"study: {method} has no cost schedule, so no alpha. Write {method!r}.")
        return Entry(text.strip(), method, changes)


@dataclass(frozen=True)
class Job:
    """One run; settings that the method does not use have their defaults."""

    task: str
    method: str
    seed: int
    settings: RunSettings
    task_settings: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(
        task: str, method: str, seed: int, settings: RunSettings, task_settings: Mapping[str, Any] | None = None
    ) -> "Job":
        """A job; settings of a schedule that its method does not have are set to their defaults."""
        usual = RunSettings()
        own = {name: value for name, value in PAPER.items() if getattr(settings, name) is None}
        settings = replace(settings, **own)
        if not get_method(method).divide_by_cost:
            settings = replace(settings, schedule=usual.schedule, alpha=usual.alpha, renormalise=usual.renormalise)
        elif settings.schedule == "constant":
            settings = replace(settings, alpha=usual.alpha)
        return Job(task, method, seed, settings, dict(task_settings or {}))

    @property
    def name(self) -> str:
        """The name of the run's directory: readable, with a digest of all other settings."""
        parts = [self.task, self.method]
        if get_method(self.method).divide_by_cost:
            parts.append(self.settings.schedule)
            if self.settings.schedule != "constant":
                parts.append(f"{self.settings.alpha:g}")
        usual = RunSettings(**PAPER).as_json()
        others = {
            name: value
            for name, value in self.settings.as_json().items()
            if value != usual[name] and name not in ("schedule", "alpha")
        }
        if others or self.task_settings:
            text = json.dumps([others, dict(self.task_settings)], sort_keys=True)
            parts.append(hashlib.sha256(text.encode()).hexdigest()[:8])
        return "-".join([*parts, f"seed{self.seed}"])

    def make_task(self) -> Task:
        """The task."""
        return get_task(self.task, **self.task_settings)


@dataclass(frozen=True)
class Setup:
    """Settings that the runs of a study share.

    Attributes:
        steps: chosen examples of each run.
        budget: a run also ends when it has spent this. Unlike the budget of a single run, the last query may exceed
            it: so the run is the beginning of one with a larger budget.
        count: what costs have, see :mod:`mrafno.run.spending`; the paper counts the chosen examples alone.
        settings: of every run, before an entry's changes.
        task_settings: arguments of the task.
    """

    task: str = "burgers"
    steps: int = 500
    budget: float | None = None
    count: Count = "chosen"
    seeds: int = 3
    first_seed: int = 0
    settings: RunSettings = field(default_factory=lambda: RunSettings(**PAPER))
    task_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        get_task(self.task, **self.task_settings)
        check_count(self.count)
        if self.steps < 1 or self.seeds < 1 or self.first_seed < 0:
            raise MrafnoError(
                f"study: {self.steps} steps and {self.seeds} seeds from {self.first_seed} on: give 1 or more."
            )
        if self.budget is not None and not self.budget > 0:
            raise MrafnoError(f"study: the budget must be positive, got {self.budget:g}.")
        if not self.settings.test:
            raise MrafnoError("study: without test examples there is nothing to compare. Set test to 1 or more.")

    @classmethod
    def of(
        cls,
        task: str,
        *,
        steps: int | None = None,
        budget: float | None = None,
        count: Count = "chosen",
        seeds: int | None = None,
        first_seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        quick: bool = False,
    ) -> Self:
        """The paper's setup, or a quick one, with changes."""
        usual = {"steps": _QUICK_STEPS, "seeds": 2} if quick else {"steps": _STEPS.get(task, 500), "seeds": 3}
        return cls(
            task,
            steps=usual["steps"] if steps is None else steps,
            budget=budget,
            count=count,
            seeds=usual["seeds"] if seeds is None else seeds,
            first_seed=first_seed,
            settings=RunSettings.of(**{**PAPER, **(_QUICK if quick else {}), **(settings or {})}),
        )

    @property
    def numbers(self) -> range:
        """The seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def job(self, entry: Entry, seed: int) -> Job:
        """The run of an entry with a seed."""
        settings = RunSettings.of(**{**self.settings.as_json(), **entry.changes})
        return Job.of(self.task, entry.method, seed, settings, self.task_settings)

    def jobs(self, entries: Sequence[Entry]) -> list[Job]:
        """All runs, each once; the first seed's come first, so that an unfinished study compares equal seeds."""
        every = [self.job(entry, seed) for seed in self.numbers for entry in entries]
        return list({job.name: job for job in every}.values())

    def ended(self, state: RunState) -> bool:
        """Whether a run has its full length, and was measured there."""
        if not state.evaluations or state.evaluations[-1].step != state.step or state.running:
            return False
        return self.spent(state) or state.step >= min(self.steps, state.settings.pool or ENDLESS_POOL)

    def spent(self, state: RunState) -> bool:
        """Whether a run has spent its budget."""
        return self.budget is not None and state.spent.counted(self.count) >= self.budget


@dataclass(frozen=True)
class Result:
    """A run, finished or not."""

    job: Job
    folder: Path
    state: RunState
    count: Count = "chosen"

    @property
    def curve(self) -> Curve:
        """Error on the test examples against accumulated cost."""
        curve = self.state.error_curve(self.count)
        assert curve is not None, "a result was measured at least once"
        return curve

    def counts(self, first: int = 1, last: int | None = None) -> list[int]:
        """Chosen examples of each level, of all steps or of some (from 1, both ends included)."""
        found = [0] * len(self.state.task["resolutions"])
        for query in self.state.of_kind("pool", "told"):
            if query.step is not None and first <= query.step and (last is None or query.step <= last):
                found[query.level] += 1
        return found


def results(setup: Setup, entries: Sequence[Entry], runs: Path) -> dict[str, list[Result]]:
    """Runs that were measured at least once, by label; labels without any are left out."""
    found: dict[str, list[Result]] = {}
    for entry in entries:
        for seed in setup.numbers:
            job = setup.job(entry, seed)
            state = read(job, runs)
            if state is not None and state.measurements:
                found.setdefault(entry.label, []).append(Result(job, runs / job.name, state, setup.count))
    return found


def read(job: Job, runs: Path) -> RunState | None:
    """The state of a run, None if it does not exist; nothing is locked."""
    folder = runs / job.name
    if not is_run(folder):
        return None
    state = RunReader(folder).state
    check_settings(job, state, folder)
    return state


def check_settings(job: Job, state: RunState, folder: Path) -> None:
    """Raise unless a directory has a run with the job's settings: defaults may have changed since it was named."""
    wanted, have = job.settings.as_json(), state.settings.as_json()
    different = [f"{name} {have[name]} instead of {wanted[name]}" for name in wanted if have[name] != wanted[name]]
    if different:
        raise MrafnoError(
            f"study: {folder} has a run with other settings: {', '.join(different)}. Give these with --setting, move "
            "the run away, or choose another folder with --out."
        )


def run_job(job: Job, runs: Path, setup: Setup, watch: Callable[[RunState, str], None]) -> RunState:
    """Create or continue a run until it has its full length.

    ``watch`` is called with the state and the phase; a KeyboardInterrupt that it raises stops the run.
    """
    folder = runs / job.name
    task = job.make_task()
    if is_run(folder):
        run = Run.open(folder, task)
    else:
        run = Run.create(folder, task, method=job.method, seed=job.seed, **job.settings.as_json())
    with run:
        check_settings(job, run.state, folder)

        def on_phase(phase: str, done: float | None = None) -> None:
            del done
            watch(run.state, phase)
            # Every round of the loop begins with this phase.
            if phase == "simulating" and run.state.step < last and setup.spent(run.state):
                raise _BudgetSpentError

        last = setup.steps
        while not setup.ended(run.state):
            try:
                run.advance(total_steps=last, watch=on_phase)
                break
            except _BudgetSpentError:
                last = run.state.step  # train and measure there, as at the end of every run
        return run.state


class _BudgetSpentError(Exception):
    """A run has spent its budget."""
