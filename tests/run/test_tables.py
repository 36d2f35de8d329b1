"""Runs on tables: nothing that is lacking is asked for, tests are kept apart, methods are compared, files resume."""

import numpy as np
import pytest
from typer.testing import CliRunner

from mrafno.cli import app
from mrafno.errors import RunError
from mrafno.export.hdf5 import export_hdf5
from mrafno.run import Run
from mrafno.run.reader import RunReader
from mrafno.tasks import TableTask
from tests import runs
from tests.tasks.test_table import INPUTS, N, solved, table

pytestmark = pytest.mark.usefixtures("quick")


FINE = np.random.default_rng(0).permutation(N)[:14]


def lacking():
    """A table in which two thirds of the rows lack one of the two levels."""
    coarse = np.setdiff1d(np.arange(N), FINE[:6])
    return table(outputs=[solved(0)[coarse], solved(1)[FINE]], rows=[coarse, FINE])


@pytest.mark.parametrize("method", ["mra-auto", "mra-u", "mr-predvar", "coreset-mix", "random-mix", "random-high"])
def test_nothing_that_is_lacking_is_asked_for_and_the_pool_is_used_up(tmp_path, method):
    task = lacking()
    settings = {"pool": None, "refit_growth": 5.0, "evaluate": 99}
    with runs.create(tmp_path / "run", method, task, **settings) as run:
        outcome = run.advance()
        assert outcome.reason == "asked for the whole pool"
        assert not [q for q in run.state.queries.values() if q.status != "told"]
        pool, available = run.inputs.pool, run.inputs.available
        asked = run.state.of_kind("pool")
        assert all(available[q.row, q.level] for q in asked)
        if method == "random-high":
            assert {q.row for q in asked} == set(np.flatnonzero(available[:, 1]))
        else:
            assert len({q.row for q in asked}) == len(pool)
        assert len(pool) + 6 + 4 <= N
        for query in run.state.queries.values():
            f, y = run.recorder.example(query)
            np.testing.assert_allclose(y[None], solved_at(f[None], query.level), atol=1e-12)


def solved_at(f, level):
    return runs.tiny(n=1).solve(f, level)


def test_marked_rows_are_for_tests_only(tmp_path):
    marked = FINE[:6]
    task = table(outputs=[solved(0), solved(1)], test=marked)
    with runs.create(tmp_path / "run", task=task) as run:  # four test examples
        np.testing.assert_array_equal(run.inputs.test, INPUTS[marked[:4]])
        others = {row.tobytes() for row in np.concatenate([np.asarray(run.inputs.pool), run.inputs.initial])}
        assert not others & {row.tobytes() for row in INPUTS[marked]}
    with pytest.raises(RunError, match="there are 6 rows for tests, test=7 asks for more"):
        runs.create(tmp_path / "other", task=task, test=7)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"initial": 12}, "too few rows with an output on level 1 for 12 initial examples"),
        ({"initial": 3, "test": 15}, "there are 14 rows for tests"),
    ],
)
def test_too_small_a_table_is_told_so(tmp_path, settings, told):
    with pytest.raises(RunError, match=told):
        runs.create(tmp_path / "run", task=lacking(), **settings)
    assert not (tmp_path / "run").exists()


def test_what_is_lacking_is_known_without_the_table(tmp_path):
    """Whoever opens the run without its task chooses as if it were there."""
    with runs.create(tmp_path / "run", "mra-u", lacking(), pool=None) as run:
        run.advance(steps=1)
        mask = run.inputs.available
    with Run.open(tmp_path / "run") as run:
        np.testing.assert_array_equal(run.inputs.available, mask)
        for query in run.ask(5):
            assert mask[query.candidate, query.level]


def test_a_table_takes_no_further_candidates(tmp_path):
    with runs.create(tmp_path / "run", task=table()) as run, pytest.raises(RunError, match="table is a table"):
        run.add_candidates(INPUTS + 1)


def test_all_methods_are_compared_on_a_table(tmp_path):
    chosen = {}
    for method in ("random-low", "coreset-low"):
        with runs.create(tmp_path / method, method, table()) as run:
            run.advance(steps=2)
            chosen[method] = run.inputs.initial, run.inputs.test
    np.testing.assert_array_equal(*(first for first, _ in chosen.values()))
    result = CliRunner().invoke(app, ["compare", *(str(tmp_path / name) for name in chosen)])
    assert result.exit_code == 0, result.output


def test_what_a_run_has_exported_is_a_table(tmp_path):
    with runs.ready(tmp_path / "run", "random-mix") as run:
        run.advance(steps=6)
    export_hdf5(RunReader(tmp_path / "run"), tmp_path / "run.h5")
    task = TableTask.load(tmp_path / "run.h5")
    state = RunReader(tmp_path / "run").state
    assert task.available.sum() == len(state.queries)
    assert (task.name, task.costs, len(task.test_rows)) == ("tiny", runs.COSTS, 4)
    reader = RunReader(tmp_path / "run")
    for query in state.queries.values():
        np.testing.assert_array_equal(task.solve(reader.input(query)[None], query.level)[0], reader.output(query))
    with runs.create(tmp_path / "again", "random-mix", task, initial=2) as run:
        run.advance()
        assert not [q for q in run.state.queries.values() if q.status != "told"]


def test_the_command_line_runs_and_resumes_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("rods.npz", inputs=INPUTS, output_0=solved(0), output_1=solved(1), costs=[1.0, 5.0])
    quick = [f"{name}={value}" for name, value in runs.SETTINGS.items()]
    words = ["run", "rods.npz", "--out", "run", "--steps", "2", *(w for one in quick for w in ("--setting", one))]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["resume", "run", "--steps", "4"])
    assert result.exit_code == 0, result.output
    assert RunReader("run").state.step == 4
    np.savez("rods.npz", inputs=INPUTS[:29], output_0=solved(0)[:29], output_1=solved(1)[:29], costs=[1.0, 5.0])
    result = CliRunner().invoke(app, ["resume", "run", "--steps", "6"])
    assert result.exit_code == 1
    assert "29 inputs instead of 30" in " ".join(result.output.split())
