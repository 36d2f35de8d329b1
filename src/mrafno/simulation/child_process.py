"""A simulation in a child process: a hang, a crash, an exit or a lack of memory becomes a reason.

A child stays for the next simulation of the same task, so that what a simulator has compiled or loaded is used again.
It is replaced by a new one after a simulation that had to be ended, that left processes behind, or that left more
memory behind than one may take. Children end with the process that started them.

The child is a plain subprocess and not one of ``multiprocessing``, which daemonic processes, such as Dask's workers,
may not have. The task is sent to it as a pickle through a pipe. The answer comes back as a .npy and a .json file in a
temporary folder: nothing is unpickled from a disk.
"""

import atexit
import contextlib
import json
import math
import os
import pickle
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from mrafno.errors import MrafnoError, TaskError
from mrafno.simulation.attempt import failure_reason
from mrafno.simulation.child_program import ANSWER, EXIT_SECONDS, LOG, OUTPUT
from mrafno.simulation.packing import PackedTask
from mrafno.simulation.processes import kill_marked_processes, marked_processes
from mrafno.simulation.query import Observation, Query
from mrafno.storage.checksum import sha256
from mrafno.storage.files import from_npy, read_bytes, write_all
from mrafno.tasks.command import last_lines

#: Seconds for a child to start and import what the task needs; on a cluster's file system that can take minutes.
_STARTUP_SECONDS = 600.0
#: Seconds for a child to exit by itself, so that its exit handlers run.
_EXIT_SECONDS = EXIT_SECONDS
#: Seconds between checks whether a silent child still runs.
_POLL_SECONDS = 0.2

#: An environment variable that marks a child and all that it starts, whatever their session.
_MARKER = "MRAFNO_SIMULATION"
#: The child's program. It sets the caller's path first, because without it mrafno itself may not be found.
_PROGRAM = (
    "import os, pickle, sys; requests = os.fdopen(os.dup(0), 'rb'); sys.path = pickle.load(requests); "
    "from mrafno.simulation.child_program import main; main(requests)"
)
_ADVICE = "Make sure that the simulator leaves the temporary folder alone."


def simulate_in_child(
    task: PackedTask, query: Query, *, limit: float | None = None, memory: int | None = None
) -> Observation:
    """Simulate in a child process, which is kept for the next simulation of this task if nothing went wrong.

    When this returns, nothing that the simulation started still runs.

    Args:
        limit: seconds for the simulation, counted from when the child has started and loaded the task.
        memory: bytes that the simulation may take in addition to what the child has when it begins; asking for more is
            a MemoryError in the child. The same limit holds for each process that the simulation starts.
    """
    start = time.perf_counter()
    try:
        key = _key(task)
        child = _take_idle(key)
        observation = None if child is None else child.simulate(task, query, limit, memory)
        if observation is None:  # there was no idle child, or it had ended meanwhile
            child = _Child(key)
            observation = child.simulate(task, query, limit, memory)
    except OSError as error:
        reason = f"{task.name}: a child process for the simulation could not be started ({error}). Use fewer workers."
        return Observation(query.id, None, time.perf_counter() - start, reason)
    assert child is not None
    assert observation is not None
    if not child.ended:
        with _lock:
            _idle.append(child)
    return observation


def close_children() -> None:
    """End the children of this process that wait for a simulation."""
    with _lock:
        found = _idle.copy()
        _idle.clear()
    for child in found:
        child.hang_up()
    for child in found:
        child.close()


# Children that wait for a simulation. Those that are busy belong to their callers.
_lock = threading.Lock()
_idle: "list[_Child]" = []
_children: "weakref.WeakSet[_Child]" = weakref.WeakSet()


def _take_idle(key: str) -> "_Child | None":
    """An idle child of this task and environment; those of others are ended."""
    with _lock:
        mine = [child for child in _idle if child.key == key]
        others = [child for child in _idle if child.key != key]
        _idle[:] = mine[:-1]
    for child in others:
        child.close()
    return mine[-1] if mine else None


def _key(task: PackedTask) -> str:
    """Digest of everything that a child takes from its parent: a child is used again only if it is the same."""
    values = (sha256(task.data), sorted(task.script.items()), sys.path, str(Path.cwd()), sorted(os.environ.items()))
    return sha256(repr(values).encode(errors="surrogateescape"))


def _forget_children() -> None:
    """In a forked process: children belong to the process that started them, and must notice when it ends."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()
    for child in list(_children):
        child.disown()


os.register_at_fork(after_in_child=_forget_children)
atexit.register(close_children)


class _Child:
    """A child process, from the side of its parent; :mod:`mrafno.simulation.child_program` is the other side.

    Attributes:
        key: what it was started for.
        ended: whether it can no longer be used.
    """

    def __init__(self, key: str) -> None:
        self.key, self.ended, self._used, self._said = key, False, False, ""
        self._marker = f"{_MARKER}={secrets.token_hex(16)}"
        self._folder = Path(tempfile.mkdtemp(prefix="mrafno-"))
        self._signals, write_end = os.pipe()
        try:
            self._process = self._start(write_end)
        except BaseException:
            os.close(self._signals)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        finally:
            os.close(write_end)
        _children.add(self)
        path = [entry or str(Path.cwd()) for entry in sys.path]
        self._hello = pickle.dumps(path) + pickle.dumps((str(self._folder), write_end, self._marker))

    def _start(self, write_end: int) -> "subprocess.Popen[bytes]":
        variable, _, value = self._marker.partition("=")
        # Its output goes to a file: a pipe would stay open while any process that it left behind runs. The file is
        # emptied before every simulation, so the child appends. With -u output is there when the child dies; with -P no
        # file of this folder is imported as a module.
        with (self._folder / LOG).open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-u", "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, bufsize=0,
                start_new_session=True, pass_fds=(write_end,), env={**os.environ, variable: value},
            )  # fmt: skip

    # A simulation.

    def simulate(self, task: PackedTask, query: Query, limit: float | None, memory: int | None) -> Observation | None:
        """Simulate a query; None if the child had ended since its last simulation."""
        try:
            return self._simulate(task, query, limit, memory)
        except BaseException:
            self.kill()
            raise

    def _simulate(self, task: PackedTask, query: Query, limit: float | None, memory: int | None) -> Observation | None:
        again, self._used = self._used, True
        if again and not self._prepare_folder():
            return None
        request = pickle.dumps((None if again else task, query, memory))
        self._send(request if again else self._hello + request)
        begun = self._wait_for_signal(_STARTUP_SECONDS)
        start = time.perf_counter()
        answered = begun and self._wait_for_signal(limit)
        seconds = time.perf_counter() - start
        if answered:
            return self._read_answer(task.name, query, seconds)
        self.kill()
        if again and begun is False:
            return None
        if begun is None:
            how = f"had not begun after {_STARTUP_SECONDS:g} s, so its process was ended."
        elif answered is None:
            how = f"took longer than {limit:g} s and was ended. Raise the limit if it needs it."
        else:
            how = f"{_describe_exit(self._process.returncode)} It said: {self._said or 'nothing'}"
        reason = " ".join(f"{task.name}: the simulation on level {query.level} {how}".split())
        return Observation(query.id, None, seconds, reason)

    def _prepare_folder(self) -> bool:
        """Remove what the last simulation wrote; False, and the child's end, if the folder is gone."""
        try:
            for name in (ANSWER, OUTPUT):
                (self._folder / name).unlink(missing_ok=True)
            os.truncate(self._folder / LOG, 0)
        except OSError:
            self.kill()
            return False
        return True

    def _send(self, message: bytes) -> None:
        """Send a request. The pipe stays open: when it closes, the child knows that its parent is gone."""
        assert self._process.stdin is not None
        timer = threading.Timer(_STARTUP_SECONDS, self._process.kill)
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):  # the child has ended; its log says why
                write_all(self._process.stdin.fileno(), message)
        finally:
            timer.cancel()

    def _wait_for_signal(self, seconds: float | None) -> bool | None:
        """Whether the child sends its next byte: False if it ends before, None if the time is up before."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            # A process that a simulation left behind may hold the pipe open, so an open pipe proves nothing.
            ended = self._process.poll() is not None
            left = until - time.monotonic()
            if wait([self._signals], 0 if ended else max(0, min(_POLL_SECONDS, left))):
                if os.read(self._signals, 1):
                    return True
                try:  # the simulation has closed the pipe, or has ended
                    self._process.wait(None if seconds is None else max(0, left))
                except subprocess.TimeoutExpired:
                    return None
                return False
            if ended:
                return False
            if left <= 0:
                return None

    def _read_answer(self, name: str, query: Query, seconds: float) -> Observation:
        try:
            answer = json.loads(read_bytes(self._folder / ANSWER, advice=_ADVICE))
            if answer["id"] != query.id:
                raise ValueError(f"the answer is that of {answer['id']}. {_ADVICE}")
            if answer["task_error"] is not None:
                raise TaskError(answer["task_error"])
            observation = Observation(query.id, None, answer["seconds"], answer["reason"])
            if observation.reason is None:
                content = read_bytes(self._folder / OUTPUT, advice=_ADVICE)
                output = np.array(from_npy(content, where="its output", advice=_ADVICE))
                observation = Observation(query.id, output, answer["seconds"])
            if not answer["reusable"] or self._left_processes(answer):
                self.close()
        except TaskError:
            raise
        except (MrafnoError, ValueError, KeyError, TypeError) as error:
            self.kill()
            return Observation(query.id, None, seconds, failure_reason(error, name))
        return observation

    def _left_processes(self, answer: dict[str, Any]) -> bool:
        """Whether the simulation left processes behind; looking at all of the system's takes milliseconds."""
        if not answer["children"]:
            return False
        return bool(set(marked_processes(self._marker)) - {self._process.pid, *answer["helpers"]})

    # Its end.

    def hang_up(self) -> None:
        """Close the pipe, so that the child exits when it has nothing to do."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """Let the child exit by itself; then kill it and everything that it started."""
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill the child and everything that it started."""
        if self.ended:
            return
        self.ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        kill_marked_processes(self._marker)
        self._process.wait()
        self.hang_up()
        os.close(self._signals)
        with contextlib.suppress(OSError):
            self._said = " | ".join(last_lines(self._folder / LOG))
        shutil.rmtree(self._folder, ignore_errors=True)

    def disown(self) -> None:
        """Close this process's copies of the pipes; the child goes on."""
        if not self.ended:
            self.ended = True
            self._process.returncode = 0  # so that nobody here waits for it
            self.hang_up()
            os.close(self._signals)


def _describe_exit(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was ended by a signal (Killed); if memory ran out, use fewer workers, or set a memory limit."
    if code < 0:
        return f"was ended by a signal ({signal.strsignal(-code)})."
    return f"ended with exit code {code} before it gave an output."
