"""Views and progress in a notebook, in a real kernel."""

import sys

import pytest

from mrafno.run.notebook import in_notebook, table

CODE = """
import os
os.environ["OMP_NUM_THREADS"] = "1"
from tests import runs
from mrafno import Run
run = Run.create("run", runs.tiny(), **runs.SETTINGS)
outcome = run.advance(steps=2)
run.close()
outcome
"""

#: What is typed into a notebook has no module from which a worker could import it.
WORKERS = """
import os
os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np
from pathlib import Path
from mrafno import FunctionTask, Run
from tests import runs

steepness = 3

def solve(f, level):
    Path(f"worker-{os.getpid()}").touch()
    return np.tanh(steepness * f)

task = FunctionTask(solve, runs.smooth(np.random.default_rng(0).random((40, 17)), 0), (9, 17), (1.0, 5.0))
with Run.create("run", task, **runs.SETTINGS) as run:
    run.advance(steps=2, workers=2)
    told = [query.status for query in run.state.queries.values()]
print(sorted(set(told)), Path(f"worker-{os.getpid()}").exists(), len(list(Path().glob("worker-*"))))
"""


def test_a_table_escapes_what_it_is_given():
    assert "&lt;script&gt;" in table("<script>", {"a<b": "<i>"})
    assert "<i>" not in table("t", {"a": "<i>"})


def test_a_plain_process_is_no_notebook():
    assert not in_notebook()


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Executes cells in a kernel of their own and returns the outputs of each."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path / "cache"))

    def executed(*cells):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
        return [cell.outputs for cell in notebook.cells]

    return executed


def test_progress_and_outcome_are_shown_in_a_notebook(execute):
    shown, run = execute(CODE, "run")
    progress, outcome = (output["data"]["text/html"] for output in shown if "data" in output)
    assert "steps</th><td style='text-align:left'>2" in progress
    assert "finished 2 steps" in outcome
    assert "<b>Run " in run[0]["data"]["text/html"]


def test_two_workers_simulate_a_function_of_a_notebook(execute):
    pytest.importorskip("cloudpickle")
    [outputs] = execute(WORKERS)
    text = "".join(output.get("text", "") for output in outputs if output.get("name") == "stdout")
    assert text.strip().splitlines()[-1] == "['told'] False 2"
