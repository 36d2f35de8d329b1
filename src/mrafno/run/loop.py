"""The loop: ask, simulate, record, train, evaluate, until steps, budget, target, pool or failures end it.

Synchronous runs wait for a whole batch before they train, so that what they ask does not depend on the order in which
results arrive. Asynchronous ones ask again whenever a worker is free, knowing what is still running; they go on doing
so while the surrogate is trained, choosing by the one before.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from mrafno.data.cache import solve_examples
from mrafno.errors import CallbackError, FailuresError, LedgerError, MrafnoError, RunError, SimulationError, sentence
from mrafno.run.answers import OPEN, Answer, leave_answer
from mrafno.run.attempts import Attempts
from mrafno.run.doubts import doubts
from mrafno.run.goals import Goals, SimulationOptions
from mrafno.run.prices import mismatch
from mrafno.run.recorder import Recorder
from mrafno.run.session import Session
from mrafno.run.state import QueryRecord, RunState
from mrafno.run.trainer import Trainer
from mrafno.simulation.executors import InProcess
from mrafno.simulation.notices import nearly_full
from mrafno.simulation.query import Observation, Query
from mrafno.simulation.scheduler import Scheduler
from mrafno.simulation.spool import clear_spool, read_spool
from mrafno.storage.layout import SPOOL
from mrafno.tasks.base import Task
from mrafno.tasks.stored import ExternalTask

#: Failures that are too few to judge by.
_FEW_FAILURES = 4


class Watcher(Protocol):
    """Is called with what a run is doing: simulating, training or choosing, and how much of that is done."""

    def __call__(self, phase: str, done: float | None = None) -> None:
        """``done`` from 0 to 1 where it is known."""


def silent(phase: str, done: float | None = None) -> None:
    """The watcher that shows nothing."""
    del phase, done


#: Asks for n queries within the budget of the goals. It trains first if that is due, and reports progress to a watcher;
#: without one it does not train.
Ask = Callable[[int, Goals, Watcher | None], list[Query]]


class Loop:
    """Advances a run to its goals.

    Args:
        ask: asks the session for queries, which may train the surrogate first.
    """

    def __init__(
        self,
        recorder: Recorder,
        session: Session,
        trainer: Trainer,
        task: Task,
        *,
        ask: Ask,
        goals: Goals,
        options: SimulationOptions,
        watch: Watcher,
    ) -> None:
        self.recorder, self.session, self.trainer, self.task = recorder, session, trainer, task
        self.ask, self.goals, self.options, self.watch = ask, goals, options, watch
        #: How many simulations this advance has made, and why some of them failed.
        self._simulated, self._failures = 0, list[str]()
        self._here = options.runner is None
        # A simulation in this process can end it.
        exposed = options.runner is None or isinstance(options.runner, InProcess | ThreadPoolExecutor)
        self._attempts = Attempts(session, exposed=exposed)

    @property
    def state(self) -> RunState:
        """The run's state."""
        return self.recorder.state

    def run(self, *, progress: bool = False) -> str:
        """Go on until something ends it, record the end, and return the reason.

        Args:
            progress: show a progress bar while the first examples are simulated.
        """
        if isinstance(self.task, ExternalTask):
            self.task.refuse()
        o, folder = self.options, self.recorder.ledger.folder
        # In this process a result is recorded as soon as it is there, so it need not be spooled.
        spool = None if self._here else folder / SPOOL
        executor = o.runner or InProcess()
        self._failures += self._attempts.count_losses()
        self._simulated += len(self._failures)
        isolate = o.isolate or self._attempts.deadly
        scheduler = Scheduler(self.task, executor, limit=o.limit, isolate=isolate, memory=o.memory, spool=spool)
        try:
            self._collect_spooled()
            cached = self.task.identity is not None and not self.task.measured_costs  # a cached one takes no time
            if self._here and not scheduler.isolates and cached:
                self._solve_setup(progress)
            self.watch("simulating")
            for record in self.state.running:
                self._submit(scheduler, self.session.query(record))
            reason = self._iterate(scheduler)
            for about, text in doubts(self.state, self.trainer.examples()).items():
                self.recorder.warn(about, text)
        except KeyboardInterrupt:
            scheduler.cancel()
            self.recorder.record("stopped", reason="interrupted")
            raise
        except MrafnoError as error:
            with contextlib.suppress(LedgerError):
                # Whoever resumes after too many failures has corrected something.
                quiet, forgive = isinstance(error, CallbackError), isinstance(error, FailuresError)
                self.recorder.record("stopped", quiet=quiet, reason=str(error), forgive=forgive)
            raise
        finally:
            scheduler.close()
            self.session.in_progress.clear()
            self._attempts.clear()
        self.recorder.record("stopped", reason=reason)
        return reason

    def _iterate(self, scheduler: Scheduler) -> str:
        free = self.options.workers if self.options.asynchronous else 0
        while True:
            self.watch("simulating")
            while scheduler.running() and (not free or len(scheduler.running()) >= free or not self._can_ask()):
                self._take_result(scheduler)
            if free:
                self._take_finished(scheduler)
            step = self.state.step
            if reason := self._ended(scheduler):
                if scheduler.running():
                    self._take_result(scheduler)
                    continue
                return reason
            queries = self._next_queries(self._wanted(free, len(scheduler.running())))
            for query in queries:
                self._submit(scheduler, query)
            if not queries and not scheduler.running():
                if self.state.step != step:
                    continue  # the last results came while the surrogate was trained
                return self._exhausted()
            if not queries:
                self._take_result(scheduler)

    def _wanted(self, free: int, running: int) -> int:
        """How many queries to ask for now; ``free`` workers of an asynchronous run, 0 for a synchronous one."""
        missing = self.session.missing_setup()
        if missing:
            return max(free - running, 1) if free else len(missing)
        n = free - running if free else self.state.settings.batch
        if self.goals.steps is not None:
            n = min(n, self.goals.steps - self.state.queries.number("pool", "told", "running"))
        return max(n, 0)

    def _next_queries(self, n: int) -> list[Query]:
        if n < 1:
            return []
        if not self.session.missing_setup():
            self.watch("choosing")
        # An asynchronous run has trained where it goes on with other queries meanwhile.
        return self.ask(n, self.goals, None if self.options.asynchronous else self.watch)

    def _can_ask(self) -> bool:
        """Whether queries can be asked while others run: nothing is chosen before the first examples are observed."""
        return bool(self.session.missing_setup()) or not self._setup_running()

    def _setup_running(self) -> bool:
        return any(q.kind != "pool" for q in self.state.running)

    def _ended(self, scheduler: Scheduler) -> str | None:
        """Train on what was observed, evaluate if it is time, and return a reason if that is the end."""
        if self.session.missing_setup() or self._setup_running():
            return None
        if not self.session.ready():
            return None  # see _exhausted
        step, steps = self.state.step, self.goals.steps
        over = steps is not None and step >= steps
        self._train_and_evaluate(last=over, scheduler=scheduler)
        if over:
            return f"finished {step} step{'s' * (step != 1)}"
        if self._target_reached():
            self._train_and_evaluate(last=True)
        # The last fit may have changed the estimate.
        if self._target_reached():
            return f"reached the target: estimated error {self.state.estimate:.3g}, at most {self.state.bound:.3g}"
        return None

    def _target_reached(self) -> bool:
        """Whether the upper bound of the run's own error is below the target."""
        target, bound = self.goals.target, self.state.bound
        return target is not None and bound is not None and bound <= target

    def _train_and_evaluate(self, *, last: bool, scheduler: Scheduler | None = None) -> None:
        """Train and evaluate if it is time; workers of ``scheduler`` are kept busy in an asynchronous run."""
        self.recorder.warn("costs", mismatch(self.state))
        keep = self.options.asynchronous and not last and scheduler is not None and not scheduler.in_process
        busy = scheduler if keep else None

        def watch(done: float, *_: float) -> None:
            if busy is not None:
                self._keep_busy(busy)
            self.watch("training", done)

        self.trainer.train_and_evaluate_if_due(watch, last=last)

    def _keep_busy(self, scheduler: Scheduler) -> None:
        """Record what has finished, and give free workers something to do, while a fit is going on."""
        self._take_finished(scheduler)
        if self.trainer.meanwhile is None or self.session.missing_setup() or self._target_reached():
            return
        wanted = self._wanted(self.options.workers, len(scheduler.running()))
        for query in self.ask(wanted, self.goals, None) if wanted else ():
            self._submit(scheduler, query)

    def _exhausted(self) -> str:
        missing, budget = self.session.missing_setup(), self.goals.budget
        if missing and budget is not None:
            raise RunError(
                f"run {self.recorder.ledger.folder}: the budget of {budget:g} is used up before the first examples are "
                f"complete; {len(missing)} are missing. Spent: {self.state.spent}. Resume with a larger budget."
            )
        if not self.session.ready():
            raise FailuresError(
                f"run {self.recorder.ledger.folder}: there are too few initial examples to go on; simulations failed, "
                "and no candidates are left in their place. See `mrafno show`, correct the simulator, and resume."
            )
        self._train_and_evaluate(last=True)
        if budget is None or len(self.state.used_rows("pool")) >= len(self.session.inputs.pool):
            return "asked for the whole pool"
        return f"used up the budget of {budget:g}"

    # Simulations.

    def _solve_setup(self, progress: bool) -> None:
        """Simulate the first examples of a task whose results can be cached: from the cache, or on all cores.

        Those that fail are left for the loop.
        """
        if missing := self.session.missing_setup():
            self.ask(len(missing), self.goals, self.watch)
        if any(q.id in self.state.lost for q in self.state.running):
            return
        failures = 0
        for kind in ("initial", "test"):
            for level in range(self.task.levels):
                here = [q for q in self.state.of_kind(kind, "running") if q.level == level]
                if self._solve(here, progress):
                    continue
                # What was finished before the failure is in the cache, and found when it is asked for alone.
                for query in here:
                    failures += not self._solve([query], False)
                    if failures > _FEW_FAILURES:
                        return

    def _solve(self, records: Sequence[QueryRecord], progress: bool) -> bool:
        """Simulate queries of one kind and level and record their outputs; False if a simulation fails."""
        if not records:
            return True
        inputs = self.session.inputs
        f = np.stack([inputs.of("pool" if record.from_pool else record.kind, record.row) for record in records])
        ids = [record.id for record in records]
        self._attempts.begin(*ids)
        try:
            outputs = solve_examples(self.task, f, records[0].level, progress=progress)
        except (SimulationError, SystemExit):
            return False
        finally:
            self._attempts.end(*ids)
        for record, y in zip(records, outputs, strict=True):
            self.session.tell(record.id, y)
        return True

    def _submit(self, scheduler: Scheduler, query: Query) -> None:
        """Have a query simulated; in this process it is recorded before the next one starts."""
        self.session.in_progress.add(query.id)
        alone = self._attempts.needs_isolation(query.id)
        if not alone and not scheduler.isolates:
            self._attempts.begin(query.id)
        scheduler.submit(query, isolate=alone)
        if self._here:
            self._take_result(scheduler)

    def _take_finished(self, scheduler: Scheduler) -> None:
        """Record the results that are there."""
        while self._take_result(scheduler, timeout=0):
            pass

    def _take_result(self, scheduler: Scheduler, timeout: float | None = None) -> bool:
        """Record the next result; False if there is none after ``timeout`` seconds."""
        observation = scheduler.next(timeout)
        if observation is not None:
            # Ended before it is recorded: a driver that is killed while it records was not ended by the simulation.
            self._attempts.end(observation.id)
        self._warn(scheduler)
        self.session.take_in()
        if observation is None:
            return False
        if self.state.queries[observation.id].status not in OPEN:
            self._answered_meanwhile(observation)
        elif observation.output is not None:
            self.session.tell(observation.id, observation.output, seconds=observation.seconds)
        else:
            reason, seconds = observation.reason or "no reason was given", observation.seconds or None
            self.session.fail(observation.id, reason, seconds=seconds)
        if observation.reason is not None and observation.id in self.state.lost:
            scheduler.isolate()
        clear_spool(self.recorder.ledger.folder / SPOOL, [observation.id])
        self.session.in_progress.discard(observation.id)
        self._simulated += 1
        if observation.reason is not None:
            self._failures.append(observation.reason)
        self._check_failure_rate()
        return True

    def _warn(self, scheduler: Scheduler) -> None:
        """Record what was heard of the workers, and a disk of this machine that is nearly full."""
        heard = [*scheduler.notices, *nearly_full(self.recorder.ledger.folder)]
        scheduler.notices.clear()
        for notice in heard:
            self.recorder.warn(*notice)

    def _answered_meanwhile(self, observation: Observation) -> None:
        """Keep a result whose query another process has answered: that answer came first, and counts."""
        id, output = observation.id, observation.output
        if output is not None:
            answer = Answer(id, "told", output, seconds=observation.seconds)
            leave_answer(self.recorder.ledger.folder, answer)
            self.session.take_in()

    def _check_failure_rate(self) -> None:
        failed = self._failures
        rate, most = len(failed) / max(self._simulated, 1), self.options.max_failure_rate
        if len(failed) > _FEW_FAILURES and rate > most:
            raise FailuresError(
                f"run {self.recorder.ledger.folder}: {len(failed)} simulations failed, {100 * rate:.0f} % of all, more "
                f"than {100 * most:.0f} %. The last reason: {sentence(failed[-1])} Everything is kept: correct the "
                "simulator and resume."
            )

    def _collect_spooled(self) -> None:
        """Record what workers finished while no driver ran."""
        folder = self.recorder.ledger.folder / SPOOL
        if not folder.exists():
            return
        open_ = [q for q in self.state.queries.values() if q.status in OPEN]
        waiting = [q for q in open_ if "input" not in q.damaged]  # an output without its input is of no use
        # Results that are recorded are not read again; those that nobody asked for are reported, and left.
        clear_spool(folder, set(self.state.queries) - {q.id for q in waiting})
        found, complaints = read_spool(folder, [self.session.query(q) for q in waiting])
        self.recorder.ledger.damage += complaints
        for id, observation in found.items():
            # Telling one may settle another.
            if observation.output is not None and self.state.queries[id].status in ("running", "expired"):
                self.session.tell(id, observation.output, seconds=observation.seconds)
        clear_spool(folder, list(found))
