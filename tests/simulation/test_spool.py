"""Whatever a simulator does becomes an observation, and what a worker has finished is on the disk."""

import errno
import fcntl
import hashlib
import importlib
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import LedgerError, TaskError
from mrafno.simulation import child_process as isolated
from mrafno.simulation.child_process import light, pack, unpack
from mrafno.simulation.executors import process_pool
from mrafno.simulation.query import Query
from mrafno.simulation.spool import clear_spool, read_result, read_spool, simulate
from mrafno.storage.files import write_bytes
from mrafno.tasks import Burgers, CommandTask
from tests.simulators import (
    INPUTS,
    OwnTask,
    alive,
    complains,
    complex_numbers,
    counts,
    crashes,
    double,
    eats,
    hangs,
    interrupts,
    is_killed,
    leaves,
    lingers,
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
    wait_for,
)

#: The module, whose name is also that of its function.
spooling = importlib.import_module("mrafno.simulation.spool")


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
SOME = (complains, nan, objects, leaves, recurses)


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
        pool.submit(simulate, pack(task), query).result(30),
        pool.submit(simulate, pack(task), query, limit=20).result(30),
    ):
        np.testing.assert_array_equal(observation.output, 2 * query.f)
        assert observation.output.dtype == np.float64
        assert (observation.id, observation.reason) == (query.id, None)
        assert 0 < observation.seconds < 0.5  # of the simulation, not of starting a process


@pytest.mark.parametrize("function", GENTLE, ids=lambda function: function.__name__)
def test_what_a_simulator_raises_or_returns_is_a_reason(function, pool, outcomes):
    task, query = task_of(function), query_of()
    assert_failed(simulate(task, query), GENTLE[function])
    assert_failed(pool.submit(simulate, pack(task), query).result(30), GENTLE[function])
    if function in SOME:
        assert_failed(outcomes[function], GENTLE[function])


@pytest.mark.parametrize("function", HARSH, ids=lambda function: function.__name__)
def test_what_would_end_a_process_is_a_reason(function, outcomes):
    assert_failed(outcomes[function], HARSH[function])


def test_a_limit_of_memory_leaves_enough_for_others(outcomes):
    np.testing.assert_array_equal(outcomes[double].output, 2 * query_of().f)


def test_only_ctrl_c_passes():
    with pytest.raises(KeyboardInterrupt):
        simulate(task_of(interrupts), query_of())


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


def test_what_a_simulation_leaves_behind_does_not_delay_it_for_ever(monkeypatch):
    monkeypatch.setattr(isolated, "_FAREWELL", 0.2)
    start = time.monotonic()
    np.testing.assert_array_equal(simulate(task_of(lingers), query_of(), isolate=True).output, 2 * query_of().f)
    assert time.monotonic() - start < 10


def test_a_simulation_does_not_outlive_the_process_that_waits_for_it(scratch, monkeypatch):
    """With its parent gone nobody keeps the time, and a simulation that hangs would hang for ever."""
    monkeypatch.setenv("TMPDIR", str(scratch))
    program = (
        "from tests.simulators import *; from mrafno.simulation.spool import simulate\n"
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


def test_the_query_is_not_changed_by_a_solver_that_works_in_place():
    task = OwnTask(resolutions=(9, 17))
    query = Query("q000001", "initial", 1, np.ones((1, 17)))
    np.testing.assert_array_equal(simulate(task, query).output, 2 * np.ones((1, 17)))
    np.testing.assert_array_equal(query.f, np.ones((1, 17)))


def test_a_long_reason_is_cut():
    error = ValueError("x" * 100_000)
    assert len(isolated.reason_of(error, "mine")) < 1000


def test_an_input_that_the_task_refuses_is_a_failed_query():
    bad = Query("q000001", "pool", 7, INPUTS[:1])
    assert_failed(simulate(task_of(double), bad), "unknown level 7")


# Travelling.


def test_candidates_stay_at_home():
    task = task_of(double)
    task.inputs = np.zeros((100_000, 1, 9))
    assert len(pack(task).data) < 10_000
    assert len(task.inputs) == 100_000
    np.testing.assert_array_equal(unpack(pack(task)).solve(INPUTS[:, None], 1), 2 * INPUTS[:, None])
    shipped = Burgers()
    assert light(shipped) is shipped


def test_a_function_without_a_name_travels_with_cloudpickle_only(monkeypatch):
    task = task_of(lambda f, level: 2 * f)
    task.luggage = np.zeros(10**6)  # more than a pipe holds
    np.testing.assert_array_equal(simulate(task, query_of(), isolate=True).output, 2 * query_of().f)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(
        TaskError, match=r"function: the task cannot travel to another process because .*lambda.*Define"
    ):
        simulate(task, query_of(), isolate=True)


def test_what_cannot_be_pickled_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    task = task_of(double)
    task.lock = threading.Lock()
    with pytest.raises(TaskError, match=r"cannot travel to another process because TypeError: cannot pickle"):
        simulate(task, query_of(), isolate=True)


def test_a_task_that_does_not_arrive_is_an_error_and_no_failed_query():
    """It would be the same for every query."""
    parcel = pack(task_of(double))
    gone = isolated.Parcel(parcel.name, parcel.data.replace(b"tests.simulators", b"tests.nosuchfile"), {})
    for settings in ({}, {"isolate": True}):
        with pytest.raises(TaskError, match=r"did not arrive in a worker process \(ModuleNotFoundError.*nosuchfile"):
            simulate(gone, query_of(), **settings)


SCRIPT = """
import sys
import numpy as np
from mrafno.simulation.executors import process_pool
from mrafno.simulation.child_process import pack
from mrafno.simulation.query import Query
from mrafno.simulation.spool import simulate
from mrafno.tasks import FunctionTask

print("started", __name__)

def triple(f, level):
    return 3 * f

def work():
    task = FunctionTask(triple, np.ones((2, 9)), (9,), (1,))
    query = Query("q000001", "pool", 0, np.ones((1, 9)))
    print(simulate(task, query, isolate=True).output.sum())
    with process_pool(1) as pool:
        print(pool.submit(simulate, pack(task), query).result().output.sum())
        print(pool.submit(simulate, pack(task), query, isolate=True).result().output.sum())
"""


def test_a_function_of_the_script_travels_if_the_script_can_be_imported(scratch):
    script = scratch / "script.py"
    script.write_text(SCRIPT + 'if __name__ == "__main__":\n    work()\n')
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    # Of the three processes two are isolated, and what these say is kept from the terminal.
    assert sorted(done.stdout.split("\n")) == ["", "27.0", "27.0", "27.0", "started __main__", "started __mp_main__"]
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_that_works_on_import_is_told_what_to_do(scratch):
    script = scratch / "script.py"
    script.write_text(SCRIPT + "work()\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "started __main__\n"
    error = done.stderr.strip().splitlines()[-1]
    assert error.startswith("mrafno.errors.TaskError: function: the task did not arrive in a worker process")
    assert f'Workers import {script}: put what it does, not what it defines, under if __name__ == "__main__".' in error


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


def test_what_was_finished_is_not_simulated_again(scratch):
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


def test_whoever_wants_a_simulation_that_is_running_waits_for_it(scratch):
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


def test_damage_anywhere_is_found(scratch):
    """Every byte in turn is changed: there is never another number than the right one, and a complaint says where."""
    query = query_of()
    simulate(task_of(double), query, spool=scratch)
    for path in (scratch / "q000001.json", scratch / "q000001.npy"):
        good = path.read_bytes()
        for position in range(len(good)):
            damaged = bytearray(good)
            damaged[position] ^= 1
            path.write_bytes(damaged)
            found, complaints = read_spool(scratch, [query])
            assert found == {}
            assert len(complaints) == 1
            assert path.name in complaints[0]
            assert complaints[0].endswith("Remove it: the query is simulated again.")
            assert read_result(scratch, query) is None
        for size in (0, len(good) // 2, len(good) - 1):
            path.write_bytes(good[:size])
            assert read_spool(scratch).observations == {}
        path.write_bytes(good)
    assert list(read_spool(scratch, [query]).observations) == ["q000001"]
    (scratch / "q000001.json").write_text("{}")
    np.testing.assert_array_equal(simulate(task_of(double), query, spool=scratch).output, 2 * query.f)
    assert list(read_spool(scratch, [query]).observations) == ["q000001"]


def resealed(path, **changes):
    """A .json with other content and a check that fits, as somebody might make it who means harm."""
    record = json.loads(path.read_text()) | changes
    del record["check"]
    path.write_bytes(spooling._sealed(record))


def test_a_pickle_is_not_unpickled(scratch):
    query = query_of()
    simulate(task_of(double), query, spool=scratch)
    np.save(scratch / "q000001.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    content = (scratch / "q000001.npy").read_bytes()
    resealed(scratch / "q000001.json", sha256=hashlib.sha256(content).hexdigest(), shape=[1])
    found, complaints = read_spool(scratch)
    assert found == {}
    assert "no real numbers" in complaints[0]
    (scratch / "q000001.npy").write_bytes(pickle.dumps(Bomb()))
    assert read_spool(scratch).observations == {}
    (scratch / "q000001.json").write_bytes(pickle.dumps(Bomb()))
    assert read_spool(scratch).observations == {}
    assert not (scratch / "exploded").exists()


class Bomb:
    def __reduce__(self):
        return Path.touch, (Path(os.environ["SCRATCH"], "exploded"),)


def test_a_record_that_is_whole_but_wrong_is_complained_about(scratch):
    query = query_of()
    simulate(task_of(double), query, spool=scratch)
    for changes in ({"shape": [3]}, {"id": "q000002"}, {"seconds": "long"}, {"seconds": -1}, {"reason": 3}):
        resealed(scratch / "q000001.json", **changes)
        found, complaints = read_spool(scratch)
        assert (found, len(complaints)) == ({}, 1), changes
        clear_spool(scratch, ["q000001"])
        simulate(task_of(double), query, spool=scratch)
    for content in ("", "[1]", "[" * 100_000, "{}"):
        (scratch / "q000001.json").write_text(content)
        assert len(read_spool(scratch).complaints) == 1


@pytest.mark.parametrize("kind", ["json", "npy"])
def test_links_and_pipes_are_not_followed(scratch, kind):
    spool = scratch / "spool"
    spool.mkdir()
    simulate(task_of(double), query_of(), spool=spool)
    path = spool / f"q000001.{kind}"
    path.rename(scratch / "elsewhere")
    path.symlink_to(scratch / "elsewhere")
    found, complaints = read_spool(spool)
    assert found == {}
    assert "is a symbolic link, which is not followed" in complaints[0]
    path.unlink()
    os.mkfifo(path)
    assert "is no regular file" in read_spool(spool).complaints[0]
    # Writing goes to a new file in the link's place.
    path.unlink()
    path.symlink_to(scratch / "elsewhere")
    before = (scratch / "elsewhere").read_bytes()
    simulate(task_of(double), query_of(), spool=spool)
    assert (scratch / "elsewhere").read_bytes() == before
    assert list(read_spool(spool).observations) == ["q000001"]


def test_a_spool_that_is_a_link_is_refused(scratch):
    (scratch / "real").mkdir()
    (scratch / "link").symlink_to(scratch / "real")
    for refused in (
        lambda: simulate(task_of(double), query_of(), spool=scratch / "link"),
        lambda: read_spool(scratch / "link"),
        lambda: clear_spool(scratch / "link", ["q000001"]),
    ):
        with pytest.raises(LedgerError, match="is a symbolic link"):
            refused()
    assert list((scratch / "real").iterdir()) == []


def test_foreign_names_are_left_alone(scratch):
    names = [
        "notes.txt",
        "q1.json",
        "q000001.json.json",
        "Q000001.json",
        "q00000\u0661.json",
        "q000001 .json",
        ".hidden",
    ]
    for name in names:
        (scratch / name).write_text("{}")
    (scratch / ".q000001.json.0123456789abcdef.part").write_text("half")
    (scratch / "q000001.npy").write_text("without its .json")
    found, complaints = read_spool(scratch)
    assert found == {}
    assert sorted(Path(c.split(" is not a spooled result")[0]).name for c in complaints) == sorted(names)


@pytest.mark.parametrize("name", ["../q000001", "q1", "q000001/../../x", "q000001\n", "", "q000001.npy", None, 1])
def test_an_id_that_is_none_becomes_no_file_name(scratch, name):
    (scratch / "spool").mkdir()
    query = Query(name, "pool", 1, query_of().f)
    with pytest.raises(TaskError, match="is not the id of a query"):
        simulate(task_of(double), query, spool=scratch / "spool")
    with pytest.raises(TaskError, match="is not the id of a query"):
        clear_spool(scratch / "spool", [name])
    assert [path.name for path in scratch.iterdir()] == ["spool"]


def test_a_result_that_was_not_asked_for_is_not_taken(scratch):
    simulate(task_of(double), query_of(1), spool=scratch)
    simulate(task_of(double), query_of(2), spool=scratch)
    other = Query("q000002", "pool", 1, query_of(2).f + 1)
    found, complaints = read_spool(scratch, [other])
    assert found == {}
    assert "answers a query that was not asked" in complaints[0]
    assert "is the result of another input or level" in complaints[1]


def test_clearing_removes_all_of_a_query_and_nothing_else(scratch):
    for number in (1, 2):
        simulate(task_of(double), query_of(number), spool=scratch)
    (scratch / ".q000001.npy.0123456789abcdef.part").write_text("half")
    clear_spool(scratch, ["q000001", "q000003"])
    assert sorted(path.name for path in scratch.iterdir()) == ["q000002.json", "q000002.lock", "q000002.npy"]
    clear_spool(scratch / "nowhere", ["q000001"])
    assert read_spool(scratch / "nowhere") == ({}, [])


@pytest.mark.parametrize("action", ["always", "error"])
@pytest.mark.parametrize("full", ["q000001.npy", "q000001.json"])
def test_a_full_disk_does_not_lose_a_result_that_is_in_memory(scratch, monkeypatch, full, action):
    def write(path, content):
        if path.name == full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_bytes(path, content)

    monkeypatch.setattr(spooling, "write_bytes", write)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter(action)
        observation = simulate(task_of(double), query_of(), spool=scratch)
    np.testing.assert_array_equal(observation.output, 2 * query_of().f)
    assert read_spool(scratch) == ({}, [])
    if action == "always":
        assert re.search(r"q000001: its result could not be kept in the spool .*No space left", str(heard[0].message))


def test_a_spool_that_is_not_there_does_not_lose_a_result(scratch):
    """A worker on another machine may not see the folder."""
    with pytest.warns(RuntimeWarning, match="a folder that all workers see"):
        observation = simulate(task_of(double), query_of(), spool=scratch / "nowhere")
    assert observation.output is not None
    assert not (scratch / "nowhere").exists()
