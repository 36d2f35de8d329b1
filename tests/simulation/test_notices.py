"""What a worker notices comes back with its observation, and is heard once."""

import shutil
import socket
from collections import namedtuple
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from mrafno.simulation import notices
from mrafno.simulation.notices import different_versions, nearly_full, versions
from mrafno.simulation.scheduler import Scheduler
from tests.simulators import crashes, double, query_of, task_of, vanishes_at_two

Usage = namedtuple("Usage", "total used free")


def of_another_version():
    """Make a worker one of another version, whose disk is nearly full."""
    notices.__version__ = "9.9"
    shutil.disk_usage = lambda path: Usage(2**40, 2**40 - 2**20, 2**20)


def test_the_same_versions_and_a_disk_with_space_are_no_notice(tmp_path):
    assert different_versions(versions()) == []
    assert nearly_full(tmp_path) == []
    assert nearly_full(tmp_path / "nowhere") == []


def test_a_worker_with_another_version_and_a_full_disk_says_so(tmp_path):
    host = socket.gethostname()
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=of_another_version)
    with pool, Scheduler(task_of(double), pool, spool=tmp_path / "spool") as scheduler:
        for number in (1, 2):
            scheduler.submit(query_of(number))
            assert scheduler.next().output is not None
        said = dict(scheduler.notices)
    here = versions()["mrafno"]
    assert f"a worker on {host} has mrafno 9.9 where the driver has {here}" in said[f"versions of {host}"]
    assert (
        f"the disk of {tmp_path / 'spool'} on {host} is nearly full: 1 MiB are free"
        in (said[f"disk of {tmp_path / 'spool'} on {host}"])
    )


@pytest.mark.parametrize("solve", [vanishes_at_two, crashes])
def test_a_worker_that_is_lost_is_a_notice(solve, tmp_path):
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    with pool, Scheduler(task_of(solve), pool) as scheduler:
        scheduler.submit(query_of(2))
        assert scheduler.next().reason
        assert scheduler.notices[0].key == "worker lost"
        assert "a worker process ended while q000002 was simulated" in scheduler.notices[0].text
