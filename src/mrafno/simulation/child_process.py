"""One simulation that cannot hurt the caller: its faults become reasons, and in a process of its own it may even die.

:func:`attempt` runs a simulation here and turns whatever it raises into a reason. :func:`isolated` runs it in a child
process, so that hanging, crashing, leaving and eating memory become reasons too. The child is a plain subprocess and
not one of ``multiprocessing``, which daemonic processes, such as Dask's workers, may not have.

The task travels to the child as a pickle in a pipe, see :func:`pack`. The answer comes back as a .npy and a .json file
in a temporary folder: nothing is unpickled from a disk.
"""

import contextlib
import copy
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
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import current_process
from multiprocessing.connection import wait
from multiprocessing.spawn import get_preparation_data, prepare
from pathlib import Path
from typing import Any

import numpy as np

from mrafno.errors import MrafnoError, TaskError, place_of, raised
from mrafno.simulation.query import Observation, Query
from mrafno.storage.files import from_npy, read_bytes, to_npy, write_all
from mrafno.tasks import CommandTask, FunctionTask, Task
from mrafno.tasks.function import _tail

#: Seconds for a child to start and import what the task needs; on a cluster's file system that can take minutes.
_STARTUP = 600.0
#: Seconds for a child that has answered to leave by itself, so that what it does on leaving gets done.
_FAREWELL = 5.0
#: Seconds between looks at whether a silent child still lives.
_GLANCE = 0.2
#: Characters of a reason; an exception can hold a whole array.
_LONGEST = 600

#: An environment variable marks a simulation's process and everything that it starts, whatever session that goes to.
_MARK = "MRAFNO_SIMULATION"
#: The child's program. It takes the caller's path first, because without it mrafno itself may not be found.
_CHILD = (
    "import pickle, sys; sys.path = pickle.load(sys.stdin.buffer); "
    "from mrafno.simulation.child_process import main; main()"
)


# Here.


def attempt(task: Task, query: Query) -> Observation:
    """Simulate in this process. Only KeyboardInterrupt passes; everything else that is raised becomes a reason."""
    start = time.perf_counter()
    try:
        # A copy, because a solver may work in place in what it is given, and the query may be tried again.
        [output] = task.solve(np.array(query.f[None]), query.level)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Observation(query.id, None, time.perf_counter() - start, reason_of(error, task.name))
    return Observation(query.id, output, time.perf_counter() - start)


def reason_of(error: BaseException, name: str) -> str:
    """What a simulator raised, as one readable line."""
    try:
        if isinstance(error, TaskError):
            text = str(error)
        elif isinstance(error, SystemExit):
            where = f" ({place})" if (place := place_of(error)) else ""
            text = f"{name}: the simulator called exit({error.code!r}){where}. Return an output, or raise an error."
        else:
            text = f"{name}: the simulator raised {raised(error)}"
    except Exception:  # an exception, or an exit code, can be unable to say what it is
        text = f"{name}: the simulator raised {type(error).__name__}"
    line = " ".join(text.encode(errors="replace").decode().split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


# To another process.


@dataclass(frozen=True)
class Parcel:
    """A task on its way to another process.

    Attributes:
        name: the task's, for messages.
        data: the pickled task.
        script: how to find the script that defines a part of it, as ``multiprocessing.spawn`` describes it, or empty.
    """

    name: str
    data: bytes
    script: dict[str, str]


def light(task: Task) -> Task:
    """The task without what only its driver needs: simulating takes no candidates, and they may be gigabytes."""
    if type(task) not in (FunctionTask, CommandTask):
        return task
    task = copy.copy(task)
    task.inputs = task.inputs[:1]  # type: ignore[attr-defined]
    return task


def pack(task: Task) -> Parcel:
    """Get a task ready for another process; :class:`TaskError` if it cannot travel.

    What a module defines travels by its name. What the running script defines travels by name too: the other process
    imports the script, as ``multiprocessing`` does, so what the script *does* must stand under
    ``if __name__ == "__main__":``. A lambda, a function inside a function, and what was typed into a notebook have no
    such name; they travel if the package cloudpickle is installed (Dask brings it).
    """
    task = light(task)
    try:
        data = pickle.dumps(task)
    except Exception as error:  # whatever a person's object does when it is pickled
        return _packed_by_value(task, f"{type(error).__name__}: {error}")
    if b"__main__" not in data and b"__mp_main__" not in data:
        return Parcel(task.name, data, {})
    known = get_preparation_data("simulation").items()
    script = {name: str(value) for name, value in known if name in ("init_main_from_name", "init_main_from_path")}
    if not script:
        return _packed_by_value(task, "a part of it is defined in an interactive session")
    return Parcel(task.name, data, script)


def _packed_by_value(task: Task, why: str) -> Parcel:
    with contextlib.suppress(Exception):  # not installed, or not able to either
        from cloudpickle import dumps  # type: ignore[import-untyped]

        return Parcel(task.name, dumps(task), {})
    raise TaskError(
        f"{task.name}: the task cannot travel to another process because {why}. Define its function at the top level "
        "of a module or script, or do without workers, time limit and isolation."
    )


def unpack(parcel: Parcel) -> Task:
    """The task, in the process it travelled to; :class:`TaskError` if it cannot be had there."""
    try:
        if parcel.script:
            _import_script(parcel.script)
        task: Task = pickle.loads(parcel.data)
    except (Exception, SystemExit) as error:
        why = reason_of(error, parcel.name).removeprefix(f"{parcel.name}: the simulator raised ")
        advice = "Everything that it needs must be installed where the workers run."
        if parcel.script:
            [script] = parcel.script.values()
            advice = f'Workers import {script}: put what it does, not what it defines, under if __name__ == "__main__".'
        raise TaskError(f"{parcel.name}: the task did not arrive in a worker process ({why}). {advice}") from error
    return task


def _import_script(script: dict[str, str]) -> None:
    # A script that does its work on import would start the same workers again, and those again: with this mark, which
    # multiprocessing sets for the same reason, starting a process and packing a task are errors.
    process: Any = current_process()
    process._inheriting = True
    try:
        prepare(script)
    finally:
        del process._inheriting


# The caller's side.


def isolated(parcel: Parcel, query: Query, *, limit: float | None = None, memory: int | None = None) -> Observation:
    """Simulate in a child process, which is gone afterwards with everything that it started.

    Args:
        limit: seconds for the simulation, counted from when the child has started and has the task.
        memory: bytes that the simulation may take in addition to what the child has when it begins; asking for more is
            a MemoryError in the child. It holds for each process that the simulation starts, too.
    """
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="mrafno-", ignore_cleanup_errors=True) as folder:
            return _converse(parcel, query, limit, memory, Path(folder))
    except OSError as error:
        reason = f"{parcel.name}: the simulation could not be given a process of its own ({error}). Use fewer workers."
        return Observation(query.id, None, time.perf_counter() - start, reason)


def _converse(parcel: Parcel, query: Query, limit: float | None, memory: int | None, folder: Path) -> Observation:
    log = folder / "log.txt"
    mark = f"{_MARK}={secrets.token_hex(16)}"
    hears, says = os.pipe()
    with open(hears, "rb", buffering=0) as news:  # noqa: PTH123
        try:
            process = _start(log, says, mark)
        finally:
            os.close(says)
        try:
            path = [entry or str(Path.cwd()) for entry in sys.path]
            message = pickle.dumps(path) + pickle.dumps((parcel, query, memory, str(folder), says, mark))
            _tell(process, message)
            begun = _hear(process, news.fileno(), _STARTUP)
            start = time.perf_counter()
            answered = begun and _hear(process, news.fileno(), limit)
            seconds = time.perf_counter() - start
            if answered:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_FAREWELL)
        finally:
            _end(process, mark)
    if answered:
        return _read_answer(parcel.name, query, seconds, folder)
    if begun is None:
        how = f"had not begun after {_STARTUP:g} s, so its process was ended."
    elif answered is None:
        how = f"took longer than {limit:g} s and was ended. Raise the limit if it needs it."
    else:
        how = f"{_ending(process.returncode)} It said: {' | '.join(_tail(log)) or 'nothing'}"
    reason = " ".join(f"{parcel.name}: the simulation on level {query.level} {how}".split())
    return Observation(query.id, None, seconds, reason)


def _start(log: Path, says: int, mark: str) -> "subprocess.Popen[bytes]":
    variable, _, value = mark.partition("=")
    # What it says goes to a file: a pipe stays open, and is waited for, while anything that it left behind runs. With
    # -u it goes there at once, and is there when the child dies; with -P nothing in this folder passes for a module.
    with log.open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-u", "-P", "-c", _CHILD],
            stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, bufsize=0,
            start_new_session=True, pass_fds=(says,), env={**os.environ, variable: value},
        )  # fmt: skip


def _tell(process: "subprocess.Popen[bytes]", message: bytes) -> None:
    """Hand over the task. The pipe stays open: its end tells the child that its parent is gone."""
    assert process.stdin is not None
    alarm = threading.Timer(_STARTUP, process.kill)
    alarm.start()
    try:
        with contextlib.suppress(BrokenPipeError):  # the child is gone; what it said tells why
            write_all(process.stdin.fileno(), message)
    finally:
        alarm.cancel()


def _hear(process: "subprocess.Popen[bytes]", news: int, seconds: float | None) -> bool | None:
    """Whether the child says its next word: False if it ends without, None if the time is up before."""
    until = math.inf if seconds is None else time.monotonic() + seconds
    while True:
        # A process that a simulation left behind may hold the pipe open, so the pipe's end alone proves nothing.
        ended = process.poll() is not None
        left = until - time.monotonic()
        if wait([news], 0 if ended else max(0, min(_GLANCE, left))):
            if os.read(news, 1):
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


def _end(process: "subprocess.Popen[bytes]", mark: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    end_marked(mark)
    process.wait()
    process.stdin.close()


def end_marked(mark: str) -> None:
    """Kill all other processes that have this ``NAME=value`` in their environment, in whatever session they are.

    Only where there is a /proc to find them in; elsewhere those that left their process group go on.
    """
    for _ in range(100):
        found = [pid for pid in _marked(mark.encode()) if pid != os.getpid()]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: bytes) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # ended by now, or not ours
            if mark in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def _ending(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was ended by a signal (Killed); if memory ran out, use fewer workers, or a memory limit that tells."
    if code < 0:
        return f"was ended by a signal ({signal.strsignal(-code)})."
    return f"ended with exit code {code} before it gave an output."


def _read_answer(name: str, query: Query, seconds: float, folder: Path) -> Observation:
    advice = "Make sure that the simulator leaves the temporary folder alone."
    try:
        answer = json.loads(read_bytes(folder / "answer.json", advice=advice))
        if answer["trouble"] is not None:
            raise TaskError(answer["trouble"])
        if answer["reason"] is not None:
            return Observation(query.id, None, answer["seconds"], answer["reason"])
        content = read_bytes(folder / "output.npy", advice=advice)
        output = np.array(from_npy(content, where="its output", advice=advice))
        return Observation(query.id, output, answer["seconds"])
    except TaskError:
        raise
    except (MrafnoError, ValueError, KeyError, TypeError) as error:
        return Observation(query.id, None, seconds, reason_of(error, name))


# The child's side.


def main() -> None:
    """Simulate what the standard input describes; the program of the child process."""
    parcel, query, memory, folder, says, mark = pickle.load(sys.stdin.buffer)
    os.set_inheritable(says, False)
    _die_with_parent(mark, folder)
    answer: dict[str, Any] = {"trouble": None, "reason": None, "seconds": 0.0}
    try:
        task = unpack(parcel)
    except TaskError as error:
        answer["trouble"] = str(error)
        os.write(says, b"b")
    else:
        os.write(says, b"b")
        observation = _attempt_within(memory, task, query)
        answer |= {"reason": observation.reason, "seconds": observation.seconds}
        if observation.output is not None:
            Path(folder, "output.npy").write_bytes(to_npy(observation.output))
    Path(folder, "answer.json").write_text(json.dumps(answer))
    os.write(says, b"a")


def _attempt_within(memory: int | None, task: Task, query: Query) -> Observation:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if memory is not None:
        limits = [value for value in (_size() + memory, soft, hard) if value != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        return attempt(task, query)
    except KeyboardInterrupt as error:  # nobody can press Ctrl-C here, so the simulator raised it
        return Observation(query.id, None, 0.0, reason_of(error, task.name))
    finally:
        # Handing over the answer takes memory too.
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _size() -> int:
    """Bytes of address space that this process has by now; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _die_with_parent(mark: str, folder: str) -> None:
    """Without a parent nobody wants the answer or keeps the time: end when the pipe from it does, with everything."""
    lifeline = os.dup(0)
    # A simulator that asks for input gets none, instead of waiting for ever.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        os.read(lifeline, 1)
        end_marked(mark)
        shutil.rmtree(folder, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
