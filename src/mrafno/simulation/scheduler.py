"""Queries in flight on an executor: what became of each, whatever became of its worker."""

import contextlib
import os
import queue
import time
from collections.abc import Callable
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from mrafno.data.cache import cores
from mrafno.errors import LedgerError, MrafnoError, SimulationError, TaskError
from mrafno.simulation.child_process import Parcel, light, pack, reason_of
from mrafno.simulation.executors import InProcess, ProcessPool, process_pool
from mrafno.simulation.query import Observation, Query
from mrafno.simulation.spool import check_folder, read_result, simulate
from mrafno.storage.files import make_folder
from mrafno.tasks.base import Task

#: How often a query may lose its worker, when it is isolated and hardly to blame, before it is given up.
_LOSSES = 3
#: What becomes of a call when the executor itself is lost. Whatever a simulator raises has been caught.
_LOST = (CancelledError, OSError)


@dataclass(frozen=True)
class _Flight:
    query: Query
    executor: Executor
    tries: int
    losses: int


def _error(future: Future[Any]) -> BaseException | None:
    """What went wrong with a future that is done."""
    return CancelledError() if future.cancelled() else future.exception()


class Scheduler:
    """Queries in flight on an executor.

    When a worker dies, nobody knows which of the queries in flight is to blame. So each of them, and from then on every
    query, is simulated in a process of its own: the innocent get their outputs and the culprit its reason.

    Args:
        task: what to simulate.
        executor: an executor, which stays the caller's; or a function that makes one, which is closed here, and made
            anew when it breaks. An executor that breaks is replaced by a pool of processes.
        limit, isolate, memory, spool: as for :func:`mrafno.simulation.spool.simulate`. The spool is made if it
            does not exist.
        retries: how many times a simulation that failed is tried again, whatever the reason. None by default: most
            simulators give the same again. Not counted is what happened only because a worker died.
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
            spool = Path(os.path.abspath(spool))  # noqa: PTH100 - a worker may be in another folder, but no link is followed
            check_folder(spool)
            try:
                make_folder(spool)
            except OSError as error:
                raise LedgerError(f"the spool {spool} cannot be made ({error.strerror}). Give another one.") from error
        self._limit, self._memory, self._spool, self._retries = limit, memory, spool, retries
        self._isolate = isolate or limit is not None or memory is not None
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else executor()
        self._owned = self._make is not None
        self._flights: dict[Future[Observation], _Flight] = {}
        # Not concurrent.futures.wait, which does not wake when an executor cancels what was submitted.
        self._done: queue.SimpleQueue[Future[Observation]] = queue.SimpleQueue()
        self._name = task.name
        try:
            self._task: Task | Parcel = self._prepared(task)
        except MrafnoError:
            self.close()
            raise

    def submit(self, query: Query) -> None:
        """Have a query simulated; with :class:`InProcess` it is when this returns."""
        if any(flight.query.id == query.id for flight in self._flights.values()):
            raise TaskError(f"{query.id} is being simulated already. Take its result with next().")
        self._launch(query, tries=1, losses=0)

    def running(self) -> list[Query]:
        """What was submitted and not yet given by :meth:`next`, in order."""
        return [flight.query for flight in self._flights.values()]

    def next(self, timeout: float | None = None) -> Observation | None:
        """The next finished one; None if there is none after ``timeout`` seconds, or none in flight.

        Which one comes first depends on the workers: whoever needs an order sorts by id.

        Raises:
            SimulationError: the executor itself is lost, as when the scheduler of a cluster ended.
            TaskError: the task cannot be had in the workers' processes.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while self._flights:
            try:
                future = self._take(None if until is None else max(0, until - time.monotonic()))
            except queue.Empty:
                return None
            flight = self._flights.pop(future, None)
            if flight is None:  # it was taken back
                continue
            observation = self._outcome(flight, future)
            if observation is not None:
                return observation
        return None

    def cancel(self) -> None:
        """Take back what has not begun; what runs goes on, and :meth:`next` gives it."""
        for future in list(self._flights):
            if future.cancel():
                del self._flights[future]

    def close(self, *, wait: bool = False) -> None:
        """Take back what has not begun, and end the executor if it was made here.

        What runs is waited for with ``wait``, and spooled. Without, it is ended where it can be: in processes of this
        machine. On a cluster with an address it goes on, and is spooled.
        """
        self.cancel()
        busy = bool(self._flights)
        self._flights.clear()
        if not self._owned:
            return
        if busy and not wait and isinstance(self._executor, ProcessPool):
            self._executor.end()
        else:
            self._executor.shutdown(wait=wait or not busy, cancel_futures=not wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepared(self, task: Task) -> Task | Parcel:
        """The task in the form in which it goes to the executor."""
        if isinstance(self._executor, ProcessPoolExecutor):
            return pack(task)
        # In the same process it need not travel, until it is isolated. Dask has its own way of packing, by value.
        here = isinstance(self._executor, InProcess | ThreadPoolExecutor)
        return pack(task) if here and self._isolate else light(task)

    def _launch(self, query: Query, tries: int, losses: int) -> None:
        try:
            try:
                future = self._submit(query)
            except BrokenExecutor:
                self._replace()
                future = self._submit(query)
        except (RuntimeError, OSError) as error:
            raise self._lost(error) from error
        self._flights[future] = _Flight(query, self._executor, tries, losses)
        future.add_done_callback(self._done.put)

    def _submit(self, query: Query) -> Future[Observation]:
        return self._executor.submit(
            simulate, self._task, query,
            limit=self._limit, isolate=self._isolate, memory=self._memory, spool=self._spool,
        )  # fmt: skip

    def _take(self, timeout: float | None) -> Future[Observation]:
        """The next future that is done. Results go before losses, which end the run."""
        done = [self._done.get(timeout=timeout)]
        with contextlib.suppress(queue.Empty):
            while True:
                done.append(self._done.get_nowait())
        done.sort(key=lambda future: isinstance(_error(future), _LOST))
        for later in done[1:]:
            self._done.put(later)
        return done[0]

    def _outcome(self, flight: _Flight, future: Future[Observation]) -> Observation | None:
        """What became of a query whose future is done; None if it is on its way again."""
        error, query = _error(future), flight.query
        if error is None:
            observation = future.result()
            if observation.reason is None or flight.tries > self._retries:
                return observation
            self._launch(query, flight.tries + 1, flight.losses)
            return None
        if isinstance(error, MrafnoError):
            raise error
        if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
            return self._after_loss(flight, error)
        if isinstance(error, _LOST):
            raise self._lost(error) from error
        return Observation(query.id, None, 0.0, reason_of(error, self._name))

    def _after_loss(self, flight: _Flight, error: BaseException) -> Observation | None:
        query, losses = flight.query, flight.losses + 1
        known = None if self._spool is None else read_result(self._spool, query)
        if known is not None and known.output is not None:
            return known
        if losses > _LOSSES:
            reason = (
                f"{self._name}: the simulation on level {query.level} lost its worker process {losses} times. If "
                "memory ran out, use fewer workers."
            )
            return Observation(query.id, None, 0.0, reason)
        self._isolate = True
        if isinstance(error, BrokenExecutor) and flight.executor is self._executor:
            self._replace()
        self._launch(query, flight.tries, losses)
        return None

    def _replace(self) -> None:
        """Have another executor in place of a broken one, and be careful with it."""
        self._isolate = True
        broken = self._executor
        if isinstance(broken, ProcessPool):
            broken.end()
        if self._make is None:
            self._make = partial(process_pool, getattr(broken, "_max_workers", cores()))
            self._task = self._task if isinstance(self._task, Parcel) else pack(self._task)
        self._executor, self._owned = self._make(), True

    def _lost(self, error: BaseException) -> SimulationError:
        address = getattr(self._executor, "address", None)
        who = "the executor of simulations" if address is None else f"the dask scheduler at {address}"
        kept = "" if self._spool is None else ", and what finishes without it will be in the spool"
        return SimulationError(
            f"{who} cannot be reached any more ({type(error).__name__}: {error}). What was finished is kept{kept}; "
            "resume with another one."
        )
