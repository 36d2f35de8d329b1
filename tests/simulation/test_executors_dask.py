"""Simulations on Dask: a real scheduler and real worker processes, of which some are killed."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import MrafnoError, SimulationError, TaskError
from mrafno.simulation.executors import dask_executor
from mrafno.simulation.scheduler import Scheduler
from mrafno.simulation.spool import read_spool
from mrafno.tasks import CommandTask
from tests.simulation.test_scheduler import assert_doubled, drain
from tests.simulators import (
    INPUTS,
    alive,
    complains,
    double,
    gated_task,
    query_of,
    task_of,
    vanishes_at_two,
    wait_for,
    who,
)


class Cluster:
    """A scheduler and two workers, started from the shell as people do."""

    def __init__(self, folder):
        self.file = folder / "scheduler.json"
        # Workers on other machines would have the simulator's module installed.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "DASK_LOGGING__DISTRIBUTED": "error"}
        environment["DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"] = "0"
        command = [sys.executable, "-m", "dask"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment, "cwd": folder}
        self.scheduler = subprocess.Popen(
            [*command, "scheduler", "--port=0", "--host=127.0.0.1", "--no-dashboard", f"--scheduler-file={self.file}"],
            **quiet,
        )
        self.workers = subprocess.Popen(
            [*command, "worker", "--nworkers=2", "--nthreads=1", "--no-dashboard", f"--scheduler-file={self.file}"],
            **quiet, start_new_session=True,
        )  # fmt: skip
        wait_for(self.file.exists, 60)
        self.address = json.loads(self.file.read_text())["address"]

    def end(self):
        os.killpg(self.workers.pid, signal.SIGKILL)
        self.scheduler.kill()
        for process in (self.workers, self.scheduler):
            process.wait(30)


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    """Dask says on its log what happens to workers and schedulers; here that is on purpose."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.end()


def test_a_worker_keeps_one_child_for_all_isolated_simulations(cluster, tmp_path):
    """Also for a function that is sent by value, and pickled again in the worker."""
    factor = np.float64(2.0)

    def notes_process(f, level):
        with Path(tmp_path, f"children-of-{os.getppid()}").open("a") as file:
            print(os.getpid(), file=file)
        return factor * f

    with Scheduler(task_of(notes_process), partial(dask_executor, cluster.address), isolate=True) as simulations:
        for number in range(1, 9):
            simulations.submit(query_of(number))
        assert len(drain(simulations)) == 8
    found = [path.read_text().split() for path in tmp_path.iterdir()]
    assert sum(map(len, found)) == 8
    assert [len(set(pids)) for pids in found] == [1] * len(found)


def test_a_cluster_gives_what_this_process_gives(cluster, tmp_path):
    with Scheduler(task_of(double), partial(dask_executor, cluster.address), spool=tmp_path) as simulations:
        for number in range(1, 6):
            simulations.submit(query_of(number))
        found = drain(simulations)
    for number in range(1, 6):
        assert_doubled(found[f"q{number:06}"], number)
    assert sorted(read_spool(tmp_path).observations) == sorted(found)


def test_lambdas_are_sent_to_a_cluster_and_there_to_a_child_process(cluster):
    task = task_of(lambda f, level: 2 * f)
    with Scheduler(task, partial(dask_executor, cluster.address), limit=60) as simulations:
        simulations.submit(query_of())
        assert_doubled(simulations.next(60), 1)


def test_the_same_query_can_be_tried_again(cluster):
    """Dask takes two equal calls for one, unless it is told."""
    with Scheduler(task_of(complains), partial(dask_executor, cluster.address), retries=1) as simulations:
        simulations.submit(query_of())
        assert "no root in sight" in simulations.next(60).reason


def test_a_worker_that_is_killed_during_a_simulation_loses_nothing(cluster, tmp_path):
    with Scheduler(gated_task(tmp_path), partial(dask_executor, cluster.address), spool=tmp_path / "s") as simulations:
        for number in (1, 2):
            simulations.submit(query_of(number))
        wait_for(lambda: all((tmp_path / f"begun{number}").exists() for number in (1, 2)))
        os.kill(int((tmp_path / "begun1").read_text()), signal.SIGKILL)
        (tmp_path / "leave").touch()
        found = drain(simulations)
    for number in (1, 2):
        assert_doubled(found[f"q{number:06}"], number)


def test_workers_finish_and_spool_what_they_have_begun_when_the_driver_is_killed(cluster, tmp_path):
    program = (
        "import functools, pathlib, sys, time\n"
        "from mrafno.simulation.executors import dask_executor\n"
        "from mrafno.simulation.scheduler import Scheduler\n"
        "from tests.simulators import gated_task, query_of\n"
        "folder, make = pathlib.Path(sys.argv[1]), functools.partial(dask_executor, sys.argv[2])\n"
        "simulations = Scheduler(gated_task(folder), make, spool=folder / 's')\n"
        "simulations.submit(query_of())\n"
        "time.sleep(99)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", program, tmp_path, cluster.address])
    wait_for((tmp_path / "begun1").exists)
    driver.kill()
    driver.wait()
    time.sleep(0.2)
    (tmp_path / "leave").touch()
    wait_for(lambda: read_spool(tmp_path / "s").observations)
    assert_doubled(read_spool(tmp_path / "s", [query_of()]).observations["q000001"], 1)


def test_a_scheduler_that_dies_stops_the_run_and_what_was_finished_is_kept(cluster, tmp_path):
    """The last test on this cluster. Dask gives its workers half a minute to finish, which is enough here."""
    with Scheduler(gated_task(tmp_path), partial(dask_executor, cluster.address), spool=tmp_path / "s") as simulations:
        for number in (1, 2, 3):
            simulations.submit(query_of(number))
        wait_for(lambda: len(list(tmp_path.glob("begun?"))) == 2)
        begun = {f"q00000{path.name[-1]}" for path in tmp_path.glob("begun?")}
        cluster.scheduler.kill()
        with pytest.raises(SimulationError, match=rf"dask scheduler at {cluster.address} cannot be reached any more"):
            simulations.next(60)
        with pytest.raises(SimulationError, match="cannot be reached any more"):
            simulations.submit(query_of(4))
        (tmp_path / "leave").touch()
        wait_for(lambda: set(read_spool(tmp_path / "s").observations) == begun)
        start = time.monotonic()
    assert time.monotonic() - start < 10


def test_a_cluster_of_our_own(tmp_path):
    """A worker dies; another is sent SIGINT, as by Ctrl-C in the terminal; all is gone at the end."""
    program = (
        f"import os, pathlib, time; pathlib.Path({str(tmp_path)!r}, f'pid{{os.getpid()}}').touch(); time.sleep(99)"
    )
    with dask_executor(None, 2) as executor:
        with Scheduler(task_of(vanishes_at_two), executor, spool=tmp_path / "spool") as simulations:
            for number in (1, 2, 3):
                simulations.submit(query_of(number))
            found = drain(simulations)
        for number in (1, 3):
            assert_doubled(found[f"q{number:06}"], number)
        assert "ended with exit code 3" in found["q000002"].reason

        worker, threads = executor.submit(who).result(30)
        assert threads == "1"
        os.kill(worker, signal.SIGINT)
        time.sleep(0.2)
        assert alive(worker)

        task = CommandTask([sys.executable, "-c", program, "{input}", "{output}"], INPUTS, (5, 9), (1, 4))
        with Scheduler(task, executor) as simulations:
            simulations.submit(query_of())
            wait_for(lambda: list(tmp_path.glob("pid*")))
            executor.shutdown(wait=False)
    [path] = tmp_path.glob("pid*")
    assert not alive(path.name.removeprefix("pid"))
    assert not alive(worker)


def test_a_scheduler_that_is_not_there(monkeypatch):
    monkeypatch.setattr("mrafno.simulation.executors._CONNECT", 0.5)
    with pytest.raises(SimulationError, match=r"dask: no scheduler answers at tcp://127.0.0.1:9 .*dask scheduler"):
        dask_executor("tcp://127.0.0.1:9")
    with pytest.raises(SimulationError, match="dask: no scheduler answers at nonsense://x"):
        dask_executor("nonsense://x")
    with pytest.raises(TaskError, match="has its own workers"):
        dask_executor("tcp://127.0.0.1:9", 2)


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MrafnoError, match=r"pip install distributed"):
        dask_executor()
