"""Where simulations run: in this process, in a pool of processes, or on a Dask cluster.

All of them are executors of ``concurrent.futures``, and any other executor may be used instead. They differ in what
happens to running simulations when the driver dies:

- :class:`InProcess`: they die with it;
- :func:`process_pool`: each worker finishes its simulation, spools it, and exits;
- :func:`dask_executor` with an address: workers finish their simulations and spool them (but when the scheduler dies,
  Dask ends its workers too, after half a minute);
- :func:`dask_executor` on this machine: they die with it.
"""

import contextlib
import importlib
import secrets
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

from mrafno.errors import MrafnoError, SimulationError, TaskError
from mrafno.simulation.processes import WORKERS_MARKER, ProcessPool, cores, kill_marked_processes

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds to wait for a scheduler to answer.
_CONNECT = 10


class InProcess(Executor):
    """Runs each call when it is submitted, in the caller's process. KeyboardInterrupt is raised to the caller."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call ``fn(*args, **kwargs)`` now; the future is done when this returns."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


# A pool of processes.


def process_pool(workers: int) -> ProcessPool:
    """A pool of processes on this machine, see :class:`mrafno.simulation.processes.ProcessPool`."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise TaskError(f"a pool needs a whole number of workers, 1 or more, got {workers!r}.")
    return ProcessPool(workers)


# Dask.


def dask_executor(address: str | None = None, workers: int | None = None) -> Executor:
    """Workers of a Dask cluster.

    Shutting it down disconnects from a cluster with an address, and ends one that was started here. A script that
    starts one here needs ``if __name__ == "__main__":``, as always with Dask.

    Args:
        address: of a running scheduler, like ``tcp://10.0.0.1:8786``; None for a cluster on this machine.
        workers: processes of the cluster on this machine; None for one per core.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise MrafnoError("Dask is not installed. Install it with: pip install distributed") from None
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
    marker = secrets.token_hex(16)
    # After one death of a worker the Scheduler isolates the call, instead of Dask trying it on the next worker. The
    # scheduler serves a page even without a dashboard, and the usual port may be taken, so any port will do.
    scheduler = {"allowed_failures": 0, "dashboard_address": "127.0.0.1:0"}
    try:
        # Without memory_limit=0 Dask kills a worker that uses more than its share of the machine's memory.
        cluster = distributed.LocalCluster(
            n_workers=workers or cores(), threads_per_worker=1, processes=True, dashboard_address=None,
            memory_limit=0, env={WORKERS_MARKER: marker}, preload=["mrafno.simulation.executors"],
            scheduler_kwargs=scheduler,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        raise SimulationError(
            f"dask: a cluster on this machine cannot be started ({' '.join(str(error).split())}). In a script, put "
            'what it does under if __name__ == "__main__", because every worker imports it.'
        ) from error
    return _Dask(distributed.Client(cluster, timeout=_CONNECT, set_as_default=False), cluster, marker)


def dask_setup(worker: Any) -> None:
    """Ignore Ctrl-C, which is for the driver; Dask calls this in each worker of a cluster on this machine."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Dask(Executor):
    """A client's executor that raises OSError when the scheduler is lost, and closes what was started here."""

    def __init__(self, client: Any, cluster: Any = None, marker: str = "") -> None:
        self.address = client.scheduler.address
        self._client, self._cluster, self._marker = client, cluster, marker
        # With pure=False a repeated query is a new call, and not a lookup of an earlier result.
        self._executor = client.get_executor(pure=False)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._client.status != "running":
            raise OSError("the client has no connection")
        future: Future[T] = self._executor.submit(fn, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        # Without a scheduler each of these can raise anything.
        if self._client.status == "running":
            with contextlib.suppress(Exception):
                self._executor.shutdown(wait=wait and not cancel_futures)
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)
        if self._cluster is not None:
            # Before the workers, which wait for processes that simulations started; after, for those started since.
            kill_marked_processes(f"{WORKERS_MARKER}={self._marker}")
            with contextlib.suppress(Exception):
                self._cluster.close(timeout=10)
            kill_marked_processes(f"{WORKERS_MARKER}={self._marker}")
