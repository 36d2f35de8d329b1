"""The loop: ask, simulate, record, train, evaluate, until steps, budget, target, pool or failures end it.

Synchronous runs wait for a whole batch before they learn, so that what they ask does not depend on the order in which
results arrive. Asynchronous ones ask again whenever a worker is free, knowing what is still running.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol

import numpy as np

from mrafno.data.cache import solve_examples
from mrafno.errors import FailuresError, LedgerError, MrafnoError, RunError, SimulationError, sentence
from mrafno.run.session import AskTell
from mrafno.run.state import QueryRecord, RunState
from mrafno.simulation.executors import InProcess
from mrafno.simulation.query import Query
from mrafno.simulation.scheduler import Scheduler
from mrafno.simulation.spool import clear_spool, read_spool
from mrafno.tasks.stored import ExternalTask

#: Where workers put what they have finished, inside the run directory.
SPOOL = "spool"
#: Failures that are too few to judge by.
_FEW = 4


class Watcher(Protocol):
    """Hears what a run is doing: simulating, training or choosing, and how much of that is done."""

    def __call__(self, phase: str, done: float | None = None) -> None:
        """``done`` from 0 to 1 where it is known."""


class Run(AskTell):
    """A run that can simulate by itself; see :class:`~mrafno.run.session.AskTell` for asking and telling by hand."""

    #: Of what this advance has heard: why it failed, None for what did not.
    _heard: list[str | None]

    def advance(
        self,
        steps: int | None = None,
        *,
        budget: float | None = None,
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
    ) -> str:
        """Go on until something ends it, and say what did.

        Args:
            steps: chosen examples that the run is to have in all.
            budget: cost of the chosen examples in all; it is never exceeded.
            target: relative error; the run ends when it is sure, by examples that single networks have not learnt
                from, that its own is lower: see :attr:`RunState.bound`. The test examples are not looked at.
            executor: what runs simulations, or what makes such a thing anew when its workers die; by default this
                process.
            workers: simulations that run at a time, where the executor has more than one worker.
            asynchronous: ask again as soon as a worker is free, instead of after a whole batch.
            limit: seconds after which a simulation is ended, with everything it started.
            isolate: run every simulation in a process of its own.
            memory: bytes that a simulation may take, in a process of its own.
            max_failure_rate: share of the simulations that may fail before the run ends.
            watch: hears what is going on.
            progress: show a progress bar while the first examples are simulated.
        """
        if steps is not None and steps < 0:
            raise RunError(f"run: cannot advance to {steps} steps.")
        if isinstance(self.task, ExternalTask):
            self.task.refuse()
        if steps is not None and steps < self.state.step:
            return f"nothing to do: steps count from the beginning, and {self.state.step} are done"
        inference = self.method.inferred(self.settings.inference)
        if target is not None and inference != "ensemble":
            raise RunError(
                "run: only the networks of an ensemble leave examples out, by which a run knows its own error. "
                f"Leave target out, or choose inference ensemble instead of {inference}."
            )
        tell = watch or _silent
        # In this process a result is recorded as soon as it is there, so nobody needs to spool it.
        spool = None if executor is None else self.ledger.folder / SPOOL
        self._heard = []
        flying = Scheduler(self.task, executor or InProcess(), limit=limit, isolate=isolate, memory=memory, spool=spool)
        try:
            self._collect()
            if executor is None and not isolate and limit is None and memory is None and self.task.identity is not None:
                self._set_up(progress)
            tell("simulating")
            for asked in self.state.running:
                self._submit(flying, self.query(asked), spool is None, max_failure_rate)
            reason = self._loop(
                flying, steps, budget, target, workers if asynchronous else 0, spool is None, max_failure_rate, tell
            )
        except KeyboardInterrupt:
            flying.cancel()
            # It may have come between an event's recording and its application here.
            self.state = RunState.of(self.ledger.events)
            self._append("stopped", reason="interrupted")
            raise
        except MrafnoError as error:
            with contextlib.suppress(LedgerError):
                # Whoever resumes after too many failures has mended something.
                self._append("stopped", reason=str(error), forgive=isinstance(error, FailuresError))
            raise
        finally:
            flying.close()
            self._under_way.clear()
        self._append("stopped", reason=reason)
        if self.surrogate.fits:  # learnt again, if a run that was killed had not saved it
            self.save()
        return reason

    def _loop(
        self,
        flying: Scheduler,
        steps: int | None,
        budget: float | None,
        target: float | None,
        free: int,
        here: bool,
        max_failure_rate: float,
        tell: Watcher,
    ) -> str:
        """``free`` is how many may run at a time in an asynchronous run, 0 for a synchronous one."""
        while True:
            tell("simulating")
            while flying.running() and (not free or len(flying.running()) >= free or not self._ready()):
                self._hear(flying, max_failure_rate)
            if reason := self._ended(flying, steps, target, tell):
                if flying.running():
                    self._hear(flying, max_failure_rate)
                    continue
                return reason
            n = self._wanted(free, len(flying.running()), steps)
            queries = self._asked(n, budget, tell)
            for query in queries:
                self._submit(flying, query, here, max_failure_rate)
            if not queries and not flying.running():
                return self._exhausted(budget, tell)
            if not queries:
                self._hear(flying, max_failure_rate)

    def _wanted(self, free: int, running: int, steps: int | None) -> int:
        """How many to ask for now."""
        if self._setup_left():
            return max(free - running, 1) if free else len(self._setup_left())
        n = free - running if free else self.settings.batch
        if steps is not None:
            n = min(n, steps - len(self.state.of_kind("pool", "told", "running")))
        return max(n, 0)

    def _asked(self, n: int, budget: float | None, tell: Watcher) -> list[Query]:
        if n < 1:
            return []
        if not self._setup_left():
            tell("choosing")
        return self.ask(n, budget=budget, watch=lambda done, *_: tell("training", done))

    def _ready(self) -> bool:
        """Whether something can be asked while others run: nothing is chosen before the first examples are there."""
        return bool(self._setup_left()) or not self._setting_up()

    def _setting_up(self) -> bool:
        return any(q.kind != "pool" for q in self.state.running)

    def _ended(self, flying: Scheduler, steps: int | None, target: float | None, tell: Watcher) -> str | None:
        """Learn from what was told, measure when it is time, and say whether that is the end."""
        if self._setup_left() or self._setting_up():
            return None
        if not self._enough():
            return None  # see _exhausted
        step = self.state.step
        over = steps is not None and step >= steps
        self._train_and_evaluate_if_due(tell, last=over)
        if over:
            return f"finished {step} step{'s' * (step != 1)}"
        if self._sure(target):
            self._train_and_evaluate_if_due(tell, last=True)
        # The last fit may have changed its mind.
        if self._sure(target):
            return f"reached the target: estimated error {self.state.estimate:.3g}, at most {self.state.bound:.3g}"
        return None

    def _sure(self, target: float | None) -> bool:
        """Whether the run's own error is below a target, as far as it can tell."""
        bound = self.state.bound
        return target is not None and bound is not None and bound <= target

    def _train_and_evaluate_if_due(self, tell: Watcher, *, last: bool) -> None:
        self.train_and_evaluate_if_due(lambda done, *_: tell("training", done), last=last)

    def _exhausted(self, budget: float | None, tell: Watcher) -> str:
        if not self._enough():
            raise FailuresError(
                f"run {self.ledger.folder}: there are too few initial examples to go on; their simulations failed. "
                "See `mrafno show`, mend the simulator, and resume."
            )
        self._train_and_evaluate_if_due(tell, last=True)
        if budget is None or len(self.state.used_rows("pool")) >= len(self.inputs.pool):
            return "asked for the whole pool"
        return f"used up the budget of {budget:g}"

    # Simulations.

    def _set_up(self, progress: bool) -> None:
        """The first examples of a task whose results can be kept for other runs: from there, or on all cores.

        Those that fail are left for the loop.
        """
        if left := self._setup_left():
            self.ask(len(left))
        failures = 0
        for kind in ("initial", "test"):
            for level in range(self.task.levels):
                here = [q for q in self.state.of_kind(kind, "running") if q.level == level]
                if self._solved(here, progress):
                    continue
                # What was finished before the failure is kept, and found when it is asked for alone.
                for query in here:
                    failures += not self._solved([query], False)
                    if failures > _FEW:
                        return

    def _solved(self, queries: Sequence[QueryRecord], progress: bool) -> bool:
        """Tell the outputs of queries of one kind and level, unless a simulation fails."""
        if not queries:
            return True
        f = np.stack([self.inputs.of(query.kind, query.row) for query in queries])
        try:
            outputs = solve_examples(self.task, f, queries[0].level, progress=progress)
        except (SimulationError, SystemExit):
            return False
        for query, y in zip(queries, outputs, strict=True):
            self.tell(query.id, y)
        return True

    def _submit(self, flying: Scheduler, query: Query, here: bool, max_failure_rate: float) -> None:
        """Have a query simulated; one that is simulated ``here`` is recorded before the next one begins."""
        self._under_way.add(query.id)
        flying.submit(query)
        if here:
            self._hear(flying, max_failure_rate)

    def _hear(self, flying: Scheduler, max_failure_rate: float) -> None:
        """Record the next result."""
        observation = flying.next()
        if observation is None:
            return
        if observation.output is not None:
            self.tell(observation.id, observation.output, seconds=observation.seconds)
        else:
            self.fail(observation.id, observation.reason or "no reason was given")
        clear_spool(self.ledger.folder / SPOOL, [observation.id])
        self._under_way.discard(observation.id)
        self._heard.append(observation.reason)
        self._check_failure_rate(max_failure_rate)

    def _check_failure_rate(self, max_failure_rate: float) -> None:
        failed = [reason for reason in self._heard if reason is not None]
        share = len(failed) / max(len(self._heard), 1)
        if len(failed) > _FEW and share > max_failure_rate:
            raise FailuresError(
                f"run {self.ledger.folder}: {len(failed)} simulations failed, {100 * share:.0f} % of all, more than "
                f"{100 * max_failure_rate:.0f} %. The last reason: {sentence(failed[-1])} Everything is kept: correct "
                "the simulator and resume."
            )

    def _collect(self) -> None:
        """Record what workers finished while nobody listened."""
        folder = self.ledger.folder / SPOOL
        if not folder.exists():
            return
        queries = self.state.queries.values()
        waiting = [q for q in queries if q.status in ("running", "expired")]
        # What is settled is not read again; what nobody asked for is complained about, and left.
        clear_spool(folder, set(self.state.queries) - {q.id for q in waiting})
        found, complaints = read_spool(folder, [self.query(q) for q in waiting])
        self.ledger.damage += complaints
        for id, observation in found.items():
            # Telling one may settle another.
            if observation.output is not None and self.state.queries[id].status in ("running", "expired"):
                self.tell(id, observation.output, seconds=observation.seconds)
        clear_spool(folder, list(found))


def _silent(phase: str, done: float | None = None) -> None:
    del phase, done
