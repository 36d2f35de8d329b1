"""Tasks that are sent to other processes, or refused before anything starts."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.simulation.packing import PackedTask, pack_task, unpack_task, without_candidates
from mrafno.simulation.worker import simulate
from mrafno.tasks import Burgers
from tests.simulators import (
    INPUTS,
    double,
    query_of,
    task_of,
)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    return tmp_path


def test_candidates_are_not_packed():
    task = task_of(double)
    task.inputs = np.zeros((100_000, 1, 9))
    assert len(pack_task(task).data) < 10_000
    assert len(task.inputs) == 100_000
    np.testing.assert_array_equal(unpack_task(pack_task(task)).solve(INPUTS[:, None], 1), 2 * INPUTS[:, None])
    shipped = Burgers()
    assert without_candidates(shipped) is shipped


def test_a_lambda_is_packed_with_cloudpickle_only(monkeypatch):
    task = task_of(lambda f, level: 2 * f)
    task.luggage = np.zeros(10**6)  # more than a pipe holds
    np.testing.assert_array_equal(simulate(task, query_of(), isolate=True).output, 2 * query_of().f)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(
        TaskError,
        match=r"cannot be sent to another process because .*lambda.*Install cloudpickle .*, or define",
    ):
        simulate(task, query_of(), isolate=True)


def test_what_cannot_be_pickled_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    task = task_of(double)
    task.lock = threading.Lock()
    with pytest.raises(TaskError, match=r"cannot be sent to another process because TypeError: cannot pickle"):
        simulate(task, query_of(), isolate=True)


def test_a_task_that_cannot_be_loaded_is_an_error_and_no_failed_query():
    """It would be the same for every query."""
    packed = pack_task(task_of(double))
    gone = PackedTask(packed.name, packed.data.replace(b"tests.simulators", b"tests.nosuchfile"), {})
    for settings in ({}, {"isolate": True}):
        with pytest.raises(TaskError, match=r"cannot be loaded in a worker process \(ModuleNotFoundError.*nosuchfile"):
            simulate(gone, query_of(), **settings)


SCRIPT = """
import sys
import numpy as np
from mrafno.simulation.executors import process_pool
from mrafno.simulation.packing import pack_task
from mrafno.simulation.query import Query
from mrafno.simulation.worker import simulate
from mrafno.tasks import FunctionTask

print("started", __name__)

def triple(f, level):
    return 3 * f

def work():
    task = FunctionTask(triple, np.ones((2, 9)), (9,), (1,))
    query = Query("q000001", "pool", 0, np.ones((1, 9)))
    print(simulate(task, query, isolate=True).output.sum())
    with process_pool(1) as pool:
        print(pool.submit(simulate, pack_task(task), query).result().output.sum())
        print(pool.submit(simulate, pack_task(task), query, isolate=True).result().output.sum())
"""


def test_a_function_of_the_script_is_packed_if_the_script_can_be_imported(scratch):
    script = scratch / "script.py"
    script.write_text(SCRIPT + 'if __name__ == "__main__":\n    work()\n')
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    # Of the three processes two are isolated, and what these say is kept from the terminal.
    assert sorted(done.stdout.split("\n")) == ["", "27.0", "27.0", "27.0", "started __main__", "started __mp_main__"]
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_without_a_main_guard_gets_advice(scratch):
    script = scratch / "script.py"
    script.write_text(SCRIPT + "work()\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "started __main__\n"
    error = done.stderr.strip().splitlines()[-1]
    assert error.startswith("mrafno.errors.TaskError: function: the task cannot be loaded in a worker process")
    assert f'Workers import {script}: put what it does, not what it defines, under if __name__ == "__main__".' in error


def test_functions_of_an_interactive_session_work_with_workers(tmp_path):
    """Typed into an interpreter, they are in no file that a worker could import."""
    code = """
import numpy as np
from mrafno import FunctionTask, Run
from tests.runs import SETTINGS
factor = 2.0
def scale(f):
    return factor * f
def simulate(f, level):
    return scale(f)
inputs = np.random.default_rng(0).normal(size=(30, 9))
task = FunctionTask(simulate, inputs, ((5,), (9,)), (1, 4))
run = Run.create(PATH, task, **SETTINGS)
print(run.advance(steps=2, workers=2).reason, len(run.state.queries))
run.close()
""".replace("PATH", repr(str(tmp_path / "run")))
    root = Path(__file__).parents[2]
    found = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, cwd=root, check=False)
    assert found.stdout == "finished 2 steps 12\n", found.stderr
