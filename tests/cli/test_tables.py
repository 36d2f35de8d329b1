"""Runs as tables: figures of one run, figures of several."""

import io

import pytest
from rich.console import Console

from mrafno.cli.tables import comparison, run_table
from mrafno.run.reader import RunReader
from tests.made_runs import made_run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    top = tmp_path_factory.mktemp("tables")
    return [
        made_run(top / "a", levels=(0, 1, 0, 0), errors=(0.4, 0.2, 0.1), failures=("no convergence",), running=True),
        made_run(top / "b", levels=(1,) * 4, errors=(0.4, 0.4, 0.2), method="random-high", seed=1),
        made_run(top / "c", method="random-high", seed=2),
    ]


def test_a_run(folders):
    console = Console(file=io.StringIO(), width=100)
    console.print(run_table(RunReader(folders[0]).state, folders[0]))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["cost", "19", "in", "all:", "4", "initial,", "13", "chosen,", "2", "test"] in lines
    assert ["error", "0.1", "after", "step", "4"] in lines
    time = next(line for line in lines if line[:1] == ["time"])
    assert time[:7] == ["time", "simulating", "0.4", "s,", "training", "10", "s,"]
    assert ["asked", "q000011", "(9);", "not", "answered"] in lines
    # Mesh, cost of one, initial, chosen, test, not answered, failed.
    assert ["│", "5", "│", "1", "│", "2", "│", "3", "│", "0", "│", "0", "│", "1", "│"] in lines
    assert ["│", "9", "│", "10", "│", "2", "│", "1", "│", "2", "│", "1", "│", "0", "│"] in lines
    assert any("convergence" in line for line in lines)


def test_several_runs(folders):
    found = comparison([(folder, RunReader(folder).state) for folder in folders], [0.1, 0.2])
    assert found["errors"] == [0.2, 0.1]
    assert [run["error"] for run in found["runs"]] == [0.1, 0.2, None]
    assert [run["reached"] for run in found["runs"]] == [
        {"0.2": 17.0, "0.1": 19.0}, {"0.2": 46.0, "0.1": None}, {"0.2": None, "0.1": None},
    ]  # fmt: skip
    assert [run["cost"] for run in found["runs"]] == [19.0, 46.0, 6.0]
    chosen = comparison([(folder, RunReader(folder).state) for folder in folders], [0.1, 0.2], "chosen")
    assert [run["reached"]["0.2"] for run in chosen["runs"]] == [11.0, 40.0, None]
    assert [run["cost"] for run in chosen["runs"]] == [13.0, 40.0, 0.0]
    assert comparison([(folders[0], RunReader(folders[0]).state)], [])["errors"] == [0.3, 0.15, 0.1]
