"""Processes on this machine: their threads, a pool of them, and the end of all that they started."""

import os
import signal
import subprocess
import sys
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from mrafno.simulation.executors import process_pool
from mrafno.simulation.processes import ProcessPool, cores, kill_marked_processes, one_thread_each, without_script
from tests.simulators import (
    alive,
    wait_for,
    who,
)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    return tmp_path


def test_workers_have_one_thread_and_ignore_ctrl_c(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with process_pool(1) as pool:
        worker, threads = pool.submit(who).result(30)
        assert threads == "1"
        assert os.environ["OMP_NUM_THREADS"] == "7"
        os.kill(worker, signal.SIGINT)
        assert pool.submit(who).result(30)[0] == worker


def test_workers_started_inside_have_one_thread_and_the_caller_keeps_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with one_thread_each():
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_cores_are_those_that_this_process_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cores() == len(before)


def test_the_script_is_hidden_inside_only():
    main = sys.modules["__main__"]
    before = (getattr(main, "__file__", None), main.__spec__)
    with without_script():
        assert (getattr(main, "__file__", None), main.__spec__) == (None, None)
    assert (getattr(main, "__file__", None), main.__spec__) == before


def test_marked_processes_are_killed_in_whatever_session(monkeypatch):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    marked = subprocess.Popen(command, env={**os.environ, "MARKER": "one"}, start_new_session=True)
    other = subprocess.Popen(command, env={**os.environ, "MARKER": "two"})
    try:
        wait_for(lambda: b"MARKER=one" in Path(f"/proc/{marked.pid}/environ").read_bytes())
        kill_marked_processes("MARKER=one")
        assert marked.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (marked, other):
            process.kill()
            process.wait()


def test_every_worker_calls_the_initializer(scratch):
    with ProcessPool(1, initializer=os.chdir, initargs=(scratch,)) as pool:
        assert pool.submit(os.getcwd).result(30) == str(scratch)


def test_killing_a_pool_kills_what_its_workers_started(scratch):
    pool = ProcessPool(1)
    code = (
        f"import os, pathlib, time; pathlib.Path({str(scratch / 'pid')!r}).write_text(str(os.getpid())); time.sleep(60)"
    )
    future = pool.submit(subprocess.run, [sys.executable, "-c", code], start_new_session=True)
    wait_for(lambda: (scratch / "pid").exists() and (scratch / "pid").read_text())
    pool.kill()
    assert isinstance(future.exception(), BrokenExecutor)
    assert not alive((scratch / "pid").read_text())
