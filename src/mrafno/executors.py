"""Where simulations run: in this process, in a pool of processes, or on a Dask cluster; and those that are under way.

All of them are executors in the sense of ``concurrent.futures``, and any other may take their place. They differ in
what happens to simulations that are running when the driver dies:

- :class:`InProcess`: they die with it;
- :func:`process_pool`: each worker finishes the one it has begun, spools it, and ends;
- :func:`dask_executor` with an address: workers finish what they have begun, and spool it (but when the scheduler dies,
  Dask ends its workers too, after half a minute);
- :func:`dask_executor` on this machine: they die with it.
"""

import contextlib
import importlib
import multiprocessing
import os
import queue
import secrets
import signal
import threading
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
from typing import Any, ParamSpec, Self, TypeVar

from mrafno.durable import make_folder
from mrafno.errors import LedgerError, MrafnoError, SimulationError, TaskError
from mrafno.examples import _without_script, cores, one_thread_each
from mrafno.isolated import Parcel, end_marked, light, pack, reason_of
from mrafno.records import Observation, Query
from mrafno.simulate import _check_folder, read_result, simulate
from mrafno.tasks.base import Task

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds to wait for a scheduler to answer.
_CONNECT = 10
#: How often a query may lose its worker, when it is isolated and hardly to blame, before it is given up.
_LOSSES = 3
#: What becomes of a call when the executor itself is lost. Whatever a simulator raises has been caught.
_LOST = (CancelledError, OSError)
#: An environment variable marks everything that the workers of a pool start.
_MARK = "MRAFNO_WORKERS"


class InProcess(Executor):
    """Runs each call when it is submitted, in the caller's process. KeyboardInterrupt passes to the caller."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The result of ``fn(*args, **kwargs)`` as a future that is done."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


# A pool of processes.


def process_pool(workers: int) -> Executor:
    """A pool of processes on this machine, one thread each, which start when there is work for them.

    They do not run the caller's script again, ignore Ctrl-C (it is the driver's to decide what to do about it), and if
    the driver dies, each finishes the call that it has begun and ends.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise TaskError(f"a pool needs a whole number of workers, 1 or more, got {workers!r}.")
    return _ProcessPool(workers)


class _ProcessPool(ProcessPoolExecutor):
    def __init__(self, workers: int) -> None:
        self._mark = secrets.token_hex(16)
        super().__init__(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_work, initargs=(self._mark,)
        )

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        # Any call can start a worker. Until that ignores Ctrl-C by itself, it inherits that nothing of it gets through.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with one_thread_each(), _without_script():
                return super().submit(_work, fn, *args, **kwargs)  # type: ignore[arg-type]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """End the workers now, with everything that they started; what they were doing is lost."""
        for process in list((self._processes or {}).values()):
            process.kill()
        end_marked(f"{_MARK}={self._mark}")
        self.shutdown(wait=True, cancel_futures=True)


#: Held by a worker of a pool while it works.
_working = threading.Lock()


def _begin_work(mark: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ[_MARK] = mark
    threading.Thread(target=_leave_after_driver, daemon=True).start()


def _leave_after_driver() -> None:
    # By itself a worker would take the calls that are left in the queue, and then wait for more for ever.
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    with _working:
        os._exit(0)


def _work(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    driver = multiprocessing.parent_process()
    assert driver is not None
    with _working:
        if not driver.is_alive():
            os._exit(0)
        return fn(*args, **kwargs)


# Dask.


def dask_executor(address: str | None = None, workers: int | None = None) -> Executor:
    """Workers of a Dask cluster.

    Shutting it down leaves a cluster with an address as it was, and ends one that was started here. A script that
    starts one here needs ``if __name__ == "__main__":`` around what it does, as always with Dask.

    Args:
        address: of a scheduler that runs, like ``tcp://10.0.0.1:8786``; None for a cluster on this machine.
        workers: processes of the cluster on this machine; None for one per core.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise MrafnoError("Dask is not installed. Install it with: pip install 'mrafno[dask]'") from None
    if address is None:
        return _local_cluster(distributed, workers)
    if workers is not None:
        raise TaskError(f"dask: the cluster at {address} has its own workers. Give an address or a number of workers.")
    try:
        client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SimulationError(
            f"dask: no scheduler answers at {address} ({' '.join(str(error).split())}). Start one with: dask scheduler"
        ) from error
    return _Dask(client)


def _local_cluster(distributed: Any, workers: int | None) -> Executor:
    mark = secrets.token_hex(16)
    # One death of a worker is enough: we isolate the call instead of trying it on the next worker. Any port will do for
    # the page that the scheduler serves even without a dashboard; the usual one may be taken.
    scheduler = {"allowed_failures": 0, "dashboard_address": "127.0.0.1:0"}
    try:
        # Without memory_limit=0 Dask ends a worker that has more than its share of the machine, whatever that is for.
        cluster = distributed.LocalCluster(
            n_workers=workers or cores(), threads_per_worker=1, processes=True, dashboard_address=None,
            memory_limit=0, env={_MARK: mark}, preload=["mrafno.executors"], scheduler_kwargs=scheduler,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        raise SimulationError(
            f"dask: a cluster on this machine cannot be started ({' '.join(str(error).split())}). In a script, put "
            'what it does under if __name__ == "__main__", because every worker imports it.'
        ) from error
    return _Dask(distributed.Client(cluster, timeout=_CONNECT, set_as_default=False), cluster, mark)


def dask_setup(worker: Any) -> None:
    """Dask calls this in each worker of a cluster on this machine: Ctrl-C is the driver's."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Dask(Executor):
    """A client's executor that tells when the scheduler is lost, and closes what was started."""

    def __init__(self, client: Any, cluster: Any = None, mark: str = "") -> None:
        self.address = client.scheduler.address
        self._client, self._cluster, self._mark = client, cluster, mark
        # A query that is tried again is a new call, not a lookup of what came of the same call before.
        self._executor = client.get_executor(pure=False)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._client.status != "running":
            raise OSError("the client has no connection")
        future: Future[T] = self._executor.submit(fn, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        # Without a scheduler every one of these can fail, in any way.
        if self._client.status == "running":
            with contextlib.suppress(Exception):
                self._executor.shutdown(wait=wait and not cancel_futures)
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)
        if self._cluster is not None:
            # What simulations started goes before the workers, which wait for it, and after, if it began meanwhile.
            end_marked(f"{_MARK}={self._mark}")
            with contextlib.suppress(Exception):
                self._cluster.close(timeout=10)
            end_marked(f"{_MARK}={self._mark}")


# What is under way.


@dataclass(frozen=True)
class _Flight:
    query: Query
    executor: Executor
    tries: int
    losses: int


def _error(future: Future[Any]) -> BaseException | None:
    """What went wrong with a future that is done."""
    return CancelledError() if future.cancelled() else future.exception()


class Simulations:
    """Queries in flight on an executor.

    When a worker dies, nobody knows which of the queries in flight is to blame. So each of them, and from then on every
    query, is simulated in a process of its own: the innocent get their outputs and the culprit its reason.

    Args:
        task: what to simulate.
        executor: an executor, which stays the caller's; or a function that makes one, which is closed here, and made
            anew when it breaks. An executor that breaks is replaced by a pool of processes.
        limit, isolate, memory, spool: as for :func:`mrafno.simulate.simulate`. The spool is made if it is not there.
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
            _check_folder(spool)
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
        if busy and not wait and isinstance(self._executor, _ProcessPool):
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
        if isinstance(broken, _ProcessPool):
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
