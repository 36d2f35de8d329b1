"""Runs as tables: figures of one run, figures of several."""

import io

import pytest
from rich.console import Console

from mrafno.cli.tables import comparison, run_table
from mrafno.run.reader import RunReader
from mrafno.tasks import FunctionTask
from tests import runs
from tests.made_runs import made_run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    top = tmp_path_factory.mktemp("tables")
    return [
        made_run(top / "a", levels=(0, 1, 0, 0), errors=(0.4, 0.2, 0.1), failures=("no convergence",), running=True),
        made_run(top / "b", levels=(1,) * 4, errors=(0.4, 0.4, 0.2), method="random-high", seed=1),
        made_run(top / "c", method="random-high", seed=2),
    ]


def cells(console):
    """Of the tables that were printed, by line."""
    lines = [line for line in console.file.getvalue().splitlines() if line[:1] in ("│", "┃")]
    return [[cell.strip() for cell in line.replace("┃", "│").strip("│").split("│")] for line in lines]


def test_a_run(folders):
    console = Console(file=io.StringIO(), width=100)
    console.print(run_table(RunReader(folders[0]).state, folders[0]))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["cost", "19", "in", "all:", "4", "initial,", "13", "chosen,", "2", "test"] in lines
    assert ["error", "0.1", "after", "step", "4"] in lines
    time = next(line for line in lines if line[:1] == ["time"])
    assert time[:7] == ["time", "simulating", "0.4", "s,", "training", "10", "s,"]
    assert ["asked", "q000011", "(9);", "not", "answered"] in lines
    assert cells(console)[:7] == [
        ["Simulations", "5", "9"], ["cost of one", "1", "10"], ["initial", "2", "2"], ["chosen", "3", "1"],
        ["test", "0", "2"], ["not answered", "0", "1"], ["failed", "1", "0"],
    ]  # fmt: skip
    assert any("convergence" in line for line in lines)


def test_measured_costs_are_those_that_were_seen(tmp_path):
    task = FunctionTask(runs.smooth, runs.fields(40, 17), (9, 17), "measured", name="tiny")
    with runs.create(tmp_path / "run", task=task) as run:
        for query, seconds in zip(run.ask(6), (9.0, 2.0, 3.0, 9.0, 80.0, 100.0), strict=True):
            runs.answer(run, [query], seconds=seconds)
        console = Console(file=io.StringIO(), width=80)
        console.print(run_table(run.state, run.path))
    assert ["cost of one", "2.5", "90"] in cells(console)


def test_everything_fits_eighty_columns(tmp_path):
    """Meshes with long names, small and large prices, and simulations that ended in every way."""
    shapes = ((64, 64, 64), (96, 96, 96), (128, 128, 128), (160, 160, 160))
    with runs.create(tmp_path / "run") as run:
        queries = run.ask(6)
        run.fail(queries[0].id, "no convergence of the pressure, " * 5)
        run.abandon(queries[1].id, "no steady state")
        runs.answer(run, queries[2:4])
        state = run.state
    state.task["resolutions"] = [list(shape) for shape in shapes]
    state.task["costs"] = [0.000123456, 1.5, 1234567.0, 1e300]
    state.given = (1, 1)
    console = Console(file=io.StringIO(), width=80)
    console.print(run_table(state, tmp_path))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "\u2026" not in text
    assert ["Simulations", *("x".join(map(str, shape)) for shape in shapes)] in cells(console)
    assert ["cost of one", "0.000123456", "1.5", "1.23457e+06", "1e+300"] in cells(console)


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
