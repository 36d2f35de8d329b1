"""The program of a child process: it simulates one query after another, until its parent closes the pipe.

A child is used for many simulations, so that what a simulator compiles or loads once is there the next time. What a
simulation leaves behind must not count against the next one: limits that it changed are restored, and the child says
in its answer whether it may be used again.
"""

import contextlib
import ctypes
import json
import os
import pickle
import queue
import resource
import shutil
import signal
import sys
import threading
import time
from multiprocessing import resource_tracker
from pathlib import Path
from typing import IO, Any

from mrafno.errors import TaskError
from mrafno.simulation.attempt import attempt, failure_reason
from mrafno.simulation.packing import PackedTask, unpack_task
from mrafno.simulation.processes import kill_marked_processes
from mrafno.simulation.query import Observation, Query
from mrafno.storage.files import to_npy
from mrafno.tasks.base import Task

#: Files in the child's temporary folder.
LOG, ANSWER, OUTPUT = "log.txt", "answer.json", "output.npy"
#: Bytes through the pipe of signals: the simulation has begun, the answer is written.
BEGUN, ANSWERED = b"b", b"a"
#: Seconds for a child to exit by itself, so that its exit handlers run.
EXIT_SECONDS = 5.0

#: Seconds without work after which a child exits: a worker of a cluster may live for weeks.
_IDLE_SECONDS = 3600.0
#: Bytes of resident memory that a child may grow by between its first simulation and its last one.
_MOST_GROWTH = 2**30
_PR_SET_CHILD_SUBREAPER = 36


def main(requests: IO[bytes]) -> None:
    """Simulate what comes through the pipe.

    Args:
        requests: pickles: one of ``(folder, pipe for signals, marker)``, then one of ``(task, query, memory)`` for
            each simulation. A task of None is the last one.
    """
    folder, signals, marker = pickle.load(requests)
    os.set_inheritable(signals, False)
    _close_standard_input()
    _adopt_orphans()
    child = _Child(Path(folder), signals)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    busy = threading.Event()

    def receive() -> None:
        with contextlib.suppress(Exception):  # the parent has closed its end, or is gone
            while True:
                request = pickle.load(requests)
                busy.set()
                inbox.put(request)
        inbox.put(None)
        if not busy.is_set():
            time.sleep(EXIT_SECONDS)
        # Nobody would read the answer of a running simulation, or keep its limit.
        kill_marked_processes(marker)
        shutil.rmtree(folder, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        try:
            request = inbox.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            return
        if request is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        child.simulate(*request)
        busy.clear()
        os.write(signals, ANSWERED)


class _Child:
    """The child's side of one simulation after another."""

    def __init__(self, folder: Path, signals: int) -> None:
        self._folder, self._signals = folder, signals
        self._task: Task | None = None
        self._limits = {kind: resource.getrlimit(kind) for kind in _limit_kinds()}
        self._resident: int | None = None

    def simulate(self, packed: PackedTask | None, query: Query, memory: int | None) -> None:
        """Simulate, and write output and answer to the folder."""
        answer: dict[str, Any] = {"id": query.id, "task_error": None, "reason": None, "seconds": 0.0}
        try:
            if packed is not None:
                self._task = unpack_task(packed)
            assert self._task is not None, "the first request has a task"
        except TaskError as error:
            answer["task_error"] = str(error)
            os.write(self._signals, BEGUN)
        else:
            os.write(self._signals, BEGUN)
            observation = self._attempt_within(memory, self._task, query)
            answer |= {"reason": observation.reason, "seconds": observation.seconds}
            if observation.output is not None:
                (self._folder / OUTPUT).write_bytes(to_npy(observation.output))
            # A simulation that ran into its limit of memory may have left anything half done.
            answer["reusable"] = self._restore_limits() and (memory is None or observation.reason is None)
            answer["reusable"] &= not self._has_grown(memory)
        answer["children"], answer["helpers"] = _has_children(), _helpers()
        (self._folder / ANSWER).write_text(json.dumps(answer))

    def _attempt_within(self, memory: int | None, task: Task, query: Query) -> Observation:
        soft, hard = self._limits[resource.RLIMIT_AS]
        if memory is not None:
            # In addition to what the process has now: what earlier simulations left is not the fault of this one.
            limits = [value for value in (_pages(0) + memory, soft, hard) if value != resource.RLIM_INFINITY]
            resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
        try:
            return attempt(task, query)
        except KeyboardInterrupt as error:  # nobody can press Ctrl-C here, so the simulator raised it
            return Observation(query.id, None, 0.0, failure_reason(error, task.name))
        finally:
            # Writing the answer takes memory too.
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    def _restore_limits(self) -> bool:
        """Restore all limits of resources; False if the simulator has lowered one for good."""
        for kind, before in self._limits.items():
            if resource.getrlimit(kind) != before:
                try:
                    resource.setrlimit(kind, before)
                except (ValueError, OSError):
                    return False
        return True

    def _has_grown(self, memory: int | None) -> bool:
        """Whether simulations have left more behind than one of them may take.

        The first simulation is not counted: it imports and compiles what the others use again.
        """
        now = _pages(1)
        if self._resident is None:
            self._resident = now
        return now - self._resident > (_MOST_GROWTH if memory is None else min(memory, _MOST_GROWTH))


def _limit_kinds() -> list[int]:
    return [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def _pages(column: int) -> int:
    """Bytes of address space (column 0) or of resident memory (1) of this process; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[column]) * resource.getpagesize()
    except OSError:
        return 0


def _close_standard_input() -> None:
    """Let a simulator that reads the standard input find its end, instead of waiting forever."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _adopt_orphans() -> None:
    """Become the parent of processes whose parents have ended, so that :func:`_has_children` knows of them."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _has_children() -> bool:
    """Whether this process has child processes, ended ones included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _helpers() -> list[int]:
    """Processes that Python itself started and that may stay: the tracker of shared memory."""
    pid = getattr(resource_tracker._resource_tracker, "_pid", None)
    return [] if pid is None else [pid]
