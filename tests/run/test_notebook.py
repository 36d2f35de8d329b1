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


def test_a_table_escapes_what_it_is_given():
    assert "&lt;script&gt;" in table("<script>", {"a<b": "<i>"})
    assert "<i>" not in table("t", {"a": "<i>"})


def test_a_plain_process_is_no_notebook():
    assert not in_notebook()


def test_progress_and_outcome_are_shown_in_a_notebook(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path / "cache"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE), nbformat.v4.new_code_cell("run")])
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    progress, outcome = (output["data"]["text/html"] for output in notebook.cells[0].outputs if "data" in output)
    assert "steps</th><td style='text-align:left'>2" in progress
    assert "finished 2 steps" in outcome
    assert "<b>Run " in notebook.cells[1].outputs[0]["data"]["text/html"]
