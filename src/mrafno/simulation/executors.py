"""Where simulations run: in this process, in a pool of processes, or on a Dask cluster.

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
import secrets
import signal
import threading
from collections.abc import Callable
from concurrent.futures import (
    Executor,
    Future,
    ProcessPoolExecutor,
)
from typing import Any, ParamSpec, TypeVar

from mrafno.data.cache import _without_script, cores, one_thread_each
from mrafno.errors import MrafnoError, SimulationError, TaskError
from mrafno.simulation.child_process import end_marked

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds to wait for a scheduler to answer.
_CONNECT = 10
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
    return ProcessPool(workers)


class ProcessPool(ProcessPoolExecutor):
    """Processes that outlive the driver by the simulation they are at, and no longer."""

    def __init__(self, workers: int) -> None:
        self._mark = secrets.token_hex(16)
        super().__init__(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_work, initargs=(self._mark,)
        )

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As of any executor."""
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
            memory_limit=0, env={_MARK: mark}, preload=["mrafno.simulation.executors"], scheduler_kwargs=scheduler,
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
