"""The notebook in examples/ runs from its first cell to its last, in a real kernel."""

import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples" / "tutorial.ipynb"


def test_the_tutorial(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("pandas")
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    figures = [o for o in outputs if "application/vnd.plotly.v1+json" in o.get("data", {})]
    assert len(figures) == 3
    text = "".join(o.get("text", "") for o in outputs)
    assert "in all: 55 initial" in text
    assert "(4, 1, 65) (4, 1, 65)" in text
    assert not any(cell.outputs for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code")
