"""The loop: ask, simulate, record, retrain, evaluate; until the steps, the budget, the pool or the patience end.

Synchronous runs wait for a whole batch before they learn, so that what they ask does not depend on the order in which
results arrive. Asynchronous ones ask again whenever a worker is free, knowing what is still running.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

import numpy as np

from mrafno.asktell import AskTell
from mrafno.errors import FailuresError, RunError
from mrafno.examples import solve_examples
from mrafno.executors import InProcess, Simulations
from mrafno.records import Query
from mrafno.simulate import clear_spool, read_spool

#: Where workers put what they have finished, inside the run directory.
SPOOL = "spool"
#: Trainings whose held-in errors the estimate is the median of.
_RECENT = 5
#: Failures that are too few to judge by.
_FEW = 4


class Watcher(Protocol):
    """Hears what a run is doing: simulating, training, choosing or evaluating, and how much of that is done."""

    def __call__(self, phase: str, done: float | None = None) -> None:
        """``done`` from 0 to 1 where it is known."""


class Run(AskTell):
    """A run that can simulate by itself; see :class:`~mrafno.asktell.AskTell` for asking and telling by hand."""

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
        patience: float = 0.5,
        watch: Watcher | None = None,
        progress: bool = False,
    ) -> str:
        """Go on until something ends it, and say what did.

        Args:
            steps: chosen examples that the run is to have in all.
            budget: cost of the chosen examples in all; it is never exceeded.
            target: relative error; the run ends when its own estimate, on examples that single networks have not
                learnt from, is lower. The test examples are not looked at.
            executor: what runs simulations, or what makes such a thing anew when its workers die; by default this
                process.
            workers: simulations that run at a time, where the executor has more than one worker.
            asynchronous: ask again as soon as a worker is free, instead of after a whole batch.
            limit: seconds after which a simulation is ended, with everything it started.
            isolate: run every simulation in a process of its own.
            memory: bytes that a simulation may take, in a process of its own.
            patience: share of the simulations that may fail before the run ends.
            watch: hears what is going on.
            progress: show a progress bar while the first examples are simulated.
        """
        if steps is not None and steps < 0:
            raise RunError(f"run: cannot advance to {steps} steps.")
        tell = watch or _silent
        spool = self.ledger.folder / SPOOL
        flying = Simulations(
            self.task, executor or InProcess(), limit=limit, isolate=isolate, memory=memory, spool=spool
        )
        try:
            self._collect()
            if executor is None and not isolate and limit is None and memory is None and self.task.identity is not None:
                self._set_up(progress)
            for asked in self.state.running:
                flying.submit(self.query(asked))
            reason = self._loop(flying, steps, budget, target, workers if asynchronous else 0, patience, tell)
        except KeyboardInterrupt:
            flying.cancel()
            self._append("stopped", reason="interrupted")
            raise
        finally:
            flying.close()
        self._append("stopped", reason=reason)
        self.save()
        return reason

    def _loop(
        self,
        flying: Simulations,
        steps: int | None,
        budget: float | None,
        target: float | None,
        free: int,
        patience: float,
        tell: Watcher,
    ) -> str:
        """``free`` is how many may run at a time in an asynchronous run, 0 for a synchronous one."""
        while True:
            tell("simulating")
            while flying.running() and (not free or len(flying.running()) >= free or not self._ready()):
                self._hear(flying, patience)
            if reason := self._ended(flying, steps, target, tell):
                if flying.running():
                    self._hear(flying, patience)
                    continue
                return reason
            n = self._wanted(free, len(flying.running()), steps)
            queries = self._asked(n, budget, tell)
            for query in queries:
                flying.submit(query)
            if not queries and not flying.running():
                return self._exhausted(budget)
            if not queries:
                self._hear(flying, patience)

    def _wanted(self, free: int, running: int, steps: int | None) -> int:
        """How many to ask for now."""
        if self._setup_left():
            return max(free - running, 1) if free else len(self._setup_left())
        n = free - running if free else self.settings.batch
        if steps is not None:
            n = min(n, steps - self.state.next_step + 1)
        return max(n, 0)

    def _asked(self, n: int, budget: float | None, tell: Watcher) -> list[Query]:
        if n < 1:
            return []
        if not self._setup_left():
            tell("choosing")
        return self.ask(n, budget=budget, watch=lambda done, *_: tell("training", done))

    def _ready(self) -> bool:
        """Whether something can be asked while others run: not before the first examples are there."""
        return not self.state.of_kind("initial", "running") and not self._setup_left()

    def _ended(self, flying: Simulations, steps: int | None, target: float | None, tell: Watcher) -> str | None:
        """Learn from what was told, measure when it is time, and say whether that is the end."""
        if self._setup_left() or self.state.of_kind("initial", "running"):
            return None
        step = self.state.step
        over = steps is not None and step >= steps
        measured = {evaluation.step for evaluation in self.state.evaluations}
        if step not in measured and (step % self.settings.evaluate == 0 or over):
            tell("training", 0.0)
            self.train(lambda done, *_: tell("training", done))
            tell("evaluating")
            self.evaluate()
        if over:
            return f"finished {step} steps"
        if target is not None and (estimate := self.estimate) is not None and estimate <= target:
            return f"reached the target: estimated error {estimate:.3g}"
        return None

    def _exhausted(self, budget: float | None) -> str:
        if self._setup_left() or min(self.state.counts(self.task.levels, "told")) < 2:
            raise RunError(
                f"run {self.ledger.folder}: there are too few initial examples to go on; their simulations failed. "
                "See `mrafno show`, mend the simulator, and resume."
            )
        if self.state.step not in {evaluation.step for evaluation in self.state.evaluations}:
            self.train()
            self.evaluate()
        taken = self.state.of_kind("pool", "told", "abandoned")
        if len(taken) >= len(self.inputs.pool):
            return "asked for the whole pool"
        return f"used up the budget of {budget:g}" if budget is not None else "asked for the whole pool"

    @property
    def estimate(self) -> float | None:
        """The run's own estimate of its error: the median of the last held-in errors of single networks."""
        errors = [t.held_in_error for t in self.state.trainings[-_RECENT:] if t.held_in_error is not None]
        return float(np.median(errors)) if errors else None

    # Simulations.

    def _set_up(self, progress: bool) -> None:
        """The first examples of a task whose results can be kept for other runs: from there, or on all cores."""
        left = self._setup_left()
        queries = {q.id: q for q in self.ask(len(left))} if left else {}
        for kind in ("initial", "test"):
            for level in range(self.task.levels):
                here = [q for q in queries.values() if q.kind == kind and q.level == level]
                if not here:
                    continue
                f = np.stack([self.inputs.of(kind, self.state.queries[q.id].row) for q in here])
                for query, y in zip(here, solve_examples(self.task, f, level, progress=progress), strict=True):
                    self.tell(query.id, y)

    def _hear(self, flying: Simulations, patience: float) -> None:
        """Record the next result."""
        observation = flying.next()
        if observation is None:
            return
        if observation.output is not None:
            self.tell(observation.id, observation.output, seconds=observation.seconds)
        else:
            self.fail(observation.id, observation.reason or "no reason was given")
        clear_spool(self.ledger.folder / SPOOL, [observation.id])
        self._check_patience(patience)

    def _check_patience(self, patience: float) -> None:
        queries = self.state.queries.values()
        failed = [q for q in queries if q.status == "failed"]
        share = len(failed) / sum(q.status in ("told", "failed") for q in queries) if failed else 0.0
        if len(failed) > _FEW and share > patience:
            raise FailuresError(
                f"run {self.ledger.folder}: {len(failed)} simulations failed, {100 * share:.0f} % of all, more than "
                f"{100 * patience:.0f} %. The last said: {failed[-1].reason} Everything is kept: mend the "
                "simulator and resume."
            )

    def _collect(self) -> None:
        """Record what workers finished while nobody listened."""
        folder = self.ledger.folder / SPOOL
        if not folder.exists():
            return
        found, complaints = read_spool(folder)
        self.ledger.damage += complaints
        for asked in self.state.running:
            observation = found.get(asked.id)
            if observation is not None and observation.output is not None:
                self.tell(asked.id, observation.output, seconds=observation.seconds)
        clear_spool(folder, list(found))


def _silent(phase: str, done: float | None = None) -> None:
    del phase, done
