"""Whatever a simulator does becomes an observation, and the result is in the spool before it is returned."""

import errno
import fcntl
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mrafno.simulation import spool as spool_module
from mrafno.simulation.executors import process_pool
from mrafno.simulation.packing import pack_task
from mrafno.simulation.query import Query
from mrafno.simulation.spool import read_spool
from mrafno.simulation.worker import simulate
from mrafno.storage.files import write_bytes
from tests.simulators import (
    complains,
    complex_numbers,
    counts,
    crashes,
    double,
    eats,
    exits,
    forks,
    interrupts,
    is_killed,
    leaves,
    nan,
    objects,
    pretends,
    query_of,
    recurses,
    speechless,
    task_of,
    text,
    too_long,
    vanishes,
)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def pool():
    with process_pool(1) as executor:
        yield executor


GENTLE = {
    complains: r"^function: the simulator, given shape \(1, 9\) on level 1, raised ValueError "
    r"\(simulators\.py:\d+\): no root in sight$",
    nan: "returned 9 values that are NaN or infinite",
    too_long: r"returned shape \(10,\), expected \(1, 9\)",
    complex_numbers: r"returned an array of complex128\. Return an array of real numbers of shape \(1, 9\) ",
    objects: r"returned an array of object\. Return an array of real",
    text: r"returned a str\. Return an array of real numbers",
    leaves: r"^function: the simulator called exit\(3\) \(simulators\.py:\d+\)\.",
    exits: r"^function: the simulator called exit\(0\) \(simulators\.py:\d+\)\. Return an output",
    recurses: r"raised RecursionError \(simulators\.py:\d+\): maximum recursion depth",
    speechless: r"^function: the simulator, given .* raised SpeechlessError \(simulators\.py:\d+\)$",
}
HARSH = {
    interrupts: r"^function: the simulator raised KeyboardInterrupt \(simulators\.py:\d+\)$",
    vanishes: r"^function: the simulation on level 1 ended with exit code 3 before .* output\. It said: so long$",
    pretends: "ended with exit code 0 before it gave an output. It said: nothing$",
    crashes: r"was ended by a signal \(Segmentation fault\)\.",
    is_killed: r"was ended by a signal \(Killed\); if memory ran out, use fewer workers",
    eats: r"raised .*MemoryError \(simulators\.py:\d+\): Unable to allocate",
}
#: Gentle faults that are tried in processes of their own too; a process takes a second.
SOME = (complains, nan, objects, leaves, exits, recurses)


@pytest.fixture(scope="module")
def outcomes():
    """Faults in processes of their own, two at a time."""
    with ThreadPoolExecutor(2) as threads:
        waiting = {
            function: threads.submit(simulate, task_of(function), query_of(), limit=60, memory=2**30)
            for function in (double, *HARSH, *SOME)
        }
    return {function: future.result() for function, future in waiting.items()}


def assert_failed(observation, pattern):
    assert observation.id == "q000001"
    assert observation.output is None
    assert re.search(pattern, observation.reason), observation.reason
    assert "\n" not in observation.reason
    assert observation.seconds >= 0


def test_an_output_is_the_same_everywhere(pool):
    task, query = task_of(double), query_of(level=0)
    for observation in (
        simulate(task, query),
        simulate(task, query, isolate=True),
        pool.submit(simulate, pack_task(task), query).result(30),
        pool.submit(simulate, pack_task(task), query, limit=20).result(30),
    ):
        np.testing.assert_array_equal(observation.output, 2 * query.f)
        assert observation.output.dtype == np.float64
        assert (observation.id, observation.reason) == (query.id, None)
        assert 0 < observation.seconds < 0.5  # of the simulation, not of starting a process


def test_a_process_that_a_simulator_forks_ends_as_usual():
    query = query_of()
    np.testing.assert_array_equal(simulate(task_of(forks), query).output, 5 * query.f)


@pytest.mark.parametrize("function", GENTLE, ids=lambda function: function.__name__)
def test_what_a_simulator_raises_or_returns_is_a_reason(function, pool, outcomes):
    task, query = task_of(function), query_of()
    assert_failed(simulate(task, query), GENTLE[function])
    assert_failed(pool.submit(simulate, pack_task(task), query).result(30), GENTLE[function])
    if function in SOME:
        assert_failed(outcomes[function], GENTLE[function])


@pytest.mark.parametrize("function", HARSH, ids=lambda function: function.__name__)
def test_a_crash_of_the_child_process_is_a_reason(function, outcomes):
    assert_failed(outcomes[function], HARSH[function])


def test_a_limit_of_memory_leaves_enough_for_others(outcomes):
    np.testing.assert_array_equal(outcomes[double].output, 2 * query_of().f)


# The spool.


def test_a_result_is_in_the_spool_before_it_is_returned(scratch):
    good, bad = query_of(1), query_of(2)
    kept = simulate(task_of(double), good, spool=scratch)
    failed = simulate(task_of(complains), bad, spool=scratch)
    found, complaints = read_spool(scratch, [good, bad])
    assert complaints == []
    assert list(found) == ["q000001", "q000002"]
    np.testing.assert_array_equal(found["q000001"].output, 2 * good.f)
    assert (found["q000001"].seconds, found["q000001"].reason) == (kept.seconds, None)
    assert (found["q000002"].output, found["q000002"].reason) == (None, failed.reason)
    assert list(read_spool(scratch).observations) == list(found)


def test_a_spooled_output_is_not_simulated_again(scratch):
    first = simulate(task_of(counts), query_of(), spool=scratch, isolate=True)
    again = simulate(task_of(counts), query_of(), spool=scratch)
    np.testing.assert_array_equal(again.output, first.output)
    assert again.seconds == first.seconds
    assert (scratch / "counted").read_text() == "x"


def test_a_failure_and_the_result_of_another_input_are_simulated_again(scratch):
    assert simulate(task_of(complains), query_of(), spool=scratch).reason
    assert simulate(task_of(double), query_of(), spool=scratch).output is not None
    other = Query("q000001", "pool", 1, query_of().f + 1)
    np.testing.assert_array_equal(simulate(task_of(double), other, spool=scratch).output, 2 * other.f)


def test_a_second_request_for_a_running_simulation_waits_for_it(scratch):
    """As when a driver is resumed while a worker of the one that died still runs."""
    spool = scratch / "spool"
    spool.mkdir()
    with ThreadPoolExecutor(3) as threads:
        outputs = [threads.submit(simulate, task_of(counts), query_of(), spool=spool) for _ in range(3)]
    for future in outputs:
        np.testing.assert_array_equal(future.result().output, 2 * query_of().f)
    assert (scratch / "counted").read_text() == "x"


def test_a_simulation_whose_worker_died_is_not_waited_for(scratch):
    lock = (scratch / "q000001.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.close()
    assert simulate(task_of(double), query_of(), spool=scratch).output is not None


@pytest.mark.parametrize("full", ["q000001.npy", "q000001.json"])
def test_a_full_disk_does_not_lose_a_result_that_is_in_memory(scratch, monkeypatch, full):
    def write(path, content):
        if path.name == full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_bytes(path, content)

    monkeypatch.setattr(spool_module, "write_bytes", write)
    observation = simulate(task_of(double), query_of(), spool=scratch)
    np.testing.assert_array_equal(observation.output, 2 * query_of().f)
    assert read_spool(scratch) == ({}, [])
    [notice] = observation.notices
    assert notice.key == "spool"
    assert re.search(r"the result of q000001 could not be kept in the spool .*No space left", notice.text)


def test_a_spool_that_is_not_there_does_not_lose_a_result(scratch):
    """A worker on another machine may not see the folder."""
    observation = simulate(task_of(double), query_of(), spool=scratch / "nowhere")
    assert "a folder that all workers see" in observation.notices[0].text
    assert observation.output is not None
    assert not (scratch / "nowhere").exists()
