"""A child process ends within its limit, with everything that it started."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from mrafno.simulation import child_process
from mrafno.simulation.child_process import close_children
from mrafno.simulation.executors import InProcess, process_pool
from mrafno.simulation.packing import pack_task
from mrafno.simulation.scheduler import Scheduler
from mrafno.simulation.worker import simulate
from mrafno.tasks import CommandTask
from tests.simulators import (
    INPUTS,
    alive,
    double,
    hangs,
    lingers,
    notes,
    query_of,
    task_of,
    wait_for,
)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    yield tmp_path
    close_children()


def assert_failed(observation, pattern):
    assert observation.id == "q000001"
    assert observation.output is None
    assert re.search(pattern, observation.reason), observation.reason
    assert "\n" not in observation.reason
    assert observation.seconds >= 0


def test_a_limit_ends_the_simulation_and_everything_it_started(scratch):
    start = time.monotonic()
    observation = simulate(task_of(hangs), query_of(), limit=0.5)
    assert time.monotonic() - start < 10
    assert_failed(observation, r"^function: the simulation on level 1 took longer than 0\.5 s and was ended\. Raise")
    assert 0.5 <= observation.seconds < 2
    pids = (scratch / "pids").read_text().split()
    assert len(pids) == 3
    assert not any(alive(pid) for pid in pids)


def test_a_limit_ends_a_command_too(scratch):
    """A command is in a session of its own, out of reach of the signal to the simulation's group."""
    program = (
        f"import os, pathlib, time; pathlib.Path({str(scratch / 'pid')!r}).write_text(str(os.getpid())); time.sleep(99)"
    )
    task = CommandTask([sys.executable, "-c", program, "{input}", "{output}"], INPUTS, (5, 9), (1, 4))
    assert_failed(simulate(task, query_of(), limit=1), "took longer than 1 s")
    assert not alive((scratch / "pid").read_text())


def test_processes_left_behind_do_not_delay_the_result(monkeypatch):
    monkeypatch.setattr(child_process, "_EXIT_SECONDS", 0.2)
    start = time.monotonic()
    np.testing.assert_array_equal(simulate(task_of(lingers), query_of(), isolate=True).output, 2 * query_of().f)
    assert time.monotonic() - start < 10


def test_a_simulation_does_not_outlive_the_process_that_waits_for_it(scratch, monkeypatch):
    """With its parent gone nobody keeps the time, and a simulation that hangs would hang for ever."""
    monkeypatch.setenv("TMPDIR", str(scratch))
    program = (
        "from tests.simulators import *; from mrafno.simulation.worker import simulate\n"
        "simulate(task_of(hangs), query_of(), isolate=True)"
    )
    driver = subprocess.Popen([sys.executable, "-c", program])
    wait_for((scratch / "pids").exists)
    pids = (scratch / "pids").read_text().split()
    assert all(alive(pid) for pid in pids)
    driver.kill()
    driver.wait()
    wait_for(lambda: not any(alive(pid) for pid in pids))
    assert list(scratch.glob("mrafno-*")) == []


# One child for many simulations. The input's first value tells `notes` what to do; below 100, nothing.


def simulated(numbers, **how):
    return [simulate(task_of(notes), query_of(number), **how) for number in numbers]


def noted(scratch):
    """Process, number of the simulation in that process, and limit of open files: of each simulation."""
    return [tuple(map(int, line.split())) for line in (scratch / "noted").read_text().splitlines()]


def children(scratch):
    return list(dict.fromkeys(pid for pid, _, _ in noted(scratch)))


def test_simulations_share_a_child_and_what_it_has_loaded(scratch):
    """Neither an exception nor a limit that a simulator sets costs the child, or holds for the next one."""
    numbers = [0, 104, 107, 3, 4, 5, 6, 7]
    observations = simulated(numbers, limit=60)
    assert "no root in sight" in observations.pop(1).reason
    for number, observation in zip([0, *numbers[2:]], observations, strict=True):
        np.testing.assert_array_equal(observation.output, 2 * query_of(number).f)
    assert len(children(scratch)) == 1
    assert os.getpid() not in children(scratch)
    assert [count for _, count, _ in noted(scratch)] == list(range(1, 9))
    assert len({files for _, _, files in noted(scratch)}) == 1
    close_children()
    assert not alive(children(scratch)[0])


@pytest.mark.parametrize(("number", "reason"), [(101, "took longer than 1 s"), (102, "Segmentation fault")])
def test_after_a_hang_or_a_crash_there_is_a_new_child(scratch, number, reason):
    observations = simulated([0, 1, 2, number, 4, 5, 6, 7], limit=1 if number == 101 else 60)
    assert [o.id for o in observations if o.output is None] == [query_of(number).id]
    assert reason in observations[3].reason
    first, second = children(scratch)
    assert [pid for pid, _, _ in noted(scratch)] == 4 * [first] + 4 * [second]
    assert not alive(first)
    if number == 101:
        assert not any(alive(pid) for pid in (scratch / "pids").read_text().split())


def test_a_simulation_over_its_memory_is_ended_and_the_next_one_has_all_of_it(scratch):
    observations = simulated([0, 103, 2], memory=2**29)
    assert "MemoryError" in observations[1].reason
    assert observations[2].output is not None
    first, second = children(scratch)
    assert [pid for pid, _, _ in noted(scratch)] == [first, first, second]


def test_memory_left_behind_counts_neither_against_the_next_simulation_nor_for_ever(scratch):
    """Each keeps 256 MB and may take 400: with a limit on the whole process the second would fail."""
    observations = simulated([106] * 5, memory=400 * 2**20)
    assert [o.reason for o in observations] == 5 * [None]
    # The first does not count; with the third two times 256 MB are left behind, and the child is replaced.
    assert [count for _, count, _ in noted(scratch)] == [1, 3, 5, 1, 3]


def test_a_process_left_behind_is_ended_and_the_child_with_it(scratch):
    observations = simulated([0, 105, 2], isolate=True)
    assert all(o.output is not None for o in observations)
    assert len(children(scratch)) == 2
    assert set(child_process.marked_processes(f"SCRATCH={scratch}")) <= {children(scratch)[1]}


def test_a_child_that_died_while_it_waited_is_replaced(scratch):
    simulated([0], isolate=True)
    os.kill(children(scratch)[0], signal.SIGKILL)
    assert simulated([1], isolate=True)[0].output is not None
    assert len(children(scratch)) == 2


def test_another_environment_or_task_gets_another_child(scratch, monkeypatch):
    simulated([0], isolate=True)
    monkeypatch.setenv("SOLVER_TOLERANCE", "1e-9")
    simulated([1], isolate=True)
    first, second = children(scratch)
    assert not alive(first)
    simulate(task_of(double), query_of(), isolate=True)
    assert not alive(second)


def test_a_forked_process_leaves_the_child_alone(scratch):
    simulated([0], isolate=True)
    pid = os.fork()
    if pid == 0:
        os._exit(simulated([1], isolate=True)[0].output is None)
    assert os.waitpid(pid, 0)[1] == 0
    simulated([2], isolate=True)
    (a, _, _), (b, _, _), (c, _, _) = noted(scratch)
    assert a == c != b
    wait_for(lambda: not alive(b))


def test_children_end_when_the_scheduler_closes(scratch):
    with Scheduler(task_of(notes), InProcess(), isolate=True) as scheduler:
        for number in range(3):
            scheduler.submit(query_of(number))
            assert scheduler.next().output is not None
        [child] = children(scratch)
        assert alive(child)
    assert not alive(child)


def test_a_worker_of_a_pool_keeps_its_child_and_takes_it_along(scratch):
    task = pack_task(task_of(notes))
    with process_pool(1) as pool:
        for number in range(8):
            assert pool.submit(simulate, task, query_of(number), limit=60).result(60).output is not None
        [child] = children(scratch)
        assert alive(child)
    wait_for(lambda: not alive(child))
