"""A simulation in a child process: a hang, a crash, an exit or a lack of memory becomes a reason.

The child is a plain subprocess and not one of ``multiprocessing``, which daemonic processes, such as Dask's workers,
may not have. The task is sent to it as a pickle through a pipe. The answer comes back as a .npy and a .json file in a
temporary folder: nothing is unpickled from a disk.
"""

import contextlib
import json
import math
import os
import pickle
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from mrafno.errors import MrafnoError, TaskError
from mrafno.simulation.attempt import attempt, failure_reason
from mrafno.simulation.packing import PackedTask, unpack_task
from mrafno.simulation.processes import kill_marked_processes
from mrafno.simulation.query import Observation, Query
from mrafno.storage.files import from_npy, read_bytes, to_npy, write_all
from mrafno.tasks.base import Task
from mrafno.tasks.command import last_lines

#: Seconds for a child to start and import what the task needs; on a cluster's file system that can take minutes.
_STARTUP_SECONDS = 600.0
#: Seconds for a child that has answered to exit by itself, so that its exit handlers run.
_EXIT_SECONDS = 5.0
#: Seconds between checks whether a silent child still runs.
_POLL_SECONDS = 0.2

#: An environment variable that marks a simulation's process and all that it starts, whatever their session.
_MARKER = "MRAFNO_SIMULATION"
#: The child's program. It sets the caller's path first, because without it mrafno itself may not be found.
_CHILD = (
    "import pickle, sys; sys.path = pickle.load(sys.stdin.buffer); "
    "from mrafno.simulation.child_process import main; main()"
)

#: Files in the temporary folder.
_LOG, _ANSWER, _OUTPUT = "log.txt", "answer.json", "output.npy"


# The caller's side.


def simulate_in_child(
    task: PackedTask, query: Query, *, limit: float | None = None, memory: int | None = None
) -> Observation:
    """Simulate in a child process; afterwards it and everything that it started have been killed.

    Args:
        limit: seconds for the simulation, counted from when the child has started and loaded the task.
        memory: bytes that the simulation may take in addition to what the child has when it begins; asking for more is
            a MemoryError in the child. The same limit holds for each process that the simulation starts.
    """
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="mrafno-", ignore_cleanup_errors=True) as folder:
            return _run_child(task, query, limit, memory, Path(folder))
    except OSError as error:
        reason = f"{task.name}: a child process for the simulation could not be started ({error}). Use fewer workers."
        return Observation(query.id, None, time.perf_counter() - start, reason)


def _run_child(task: PackedTask, query: Query, limit: float | None, memory: int | None, folder: Path) -> Observation:
    log = folder / _LOG
    marker = f"{_MARKER}={secrets.token_hex(16)}"
    read_end, write_end = os.pipe()
    with open(read_end, "rb", buffering=0) as signals:  # noqa: PTH123
        try:
            process = _start(log, write_end, marker)
        finally:
            os.close(write_end)
        try:
            path = [entry or str(Path.cwd()) for entry in sys.path]
            message = pickle.dumps(path) + pickle.dumps((task, query, memory, str(folder), write_end, marker))
            _send(process, message)
            begun = _wait_for_signal(process, signals.fileno(), _STARTUP_SECONDS)
            start = time.perf_counter()
            answered = begun and _wait_for_signal(process, signals.fileno(), limit)
            seconds = time.perf_counter() - start
            if answered:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_EXIT_SECONDS)
        finally:
            _kill(process, marker)
    if answered:
        return _read_answer(task.name, query, seconds, folder)
    if begun is None:
        how = f"had not begun after {_STARTUP_SECONDS:g} s, so its process was ended."
    elif answered is None:
        how = f"took longer than {limit:g} s and was ended. Raise the limit if it needs it."
    else:
        how = f"{_describe_exit(process.returncode)} It said: {' | '.join(last_lines(log)) or 'nothing'}"
    reason = " ".join(f"{task.name}: the simulation on level {query.level} {how}".split())
    return Observation(query.id, None, seconds, reason)


def _start(log: Path, write_end: int, marker: str) -> "subprocess.Popen[bytes]":
    variable, _, value = marker.partition("=")
    # Its output goes to a file: a pipe would stay open, and be waited for, while any process that it left behind runs.
    # With -u output is there when the child dies; with -P no file of this folder is imported as a module.
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-u", "-P", "-c", _CHILD],
            stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, bufsize=0,
            start_new_session=True, pass_fds=(write_end,), env={**os.environ, variable: value},
        )  # fmt: skip


def _send(process: "subprocess.Popen[bytes]", message: bytes) -> None:
    """Send the task. The pipe stays open: when it closes, the child knows that its parent is gone."""
    assert process.stdin is not None
    timer = threading.Timer(_STARTUP_SECONDS, process.kill)
    timer.start()
    try:
        with contextlib.suppress(BrokenPipeError):  # the child has ended; its log says why
            write_all(process.stdin.fileno(), message)
    finally:
        timer.cancel()


def _wait_for_signal(process: "subprocess.Popen[bytes]", signals: int, seconds: float | None) -> bool | None:
    """Whether the child sends its next byte: False if it ends before, None if the time is up before."""
    until = math.inf if seconds is None else time.monotonic() + seconds
    while True:
        # A process that a simulation left behind may hold the pipe open, so an open pipe proves nothing.
        ended = process.poll() is not None
        left = until - time.monotonic()
        if wait([signals], 0 if ended else max(0, min(_POLL_SECONDS, left))):
            if os.read(signals, 1):
                return True
            try:  # the simulation has closed the pipe, or has ended
                process.wait(None if seconds is None else max(0, left))
            except subprocess.TimeoutExpired:
                return None
            return False
        if ended:
            return False
        if left <= 0:
            return None


def _kill(process: "subprocess.Popen[bytes]", marker: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    kill_marked_processes(marker)
    process.wait()
    process.stdin.close()


def _describe_exit(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was ended by a signal (Killed); if memory ran out, use fewer workers, or set a memory limit."
    if code < 0:
        return f"was ended by a signal ({signal.strsignal(-code)})."
    return f"ended with exit code {code} before it gave an output."


def _read_answer(name: str, query: Query, seconds: float, folder: Path) -> Observation:
    advice = "Make sure that the simulator leaves the temporary folder alone."
    try:
        answer = json.loads(read_bytes(folder / _ANSWER, advice=advice))
        if answer["task_error"] is not None:
            raise TaskError(answer["task_error"])
        if answer["reason"] is not None:
            return Observation(query.id, None, answer["seconds"], answer["reason"])
        content = read_bytes(folder / _OUTPUT, advice=advice)
        output = np.array(from_npy(content, where="its output", advice=advice))
        return Observation(query.id, output, answer["seconds"])
    except TaskError:
        raise
    except (MrafnoError, ValueError, KeyError, TypeError) as error:
        return Observation(query.id, None, seconds, failure_reason(error, name))


# The child's side.


def main() -> None:
    """Simulate the query that comes through the standard input; the program of the child process."""
    packed, query, memory, folder, write_end, marker = pickle.load(sys.stdin.buffer)
    os.set_inheritable(write_end, False)
    _exit_with_parent(marker, folder)
    answer: dict[str, Any] = {"task_error": None, "reason": None, "seconds": 0.0}
    try:
        task = unpack_task(packed)
    except TaskError as error:
        answer["task_error"] = str(error)
        os.write(write_end, b"b")
    else:
        os.write(write_end, b"b")  # begun
        observation = _attempt_within(memory, task, query)
        answer |= {"reason": observation.reason, "seconds": observation.seconds}
        if observation.output is not None:
            Path(folder, _OUTPUT).write_bytes(to_npy(observation.output))
    Path(folder, _ANSWER).write_text(json.dumps(answer))
    os.write(write_end, b"a")  # answered


def _attempt_within(memory: int | None, task: Task, query: Query) -> Observation:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if memory is not None:
        limits = [value for value in (_address_space() + memory, soft, hard) if value != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        return attempt(task, query)
    except KeyboardInterrupt as error:  # nobody can press Ctrl-C here, so the simulator raised it
        return Observation(query.id, None, 0.0, failure_reason(error, task.name))
    finally:
        # Writing the answer takes memory too.
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    """Bytes of address space that this process uses; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _exit_with_parent(marker: str, folder: str) -> None:
    """End this process and all that it started when the parent dies: nobody would read the answer or keep the limit."""
    pipe = os.dup(0)
    # A simulator that reads the standard input finds its end, instead of waiting forever.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        os.read(pipe, 1)  # returns when the parent's end is closed
        kill_marked_processes(marker)
        shutil.rmtree(folder, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
