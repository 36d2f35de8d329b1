"""Queries on an executor: every one gets an observation, whatever happens to its worker."""

import contextlib
import os
import queue
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from functools import partial
from pathlib import Path
from typing import Any, Self

from mrafno.errors import LedgerError, MrafnoError, SimulationError, TaskError
from mrafno.simulation.attempt import failure_reason
from mrafno.simulation.child_process import close_children
from mrafno.simulation.executors import InProcess, process_pool
from mrafno.simulation.notices import Notice, versions
from mrafno.simulation.packing import PackedTask, pack_task, without_candidates
from mrafno.simulation.processes import ProcessPool, cores
from mrafno.simulation.query import Observation, Query
from mrafno.simulation.spool import check_spool, read_result
from mrafno.simulation.worker import simulate
from mrafno.storage.files import make_folder
from mrafno.tasks.base import Task

#: How often a query may lose its worker before it fails. It is isolated by then, so it is hardly the cause.
_LOSSES = 3
#: What a future raises when the executor itself is lost. Exceptions of a simulator have been caught before.
_LOST = (CancelledError, OSError)


def _error(future: Future[Any]) -> BaseException | None:
    """The exception of a future that is done, or None."""
    return CancelledError() if future.cancelled() else future.exception()


class Scheduler:
    """Runs queries on an executor and returns their observations as they finish.

    When a worker dies, it is not known which of the running queries caused it. So each of them, and from then on every
    query, is simulated in a child process: the one that crashes gets a reason, the others their outputs.

    Args:
        task: what to simulate.
        executor: an executor, which the caller closes; or a function that makes one, which is closed here and made
            again when it breaks. A caller's executor that breaks is replaced by a pool of processes.
        limit, isolate, memory, spool: as for :func:`mrafno.simulation.worker.simulate`. The spool is made if it
            does not exist.
        retries: how many times a failed simulation is repeated, whatever the reason. 0 by default: most simulators
            would fail again. Failures because a worker died are not counted.
    """

    def __init__(
        self,
        task: Task,
        executor: Executor | Callable[[], Executor],
        *,
        limit: float | None = None,
        isolate: bool = False,
        memory: int | None = None,
        spool: Path | None = None,
        retries: int = 0,
    ) -> None:
        for what, value in (("limit of seconds", limit), ("limit of bytes", memory)):
            if value is not None and not value > 0:
                raise TaskError(f"{task.name}: a {what} is a positive number or None, got {value!r}.")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise TaskError(f"{task.name}: the number of retries is a whole number, 0 or more, got {retries!r}.")
        if spool is not None:
            spool = Path(os.path.abspath(spool))  # noqa: PTH100 - a worker may have another working directory, but no link is followed
            check_spool(spool)
            try:
                make_folder(spool)
            except OSError as error:
                raise LedgerError(f"the spool {spool} cannot be made ({error.strerror}). Give another one.") from error
        self._limit, self._memory, self._spool, self._retries = limit, memory, spool, retries
        self._isolate = isolate or limit is not None or memory is not None
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else executor()
        self._owned = self._make is not None
        self._running: dict[Future[Observation], tuple[Query, Executor]] = {}
        #: How often each query was tried, and how often it lost its worker.
        self._tries: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        #: Queries that are simulated in a child process, whatever becomes of the others.
        self._isolated: set[str] = set()
        #: What a person should hear of workers and executor; whoever reads it empties it.
        self.notices: list[Notice] = []
        # Not concurrent.futures.wait, which does not return when an executor cancels a call.
        self._done: queue.SimpleQueue[Future[Observation]] = queue.SimpleQueue()
        self._name = task.name
        try:
            self._task: Task | PackedTask = self._prepared(task)
        except MrafnoError:
            self.close()
            raise

    def submit(self, query: Query, *, isolate: bool = False) -> None:
        """Start the simulation of a query; with :class:`InProcess` it has finished when this returns.

        Args:
            isolate: simulate this one in a child process in any case.
        """
        if any(other.id == query.id for other in self.running()):
            raise TaskError(f"{query.id} is being simulated already. Take its result with next().")
        self._tries[query.id], self._losses[query.id] = 1, 0
        if isolate:
            self._isolated.add(query.id)
        self._launch(query)

    @property
    def isolates(self) -> bool:
        """Whether every simulation runs in a child process."""
        return self._isolate

    @property
    def in_process(self) -> bool:
        """Whether a simulation has finished when it is submitted."""
        return isinstance(self._executor, InProcess)

    def isolate(self) -> None:
        """Simulate in child processes from now on."""
        self._isolate = True

    def running(self) -> list[Query]:
        """Queries that were submitted and not yet returned by :meth:`next`, in order."""
        return [query for query, _ in self._running.values()]

    def next(self, timeout: float | None = None) -> Observation | None:
        """The next finished observation; None if there is none after ``timeout`` seconds, or nothing is running.

        The order depends on the workers. A caller that needs an order sorts by id.

        Raises:
            SimulationError: the executor itself is lost, for example because the scheduler of a cluster ended.
            TaskError: the task cannot be loaded in the workers' processes.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while self._running:
            try:
                future = self._take(None if until is None else max(0, until - time.monotonic()))
            except queue.Empty:
                return None
            submitted = self._running.pop(future, None)
            if submitted is None:  # it was cancelled
                continue
            observation = self._outcome(*submitted, future)
            if observation is not None:
                return observation
        return None

    def cancel(self) -> None:
        """Cancel queries that have not begun; the others continue, and :meth:`next` returns them."""
        for future in list(self._running):
            if future.cancel():
                del self._running[future]

    def close(self, *, wait: bool = False) -> None:
        """Cancel queries that have not begun, and shut the executor down if it was made here.

        Args:
            wait: wait for running simulations, which are spooled. Without, those in a process pool of this machine are
                killed; those on a cluster with an address continue, and are spooled.
        """
        self.cancel()
        busy = bool(self._running)
        self._running.clear()
        if isinstance(self._executor, InProcess | ThreadPoolExecutor):
            close_children()  # of this process; those of workers end with the workers
        if not self._owned:
            return
        if busy and not wait and isinstance(self._executor, ProcessPool):
            self._executor.kill()
        else:
            self._executor.shutdown(wait=wait or not busy, cancel_futures=not wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepared(self, task: Task) -> Task | PackedTask:
        """The task in the form that the executor takes."""
        if isinstance(self._executor, ProcessPoolExecutor):
            return pack_task(task)
        # In the same process it need not be packed, unless it is isolated. Dask pickles by value itself.
        here = isinstance(self._executor, InProcess | ThreadPoolExecutor)
        return pack_task(task) if here and self._isolate else without_candidates(task)

    def _launch(self, query: Query) -> None:
        try:
            try:
                future = self._submit(query)
            except BrokenExecutor:
                self._replace()
                future = self._submit(query)
        except (RuntimeError, OSError) as error:
            raise self._lost(error) from error
        self._running[future] = query, self._executor
        future.add_done_callback(self._done.put)

    def _submit(self, query: Query) -> Future[Observation]:
        return self._executor.submit(
            simulate, self._task, query,
            limit=self._limit, isolate=self._isolate or query.id in self._isolated, memory=self._memory,
            spool=self._spool, driver=None if isinstance(self._executor, InProcess) else versions(),
        )  # fmt: skip

    def _take(self, timeout: float | None) -> Future[Observation]:
        """The next future that is done. Results come before losses of the executor, which end the run."""
        done = [self._done.get(timeout=timeout)]
        with contextlib.suppress(queue.Empty):
            while True:
                done.append(self._done.get_nowait())
        done.sort(key=lambda future: isinstance(_error(future), _LOST))
        for later in done[1:]:
            self._done.put(later)
        return done[0]

    def _outcome(self, query: Query, executor: Executor, future: Future[Observation]) -> Observation | None:
        """The observation of a query whose future is done; None if the query was submitted again."""
        error = _error(future)
        if error is None:
            observation = future.result()
            self.notices += observation.notices
            if observation.reason is None or self._tries[query.id] > self._retries:
                return observation
            self._tries[query.id] += 1
            self._launch(query)
            return None
        if isinstance(error, MrafnoError):
            raise error
        if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
            return self._after_loss(query, executor, error)
        if isinstance(error, _LOST):
            raise self._lost(error) from error
        return Observation(query.id, None, 0.0, failure_reason(error, self._name))

    def _after_loss(self, query: Query, executor: Executor, error: BaseException) -> Observation | None:
        self._losses[query.id] += 1
        known = None if self._spool is None else read_result(self._spool, query)
        if known is not None and known.output is not None:
            return known
        if self._losses[query.id] > _LOSSES:
            reason = (
                f"{self._name}: the simulation on level {query.level} lost its worker process "
                f"{self._losses[query.id]} times. If "
                "memory ran out, use fewer workers."
            )
            return Observation(query.id, None, 0.0, reason)
        self._isolate = True
        text = (
            f"a worker process ended while {query.id} was simulated, or another simulation beside it. From now on each "
            "is simulated in a child process of its own, so that the one that does it fails alone."
        )
        self.notices.append(Notice("worker lost", text))
        if isinstance(error, BrokenExecutor) and executor is self._executor:
            self._replace()
        self._launch(query)
        return None

    def _replace(self) -> None:
        """Replace a broken executor, and isolate every simulation from now on."""
        self._isolate = True
        broken = self._executor
        if isinstance(broken, ProcessPool):
            broken.kill()
        if self._make is None:
            self._make = partial(process_pool, getattr(broken, "_max_workers", cores()))
            self._task = self._task if isinstance(self._task, PackedTask) else pack_task(self._task)
        self._executor, self._owned = self._make(), True

    def _lost(self, error: BaseException) -> SimulationError:
        address = getattr(self._executor, "address", None)
        who = "the executor of simulations" if address is None else f"the dask scheduler at {address}"
        kept = "" if self._spool is None else ", and simulations that finish without it will be in the spool"
        return SimulationError(
            f"{who} cannot be reached any more ({type(error).__name__}: {error}). What was finished is kept{kept}; "
            "resume with another one."
        )
