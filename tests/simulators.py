"""Simulators with every fault, at the top level of a module so that they can travel, and what tests of them share.

A simulator finds its files in $SCRATCH. Workers import this module, so it imports little.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np

from mrafno.simulation.query import Query
from mrafno.tasks import Burgers, FunctionTask


def double(f, level):
    return 2 * f


def complains(f, level):
    raise ValueError("no root\nin sight")


def nan(f, level):
    return f * np.nan


def too_long(f, level):
    return np.zeros(f.shape[1] + 1)


def complex_numbers(f, level):
    return f + 1j


def objects(f, level):
    return np.array([object()] * f.size)


def text(f, level):
    return "done"


def leaves(f, level):
    sys.exit(3)


def interrupts(f, level):
    raise KeyboardInterrupt


def recurses(f, level):
    return recurses(f, level)


def end_process(code):
    """As compiled code does it; ``os._exit`` is an exception in a simulation."""
    ctypes.CDLL(None)._exit(code)


class SpeechlessError(Exception):
    def __str__(self):
        raise RuntimeError


def speechless(f, level):
    raise SpeechlessError


def exits(f, level):
    os._exit(0)


def forks(f, level):
    """Ends a process of its own in the usual way."""
    child = os.fork()
    if not child:
        os._exit(5)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) * f


def vanishes(f, level):
    print("so long")
    end_process(3)


def pretends(f, level):
    end_process(0)


def crashes(f, level):
    os.kill(os.getpid(), signal.SIGSEGV)


def is_killed(f, level):
    os.kill(os.getpid(), signal.SIGKILL)


def eats(f, level):
    return np.ones((4000, 250_000)).sum() + f


def lingers(f, level):
    """Gives an output, and leaves a thread that never ends and a process that holds all it could inherit."""
    if os.fork() == 0:
        time.sleep(1000)
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return 2 * f


def hangs(f, level):
    """Starts a process in its own group and one in another session, and waits for ever."""
    same, other = (subprocess.Popen(["sleep", "1000"], start_new_session=new) for new in (False, True))
    note = Path(os.environ["SCRATCH"], "pids")
    note.with_suffix(".part").write_text(f"{os.getpid()} {same.pid} {other.pid}")
    note.with_suffix(".part").rename(note)
    time.sleep(1000)


#: Survives in a process from one simulation to the next, as a compiled function would.
seen = []


def notes(f, level):
    """Notes its process in a file; what the input's first value asks for happens in that process."""
    seen.append(None)
    with Path(os.environ["SCRATCH"], "noted").open("a") as file:
        print(os.getpid(), len(seen), resource.getrlimit(resource.RLIMIT_NOFILE)[0], file=file)
    match int(f[0, 0]):
        case 101:
            hangs(f, level)
        case 102:
            crashes(f, level)
        case 103:
            eats(f, level)
        case 104:
            raise ValueError("no root in sight")
        case 105:
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
        case 106:
            seen.append(np.ones(2**25))
        case 107:
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return 2 * f


def counts(f, level):
    with Path(os.environ["SCRATCH"], "counted").open("a") as file:
        file.write("x")
    time.sleep(0.2)
    return 2 * f


def vanishes_at_two(f, level):
    """The second query takes its process with it, while the first runs."""
    if f[0, 0] == 2:
        time.sleep(0.2)
        end_process(3)
    time.sleep(0.5)
    return 2 * f


def gated(f, level, folder):
    """Tells who has begun it, and waits for leave to end."""
    note = Path(folder, f"begun{f[0, 0]:g}")
    note.with_suffix(".part").write_text(str(os.getpid()))
    note.with_suffix(".part").rename(note)
    while not Path(folder, "leave").exists():
        time.sleep(0.02)
    return 2 * f


def works_the_second_time(f, level):
    marker = Path(os.environ["SCRATCH"], "tried")
    if not marker.exists():
        marker.touch()
        raise OSError("no licence is free")
    return 2 * f


def who(_=None):
    return os.getpid(), os.environ.get("OMP_NUM_THREADS")


class OwnTask(Burgers):
    """Works in place in its input."""

    def _solve(self, f, level):
        f *= 2
        return f


INPUTS = np.arange(36.0).reshape(4, 9)


def task_of(function, **settings):
    return FunctionTask(function, INPUTS, (5, 9), (1, 4), **settings)


def query_of(number=1, level=1):
    return Query(f"q{number:06}", "pool", level, INPUTS[:1, :: 2 - level] + number, candidate=0, step=1)


def alive(pid):
    """A killed process whose parent has not looked is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def gated_task(folder):
    return task_of(partial(gated, folder=str(folder)))
