"""Processes on this machine: how many, with how many threads, a pool of them, and how to end all that they started."""

import contextlib
import multiprocessing
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: An environment variable that marks all processes that the workers of a pool start.
WORKERS_MARKER = "MRAFNO_WORKERS"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes started inside use one thread each: as many processes as cores are enough."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def without_script() -> Iterator[None]:
    """Processes started inside do not import the caller's script, so it needs no ``if __name__ == "__main__"``."""
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    main.__dict__.pop("__file__", None)
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(hidden)


def kill_marked_processes(marker: str) -> None:
    """Kill all other processes that have this ``NAME=value`` in their environment, whatever their session.

    It needs /proc to find them; on systems without it, processes that left their process group keep running.
    """
    for _ in range(100):
        found = [pid for pid in marked_processes(marker) if pid != os.getpid()]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def marked_processes(marker: str) -> Iterator[int]:
    """All processes that had this ``NAME=value`` in their environment when they started, or when they were forked."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if marker.encode() in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


class ProcessPool(ProcessPoolExecutor):
    """A pool of processes with one thread each.

    The workers do not import the caller's script, and ignore Ctrl-C: the driver decides what it means. When the driver
    dies, each worker finishes the call that it has begun, and exits.

    Args:
        workers: number of processes; they start when there is work for them.
        initializer, initargs: a function that each worker calls when it starts.
    """

    def __init__(
        self, workers: int, *, initializer: Callable[..., object] | None = None, initargs: tuple[Any, ...] = ()
    ) -> None:
        self._marker = secrets.token_hex(16)
        super().__init__(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(self._marker, initializer, initargs),
        )

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a worker call ``fn(*args, **kwargs)``."""
        # Any call can start a worker. It inherits a blocked SIGINT until it ignores the signal itself.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with one_thread_each(), without_script():
                return super().submit(_call, fn, *args, **kwargs)  # type: ignore[arg-type]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def kill(self) -> None:
        """Kill the workers and every process that they started; results of running calls are lost."""
        for process in list((self._processes or {}).values()):
            process.kill()
        kill_marked_processes(f"{WORKERS_MARKER}={self._marker}")
        self.shutdown(wait=True, cancel_futures=True)


#: Held by a worker during a call.
_busy = threading.Lock()


def _start_worker(marker: str, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ[WORKERS_MARKER] = marker
    threading.Thread(target=_exit_after_driver, daemon=True).start()
    if initializer is not None:
        initializer(*initargs)


def _exit_after_driver() -> None:
    # Without this a worker would take the calls that are left in the queue, and then wait for more forever.
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    with _busy:
        os._exit(0)


def _call(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    driver = multiprocessing.parent_process()
    assert driver is not None
    with _busy:
        if not driver.is_alive():
            os._exit(0)
        return fn(*args, **kwargs)
