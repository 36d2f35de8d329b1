"""A child process ends within its limit, with everything that it started."""

import re
import subprocess
import sys
import time

import numpy as np
import pytest

from mrafno.simulation import child_process
from mrafno.simulation.worker import simulate
from mrafno.tasks import CommandTask
from tests.simulators import (
    INPUTS,
    alive,
    hangs,
    lingers,
    query_of,
    task_of,
    wait_for,
)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    return tmp_path


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
