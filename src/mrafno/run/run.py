"""A run in a directory: a session that asks and tells, a trainer and a loop, behind one object."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from mrafno.acquisition.base import Choice
from mrafno.data.imports import Examples
from mrafno.data.pool import RunInputs
from mrafno.run.callbacks import Callbacks
from mrafno.run.drive import drive
from mrafno.run.estimation import ErrorEstimator
from mrafno.run.fit_time import row
from mrafno.run.goals import Goals, SimulationOptions, check_goals, goals_of
from mrafno.run.inputs import check_created, stored_inputs
from mrafno.run.known import Known
from mrafno.run.loop import Watcher, silent
from mrafno.run.methods import Method, method_of_run
from mrafno.run.new import NewRun
from mrafno.run.notebook import NotebookProgress, in_notebook, table
from mrafno.run.outcome import Outcome, figures
from mrafno.run.plan import Plan
from mrafno.run.prices import prices
from mrafno.run.recorder import Recorder
from mrafno.run.session import Session
from mrafno.run.spending import Count, check_count
from mrafno.run.state import Evaluation, QueryRecord, RunState, Training
from mrafno.run.trainer import Trainer
from mrafno.simulation.query import Query
from mrafno.storage.ledger import Ledger
from mrafno.storage.new_folder import check_new
from mrafno.surrogate.devices import check_device
from mrafno.tasks.base import Task
from mrafno.tasks.stored import check_same_task, task_from_json

if TYPE_CHECKING:  # they import torch, which telling does not need, or pandas
    from pandas import DataFrame

    from mrafno.analysis.metrics import Metrics
    from mrafno.data.dataset import Dataset
    from mrafno.run.chooser import Chooser
    from mrafno.surrogate.inference.base import Surrogate
    from mrafno.surrogate.out_of_fold import Watch
    from mrafno.surrogate.training.policy import FitKind

logger = logging.getLogger(__name__)


class Run(Known):
    """A run in a directory.

    Make one with :meth:`create` or :meth:`open`, not by its constructor, and close it, or use it as a context manager.
    """

    def __init__(
        self,
        ledger: Ledger,
        task: Task,
        *,
        method: Method | None,
        state: RunState | None = None,
        write: bool = True,
        callbacks: Sequence[object] = (),
        device: str = "auto",
    ) -> None:
        self.recorder = Recorder(ledger, state)
        self.task, self.method, self.writes = task, method, write
        self.session = Session(self.recorder, task)
        estimator = ErrorEstimator(task, lambda: self.session.inputs)
        self.trainer = Trainer(self.recorder, task, method, estimator, write=write, device=device)
        self.callbacks = Callbacks(self, callbacks)
        self.recorder.listeners.append(self.callbacks)
        self._chooser: Chooser | None = None

    @classmethod
    def create(
        cls,
        path: Path | str,
        task: Task,
        method: str | Method = "mra-auto",
        seed: int = 0,
        *,
        examples: Examples | None = None,
        callbacks: Sequence[object] = (),
        device: str = "auto",
        **settings: Any,
    ) -> Self:
        """A new run; an error if the directory holds one already.

        Args:
            path: the run's directory.
            task: what to simulate.
            method: name of a built-in method, or a :class:`~mrafno.run.methods.Method` of your own.
            seed: of everything random.
            examples: earlier simulations, in place of as many initial ones; see :mod:`mrafno.data.imports`.
            callbacks: objects that are called after events; see :mod:`mrafno.run.callbacks`.
            device: of the surrogate: ``auto`` (a GPU where there is one), or a torch device.
            settings: those of :class:`RunSettings`.
        """
        check_new(path)
        check_device(device)
        new = NewRun.of(task, method, seed, examples, settings)
        ledger = Ledger.create(path, **new.data)
        try:
            run = cls(ledger, task, method=new.method, callbacks=callbacks, device=device)
            new.record_imported(run.recorder, task.levels)
            run.session.store.keep(new.inputs)
        except BaseException:
            ledger.close()
            raise
        logger.info("created %s: %s, %s, seed %d", path, task.name, new.method.name, seed)
        return run

    @classmethod
    def open(
        cls,
        path: Path | str,
        task: Task | None = None,
        *,
        method: Method | None = None,
        write: bool = True,
        wait: float = 0.0,
        brief: bool = False,
        callbacks: Sequence[object] = (),
        device: str = "auto",
    ) -> Self:
        """A run that exists; answers that other processes left for it are taken in.

        Args:
            task: needed for a task of your own if simulations are to be run here; for asking and telling it is not.
            method: needed for a method of your own if queries are to be chosen here. Its name and parameters must be
                those that the run was created with.
            write: without, the run can be looked at while another process writes it.
            wait: seconds to wait for another process that holds the run; after that, LedgerLockedError.
            brief: say that the run is held for a moment only: others wait for it in any case.
            callbacks, device: as of :meth:`create`.
        """
        check_device(device)
        ledger = Ledger.open(path, write=write, wait=wait, brief=brief)
        try:
            state = RunState.of(ledger.events)
            check_created(state, path)
            if task is not None:
                check_same_task(task, state.task)
            else:
                task = task_from_json(state.task, stored_inputs(ledger, state))
            known = method_of_run(state.method, state.own_method, method, f"run {path}")
            run = cls(ledger, task, method=known, state=state, write=write, callbacks=callbacks, device=device)
            run.session.store.check(keep=write)
            if write:
                run.session.take_in()
        except BaseException:
            ledger.close()
            raise
        return run

    @property
    def path(self) -> Path:
        """The run's directory."""
        return self.recorder.ledger.folder

    @property
    def ledger(self) -> Ledger:
        """Events and arrays on disk."""
        return self.recorder.ledger

    @property
    def state(self) -> RunState:
        """What was recorded so far."""
        return self.recorder.state

    @property
    def inputs(self) -> RunInputs:
        """All inputs of the run on the finest grid."""
        return self.session.inputs

    @property
    def surrogate(self) -> "Surrogate":
        """The surrogate that predicts: after the last fit, or after an earlier one if that made it clearly worse."""
        return self.trainer.best

    # Asking and telling.

    def ask(
        self,
        n: int | None = None,
        *,
        budget: float | None = None,
        count: Count = "total",
        watch: "Watch | None" = None,
        train: bool = True,
    ) -> list[Query]:
        """The next simulations to run, at most n (the run's batch by default); recorded before they are returned.

        First come the initial examples, then the test examples, then choices, for which the surrogate is trained on
        what was told if that is due. Fewer than n are returned when the pool or the budget is used up, or when too few
        examples are observed to choose by.

        Args:
            budget: what this run may cost, what was spent already included; it is never exceeded.
            count: what the budget covers: ``total``, ``training`` or ``chosen``, see :mod:`mrafno.run.spending`.
            watch: called with the progress of training.
            train: False to choose by the last fit in any case; while a fit is going on, that is the one before.
        """
        check_count(count)

        def choose(n: int, left: float | None) -> list[tuple[Choice, dict[str, Any]]]:
            if train or not self.state.trainings:
                self.trainer.train_and_evaluate_if_due(watch)
            started = time.perf_counter()
            before = self.trainer.meanwhile  # while a fit is going on
            make = self.chooser.choose_next if before else self.chooser.choose
            chosen = make(before or self.trainer.surrogate, self.state, n, left)
            seconds = (time.perf_counter() - started) / max(len(chosen), 1)
            return [(choice, {**details, "seconds": seconds}) for choice, details in chosen]

        return self.session.ask(n, choose=choose, budget=budget, count=count)

    def undelivered(self, *, delivered: bool = False) -> list[Query]:
        """Queries to hand out again, see :meth:`mrafno.run.session.Session.undelivered`."""
        return self.session.undelivered(delivered=delivered)

    def tell(self, id: str, output: ArrayLike, *, cost: float | None = None, seconds: float | None = None) -> None:
        """Record the output of a simulation; see :meth:`mrafno.run.session.Session.tell`."""
        self.session.take_in()  # an answer that another process has left came first
        self.session.tell(id, output, cost=cost, seconds=seconds)

    def fail(self, id: str, reason: str, *, cost: float | None = None, seconds: float | None = None) -> None:
        """Record that a simulation gave no output; see :meth:`mrafno.run.session.Session.fail`."""
        self.session.take_in()
        self.session.fail(id, reason, cost=cost, seconds=seconds)

    def abandon(self, id: str, reason: str, *, cost: float | None = None, seconds: float | None = None) -> None:
        """Record that its input is never to be asked for again; see :meth:`mrafno.run.session.Session.abandon`."""
        self.session.take_in()
        self.session.abandon(id, reason, cost=cost, seconds=seconds)

    def add_candidates(self, candidates: ArrayLike) -> int:
        """Add candidates ``(n, in_channels, *finest grid)`` to the pool; they are on disk when this returns."""
        self._chooser = None
        return self.session.store.add(candidates)

    def query(self, record: QueryRecord) -> Query:
        """A query that was asked before, with its input."""
        return self.session.query(record)

    @property
    def chooser(self) -> "Chooser":
        """What makes the choices."""
        if self._chooser is None:
            from mrafno.run.chooser import Chooser  # imports torch

            self.trainer.spec()  # raises if the method is not known
            assert self.method is not None, "a spec comes from a method"
            parts = (self.task, self.method, self.settings, self.state.seed, self.inputs)
            self._chooser = Chooser(*parts, folder=self.path if self.writes else None)
        return self._chooser

    def train(self, kind: "FitKind | None" = None, watch: "Watch | None" = None) -> Training | None:
        """Train on the observations since the last fit; see :meth:`mrafno.run.trainer.Trainer.train`."""
        return self.trainer.train(kind, watch)

    def train_and_evaluate_if_due(self, watch: "Watch | None" = None, *, last: bool = False) -> None:
        """Train if there is enough new to train on, evaluate if it is time."""
        self.trainer.train_and_evaluate_if_due(watch, last=last)

    def evaluate(self) -> Evaluation | None:
        """Evaluate the surrogate on the test examples and record it; None if there are none."""
        return self.trainer.evaluate()

    def metrics(self, surrogate: "Surrogate") -> "Metrics":
        """Metrics of any surrogate on the run's test examples; nothing is recorded."""
        return self.trainer.metrics(surrogate)

    def examples(self) -> "Dataset":
        """All examples that the surrogate was trained on."""
        return self.trainer.examples()

    def plan(
        self,
        steps: int | None = None,
        *,
        total_steps: int | None = None,
        budget: float | None = None,
        count: Count = "total",
    ) -> Plan:
        """What an advance with these goals would simulate, and what that costs; arguments as of :meth:`advance`."""
        return self._planned(goals_of(steps, total_steps, budget, count, None, done=self.state.step))

    def _planned(self, goals: Goals) -> Plan:
        spent, steps = self.state.spent, self.state.step
        return Plan.of(
            self.task, self.session.missing_setup(), goals, prices=prices(self.state), spent=spent, steps=steps
        )

    def advance(
        self,
        steps: int | None = None,
        *,
        total_steps: int | None = None,
        budget: float | None = None,
        count: Count = "total",
        target: float | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        workers: int = 1,
        asynchronous: bool = False,
        limit: float | None = None,
        isolate: bool = False,
        memory: int | None = None,
        max_failure_rate: float = 0.5,
        watch: Watcher | None = None,
        progress: bool = False,
    ) -> Outcome:
        """Ask, simulate, train and evaluate until something ends it.

        Args:
            steps: how many more examples to choose and simulate: ``advance(steps=5)`` twice makes ten steps.
            total_steps: the same counted from the beginning of the run: a script that was interrupted and is started
                again makes the steps that are missing.
            budget: what the run may cost in all, first examples and earlier calls included; it is never exceeded.
            count: what the budget covers: ``total``, ``training`` or ``chosen``, see :mod:`mrafno.run.spending`.
            target: relative error; the run ends when the upper ends of its last two estimates are lower. The
                test examples are not used for this.
            executor: what runs simulations, or what makes such a thing again when its workers die; by default this
                process, or, with two workers or more, a pool of processes on this machine.
            workers: processes of that pool; with an executor, simulations that run at a time in an asynchronous run.
            asynchronous: ask again as soon as a worker is free, instead of after a whole batch.
            limit: seconds after which a simulation is ended, with everything it started.
            isolate: simulate in child processes, so that a crash is a failed simulation.
            memory: bytes that a simulation may take, in a child process.
            max_failure_rate: share of the simulations that may fail before the run stops.
            watch: called with what the run is doing; by default it is shown in a notebook, and not elsewhere.
            progress: show a progress bar while the first examples are simulated.
        """
        goals = goals_of(steps, total_steps, budget, count, target, done=self.state.step)
        check_goals(goals, self.trainer.spec().name)
        self._planned(goals).check()
        options = SimulationOptions(
            executor=executor,
            workers=workers,
            asynchronous=asynchronous,
            limit=limit,
            isolate=isolate,
            memory=memory,
            max_failure_rate=max_failure_rate,
        )
        if goals.steps is not None and goals.steps < self.state.step:
            return Outcome.of(self.state, f"nothing to do: {self.state.step} steps are done")
        watch = watch or (NotebookProgress(self._now) if in_notebook() else silent)
        reason = drive(self, goals, options, watch, progress=progress)
        if self.trainer.surrogate.fits:  # trained again, if a run that was killed had not saved it
            self.trainer.save()
        return Outcome.of(self.state, reason)

    def _now(self) -> dict[str, Any]:
        return {**figures(self.state), **row(self.trainer.ahead)}

    def ask_for_loop(self, n: int, goals: Goals, watch: Watcher | None) -> list[Query]:
        """Ask as :meth:`ask` does, and report training to the watcher of a loop; without one nothing is trained."""
        how: dict[str, Any] = {"train": False} if watch is None else {"watch": lambda done, *_: watch("training", done)}
        return self.ask(n, budget=goals.budget, count=goals.count, **how)

    # Keeping and showing.

    def to_dataframe(self) -> "DataFrame":
        """A pandas DataFrame with a row for every query; see :mod:`mrafno.run.frame`."""
        from mrafno.run.frame import query_frame  # pandas is an extra

        return query_frame(self.state, self.ledger)

    def save(self) -> None:
        """Write the surrogate's checkpoint, if it was trained since the last one."""
        self.trainer.save()

    def close(self) -> None:
        """Save the surrogate if it was trained since it was saved, and let others write."""
        try:
            self.save()
        finally:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state, cost = self.state, self.state.spent.total
        about = f"{state.task['name']}, {state.method}, seed {state.seed}, step {state.step}, cost {cost:g}"
        return f"<{type(self).__name__} {self.path}: {about}>"

    def _repr_html_(self) -> str:
        state = self.state
        return table(f"Run {self.path}", {**figures(state), "seed": state.seed, "state": state.activity()})
