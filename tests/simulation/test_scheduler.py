"""The scheduler: whatever happens to a worker, every query gets an observation."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest

from mrafno.errors import LedgerError, SimulationError, TaskError
from mrafno.simulation.executors import InProcess, process_pool
from mrafno.simulation.packing import pack_task
from mrafno.simulation.scheduler import Scheduler
from mrafno.simulation.spool import read_spool
from mrafno.simulation.worker import simulate
from mrafno.tasks import CommandTask
from tests.simulators import (
    INPUTS,
    alive,
    complains,
    double,
    gated_task,
    hangs,
    interrupts,
    query_of,
    task_of,
    vanishes,
    vanishes_at_two,
    wait_for,
    who,
    works_the_second_time,
)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    return tmp_path


class Fake(Executor):
    """Runs or does not run what is submitted, and says that it is broken."""

    def __init__(self, runs):
        self.runs = runs

    def submit(self, fn, /, *args, **kwargs):
        if self.runs:
            fn(*args, **kwargs)
        future = Future()
        future.set_exception(BrokenExecutor("a worker died"))
        return future


def drain(simulations):
    """All results by id."""
    found = {}
    while (observation := simulations.next(60)) is not None:
        found[observation.id] = observation
    return found


def assert_doubled(observation, number):
    assert observation.reason is None
    np.testing.assert_array_equal(observation.output, 2 * query_of(number).f)


@pytest.mark.parametrize("make", [InProcess, partial(ThreadPoolExecutor, 2), partial(process_pool, 2)])
def test_every_executor_gives_the_same(make, scratch):
    with Scheduler(task_of(double), make, spool=scratch / "deep" / "spool") as simulations:
        assert simulations.next() is None
        for number in range(1, 8):
            simulations.submit(query_of(number))
        assert [query.id for query in simulations.running()] == [f"q{number:06}" for number in range(1, 8)]
        found = drain(simulations)
        assert simulations.running() == []
    assert sorted(found) == [f"q{number:06}" for number in range(1, 8)]
    for number in range(1, 8):
        assert_doubled(found[f"q{number:06}"], number)
    assert sorted(read_spool(scratch / "deep" / "spool").observations) == sorted(found)


def test_ctrl_c_in_this_process_is_raised_to_the_caller():
    with pytest.raises(KeyboardInterrupt), Scheduler(task_of(interrupts), InProcess) as simulations:
        simulations.submit(query_of())


def test_next_waits_no_longer_than_its_timeout(scratch):
    with ThreadPoolExecutor(1) as threads, Scheduler(gated_task(scratch), threads) as simulations:
        simulations.submit(query_of())
        assert simulations.next(0.1) is None
        assert simulations.next(0) is None
        with pytest.raises(TaskError, match="q000001 is being simulated already"):
            simulations.submit(query_of())
        (scratch / "leave").touch()
        assert_doubled(simulations.next(), 1)


def test_a_failed_simulation_is_tried_again_as_often_as_is_said(scratch):
    with Scheduler(task_of(works_the_second_time), InProcess, spool=scratch / "spool") as simulations:
        simulations.submit(query_of())
        assert "no licence is free" in simulations.next().reason
    (scratch / "tried").unlink()
    with Scheduler(task_of(works_the_second_time), InProcess, spool=scratch / "spool", retries=1) as simulations:
        simulations.submit(query_of())
        assert_doubled(simulations.next(), 1)
        assert_doubled(read_spool(scratch / "spool").observations["q000001"], 1)
    with Scheduler(task_of(complains), InProcess, retries=2) as simulations:
        simulations.submit(query_of())
        assert "no root in sight" in simulations.next().reason
        assert simulations.next() is None


def test_limits_reach_the_simulation(scratch):
    with Scheduler(task_of(hangs), InProcess, limit=0.3) as simulations:
        simulations.submit(query_of())
        assert "took longer than 0.3 s" in simulations.next().reason


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": 0}, "limit of seconds is a positive number or None, got 0"),
        ({"limit": float("nan")}, "limit of seconds is a positive number"),
        ({"memory": -1}, "limit of bytes is a positive number"),
        ({"retries": -1}, "number of retries is a whole number"),
        ({"retries": 1.5}, "number of retries is a whole number"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(TaskError, match=message):
        Scheduler(task_of(double), InProcess, **settings)


def test_a_spool_that_cannot_be_made_or_is_a_link_is_refused(scratch):
    (scratch / "file").write_text("")
    (scratch / "link").symlink_to(scratch)
    for spool, message in (("file/spool", "cannot be made"), ("link", "is a symbolic link")):
        with pytest.raises(LedgerError, match=message):
            Scheduler(task_of(double), InProcess, spool=scratch / spool)


def test_a_task_that_cannot_be_packed_is_refused_before_a_worker_starts(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    here = task_of(lambda f, level: 2 * f)
    with Scheduler(here, InProcess) as simulations:
        simulations.submit(query_of())
        assert_doubled(simulations.next(), 1)
    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", None)
    for executor, settings in ((partial(process_pool, 2), {}), (InProcess, {"isolate": True})):
        with pytest.raises(TaskError, match=r"cannot be sent to another process because .*define its function"):
            Scheduler(here, executor, **settings)


# Workers that die.


def test_when_a_worker_dies_only_the_query_that_crashed_it_fails(scratch):
    """Nobody knows who it was, so all in flight are tried in processes of their own."""
    with Scheduler(task_of(vanishes_at_two), partial(process_pool, 2), spool=scratch / "spool") as simulations:
        for number in (1, 2, 3):
            simulations.submit(query_of(number))
        found = drain(simulations)
    assert sorted(found) == ["q000001", "q000002", "q000003"]
    for number in (1, 3):
        assert_doubled(found[f"q{number:06}"], number)
    assert "ended with exit code 3" in found["q000002"].reason
    assert sorted(read_spool(scratch / "spool").observations) == sorted(found)


def test_a_pool_that_breaks_between_queries_is_replaced():
    with Scheduler(task_of(double), partial(process_pool, 1)) as simulations:
        simulations.submit(query_of(1))
        assert_doubled(simulations.next(), 1)
        broken = simulations._executor
        [worker] = broken._processes
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: broken._broken)
        simulations.submit(query_of(2))
        assert_doubled(simulations.next(), 2)


@pytest.mark.parametrize(
    "broken", [partial(ProcessPoolExecutor, 1, mp_context=get_context("spawn")), partial(Fake, False)]
)
def test_a_callers_executor_that_breaks_is_replaced_by_a_pool(broken):
    with Scheduler(task_of(vanishes), broken()) as simulations:
        simulations.submit(query_of())
        assert "ended with exit code 3" in simulations.next(60).reason


def test_what_a_worker_spooled_before_it_died_is_used(scratch):
    with Scheduler(task_of(double), Fake(runs=True), spool=scratch / "spool") as simulations:
        simulations.submit(query_of())
        assert_doubled(simulations.next(), 1)
        assert isinstance(simulations._executor, Fake)


def test_a_query_that_loses_every_worker_fails():
    made = []

    def make():
        made.append(Fake(runs=False))
        return made[-1]

    with Scheduler(task_of(double), make) as simulations:
        simulations.submit(query_of())
        assert "lost its worker process 4 times" in simulations.next().reason
    assert len(made) == 4


def test_what_a_simulator_raises_on_purpose_to_stop_a_worker_is_a_reason():
    with Scheduler(task_of(interrupts), partial(process_pool, 1)) as simulations:
        simulations.submit(query_of())
        assert simulations.next().reason == "function: the simulator raised KeyboardInterrupt"


def test_an_executor_that_was_shut_down_is_lost_after_what_it_finished(scratch):
    threads = ThreadPoolExecutor(1)
    simulations = Scheduler(gated_task(scratch), threads)
    for number in (1, 2):
        simulations.submit(query_of(number))
    wait_for((scratch / "begun1").exists)
    threads.shutdown(wait=False, cancel_futures=True)
    (scratch / "leave").touch()
    threads.shutdown()
    assert_doubled(simulations.next(), 1)
    with pytest.raises(SimulationError, match=r"executor of simulations cannot be reached any more \(CancelledError"):
        simulations.next()
    with pytest.raises(SimulationError, match="cannot schedule new futures after shutdown"):
        simulations.submit(query_of(3))


def test_a_fault_of_the_executor_itself_is_a_reason():
    class Confused(InProcess):
        def submit(self, fn, /, *args, **kwargs):
            return super().submit(divmod, 1, 0)

    with Scheduler(task_of(double), Confused()) as simulations:
        simulations.submit(query_of())
        assert "ZeroDivisionError" in simulations.next().reason


# Beginning and ending.


@pytest.mark.parametrize("moment", ["starting", "running"])
def test_ctrl_c_in_the_terminal_ends_the_driver_and_its_workers_within_seconds(scratch, moment):
    program = (
        "import functools, pathlib, sys\n"
        "from mrafno.simulation.executors import process_pool\n"
        "from mrafno.simulation.scheduler import Scheduler\n"
        "from tests.simulators import gated_task, query_of\n"
        "with Scheduler(gated_task(sys.argv[1]), functools.partial(process_pool, 1)) as simulations:\n"
        "    simulations.submit(query_of())\n"
        "    pathlib.Path(sys.argv[1], 'submitted').touch()\n"
        "    simulations.next()\n"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", program, scratch], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for((scratch / {"starting": "submitted", "running": "begun1"}[moment]).exists)
    start = time.monotonic()
    os.killpg(driver.pid, signal.SIGINT)
    [*_, last] = driver.communicate(timeout=20)[1].splitlines()
    assert time.monotonic() - start < 5
    assert last == "KeyboardInterrupt"
    if moment == "running":
        assert not alive((scratch / "begun1").read_text())


def test_closing_kills_running_simulations_and_everything_they_started(scratch):
    program = f"import os, pathlib, time; pathlib.Path({str(scratch)!r}, f'pid{{os.getpid()}}').touch(); time.sleep(99)"
    task = CommandTask([sys.executable, "-c", program, "{input}", "{output}"], INPUTS, (5, 9), (1, 4))
    simulations = Scheduler(task, partial(process_pool, 1))
    simulations.submit(query_of(1))
    simulations.submit(query_of(2))
    wait_for(lambda: list(scratch.glob("pid*")))
    start = time.monotonic()
    simulations.close()
    assert time.monotonic() - start < 5
    pids = [path.name.removeprefix("pid") for path in scratch.glob("pid*")]
    assert not any(alive(pid) for pid in pids)
    assert simulations.running() == []


def test_cancelling_affects_only_queries_that_have_not_begun_and_closing_can_wait(scratch):
    spool = scratch / "spool"
    simulations = Scheduler(gated_task(scratch), partial(ThreadPoolExecutor, 1), spool=spool)
    for number in (1, 2, 3):
        simulations.submit(query_of(number))
    wait_for((scratch / "begun1").exists)
    simulations.cancel()
    assert [query.id for query in simulations.running()] == ["q000001"]
    (scratch / "leave").touch()
    simulations.close(wait=True)
    assert list(read_spool(spool).observations) == ["q000001"]


def test_a_callers_executor_is_not_closed():
    with ThreadPoolExecutor(1) as threads:
        Scheduler(task_of(double), threads).close()
        assert threads.submit(who).result()[0] == os.getpid()


def test_workers_finish_and_spool_what_they_have_begun_when_the_driver_is_killed(scratch):
    """Of three simulations two have begun; these are finished without the driver, the third is not begun."""
    program = (
        "import pathlib, sys, time, functools\n"
        "from mrafno.simulation.executors import process_pool\n"
        "from mrafno.simulation.scheduler import Scheduler\n"
        "from tests.simulators import gated_task, query_of\n"
        "folder, make = pathlib.Path(sys.argv[1]), functools.partial(process_pool, 2)\n"
        "simulations = Scheduler(gated_task(folder), make, spool=folder / 'spool')\n"
        "for number in (1, 2, 3):\n"
        "    simulations.submit(query_of(number))\n"
        "time.sleep(99)\n"
    )
    spool = scratch / "spool"
    driver = subprocess.Popen([sys.executable, "-c", program, scratch])
    notes = [scratch / "begun1", scratch / "begun2"]
    wait_for(lambda: all(note.exists() for note in notes))
    driver.kill()
    driver.wait()
    workers = [int(note.read_text()) for note in notes]
    time.sleep(0.2)
    assert read_spool(spool).observations == {}
    assert all(alive(worker) for worker in workers)
    (scratch / "leave").touch()
    wait_for(lambda: not any(alive(worker) for worker in workers))
    found = read_spool(spool, [query_of(1), query_of(2)]).observations
    assert sorted(found) == ["q000001", "q000002"]
    for number in (1, 2):
        assert_doubled(found[f"q{number:06}"], number)
    assert not (scratch / "begun3").exists()


def test_a_resumed_driver_waits_for_the_worker_of_a_dead_one(scratch):
    """Its result is taken over when it is there; nothing is simulated twice."""
    query, task, spool = query_of(), gated_task(scratch), scratch / "spool"
    with process_pool(1) as pool, Scheduler(task, partial(ThreadPoolExecutor, 1), spool=spool) as resumed:
        first = pool.submit(simulate, pack_task(task), query, spool=spool)
        wait_for((scratch / "begun1").exists)
        (scratch / "begun1").unlink()
        resumed.submit(query)
        assert resumed.next(0.2) is None
        (scratch / "leave").touch()
        assert_doubled(resumed.next(), 1)
        assert_doubled(first.result(30), 1)
    assert not (scratch / "begun1").exists()
