"""Runs of simulators with parameters, from the first query to predictions, files and exports."""

import json
import tracemalloc

import h5py
import numpy as np
import onnxruntime
import pytest

from mrafno.errors import TaskError
from mrafno.export import export_hdf5, export_onnx
from mrafno.run import Run
from mrafno.run.inputs import as_stored, inputs_of
from mrafno.run.reader import RunReader
from mrafno.surrogate import Surrogate
from mrafno.tasks import FunctionTask
from mrafno.tasks.rows import DrawnRows
from mrafno.tasks.table import TableTask
from tests import runs
from tests.cli.conftest import mrafno

RNG = np.random.default_rng(0)
VALUES = {"nu": 10.0 ** RNG.uniform(-2, 1, 30), "shift": RNG.uniform(-1, 1, 30)}


def decay(f, level, parameters):
    nu, shift = parameters
    return f * np.exp(-nu) + shift + 0.1 * (1 - level)


def profile(parameters, level):
    nu, shift = parameters
    return np.tanh(np.linspace(-1, 1, (9, 17)[level]) / nu) + shift


def both():
    return FunctionTask(decay, runs.fields(30, 17), (9, 17), (1, 5), name="both", parameters=VALUES)


def only():
    return FunctionTask(profile, resolutions=(9, 17), costs=(1, 5), name="only", parameters=VALUES)


@pytest.fixture(scope="module", params=[both, only], ids=["both", "only"])
def made(request, tmp_path_factory):
    """A run with two chosen examples, and the function that makes its task."""
    folder = tmp_path_factory.mktemp("parameters") / "run"
    with runs.create(folder, "mra-auto", request.param(), iterations=20, pool=20) as run:
        run.advance(steps=2)
    return folder, request.param


def test_queries_and_examples_have_their_parameters(made):
    folder, make = made
    pairs = set(zip(*VALUES.values(), strict=True))
    with Run.open(folder, make(), write=False) as run:
        channels = run.task.domain.function_channels
        for record in run.state.queries.values():
            query = run.query(record)
            assert list(query.parameters) == ["nu", "shift"]
            assert tuple(query.parameters.values()) in pairs
            assert query.functions.shape == (channels, *run.task.resolutions[query.level])
        assert run.surrogate.normaliser.in_log == (*[False] * channels, True, False)
    reader = RunReader(folder)
    assert (reader.task.parameters, reader.task.log_parameters) == (("nu", "shift"), ("nu",))
    parameters = reader.split(reader.input(record))[1]
    assert parameters == query.parameters


def test_another_order_of_parameters_is_another_task(made):
    folder, make = made
    task = make()
    task.parameters = task.parameters[::-1]
    with pytest.raises(TaskError, match="different: parameter_names"):
        Run.open(folder, task, write=False)


def test_predictions_take_parameters_in_every_form(made):
    folder, make = made
    surrogate, task = Surrogate.load(folder), make()
    f = task.sample(3)
    functions, values = task.split(f)
    given = functions if functions.shape[1] else None
    expected = surrogate.predict(f)
    assert expected.std.shape == (3, 1, 17)
    for parameters in (values, dict(zip(task.parameters, values.T, strict=True))):
        found = surrogate.predict(given, parameters=parameters)
        np.testing.assert_array_equal(found.mean, expected.mean)
        np.testing.assert_array_equal(found.std, expected.std)
    assert not np.allclose(surrogate.predict(given, parameters=[0.5, 0.0]).mean, expected.mean)


def test_predictions_from_the_shell(made, tmp_path):
    folder, make = made
    f = make().sample(1)
    functions, [values] = make().split(f)
    files = [str(tmp_path / "f.npy")] if functions.shape[1] else []
    np.save(tmp_path / "f.npy", functions)
    np.save(tmp_path / "p.npy", values[None])
    expected = Surrogate.load(folder).predict(f).mean
    by_name = [word for name, value in zip(VALUES, values, strict=True) for word in ("-p", f"{name}={float(value)!r}")]
    for words in (by_name, ["--parameters", str(tmp_path / "p.npy")]):
        assert mrafno("predict", folder, *files, *words, "--out", tmp_path / "out.npz").exit_code == 0
        with np.load(tmp_path / "out.npz") as out:
            np.testing.assert_array_equal(out["mean"], expected)
    done = mrafno("predict", folder, *files, "-p", "nu=1")
    assert (done.exit_code, "the parameter shift is missing" in done.stderr) == (1, True)


def test_asking_gives_a_person_functions_as_a_file_and_parameters_by_name(tmp_path):
    with runs.create(tmp_path / "both", task=both()), runs.create(tmp_path / "only", task=only()):
        pass
    for name in ("both", "only"):
        [query] = json.loads(mrafno("ask", tmp_path / name, "-n", "1").stdout)
        with Run.open(tmp_path / name, write=False) as run:
            [record] = run.state.queries.values()
            assert query["parameters"] == run.query(record).parameters
            if name == "both":
                np.testing.assert_array_equal(np.load(query["input"]), run.query(record).functions)
            else:
                assert query["input"] is None


def test_parameters_in_hdf5(made, tmp_path):
    folder = made[0]
    reader = RunReader(folder)
    export_hdf5(reader, tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5") as file:
        group = file["level-0"]
        assert list(group["parameters"].attrs["names"]) == ["nu", "shift"]
        for row, id in enumerate(group["query"].asstr()[:]):
            functions, parameters = reader.split(reader.input(reader.state.queries[id]))
            assert group["parameters"][row].tolist() == list(parameters.values())
            if len(functions):
                np.testing.assert_array_equal(group["nu"][row], functions[0])
        assert ("nu" in group) == bool(len(functions))


def test_an_exported_surrogate_takes_parameters_as_constant_channels(made, tmp_path):
    folder, make = made
    surrogate, f = Surrogate.load(folder), make().sample(4).astype(np.float32)
    export_onnx(surrogate, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    mean, std = session.run(["mean", "std"], {"f": f})
    expected = surrogate.predict(f)
    np.testing.assert_allclose(mean, expected.mean, atol=1e-5 * np.abs(expected.mean).max())
    np.testing.assert_allclose(std, expected.std, rtol=1e-4)


def test_earlier_examples_may_have_their_parameters_beside_them(tmp_path):
    for name, make in (("both", both), ("only", only)):
        task = make()
        f = task.restrict(task.sample(3), 0)
        functions, values = task.split(f)
        examples = {"parameters_0": values, "output_0": task.solve(f, 0), "input_0": functions}
        if not functions.shape[1]:
            del examples["input_0"]
        with runs.create(tmp_path / name, task=task, examples=examples) as run:
            np.testing.assert_array_equal(run.inputs.imported[0], f)


def test_a_run_from_the_table_of_a_run(made, tmp_path):
    folder, make = made
    export_hdf5(RunReader(folder), tmp_path / "all.h5")
    table, task = TableTask.load(tmp_path / "all.h5"), make()
    assert (table.parameters, table.log_parameters, table.domain) == (task.parameters, task.log_parameters, task.domain)
    reader = RunReader(folder)
    query = next(q for q in reader.state.of_kind("initial", "told") if q.level == 1)
    f = reader.input(query)[None]
    np.testing.assert_array_equal(table.solve(f, 1)[0], reader.output(query))


CUBE = (32, 32, 32)


def cube(n):
    """n inputs of two parameters each on a grid of 32,768 points."""
    values = np.random.default_rng(1).uniform(1, 2, (n, 2))
    shapes = ((4, 4, 4), CUBE)
    return FunctionTask(
        lambda p, level: np.full(shapes[level], p[0]), parameters=values, resolutions=shapes, costs=(1, 9)
    )


def test_a_pool_of_parameters_takes_memory_for_the_numbers_only(tmp_path):
    """On the whole grid the inputs would take 262 MB; one block of them is in memory at a time."""
    n, whole = 500, 500 * 2 * 32**3 * 8
    tracemalloc.start()
    task = cube(n)
    constructed = tracemalloc.get_traced_memory()[1]
    with runs.create(tmp_path / "run", "mra-auto", task, iterations=2, pool=None, initial=2, test=2) as run:
        run.advance(steps=1)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        pool, scored = run.inputs.pool, run.chooser._scored()
        assert len(pool) == n - 6
    assert constructed < 1_000_000
    assert peak < whole / 2
    assert pool.values.nbytes == (n - 6) * 2 * 8
    assert sum(part.values.nbytes for part in scored.parts if not isinstance(part, np.ndarray)) == (n - 6) * 2 * 8
    assert (tmp_path / "run" / "arrays" / "inputs.npy").stat().st_size < 10_000
    with Run.open(tmp_path / "run", task, write=False) as again:
        np.testing.assert_array_equal(again.inputs.pool[[3, 400]], pool[[3, 400]])
        assert again.inputs.pool.values.nbytes == (n - 6) * 2 * 8


def test_functions_and_parameters_of_a_large_pool_are_not_copied_together(monkeypatch):
    small = both()
    monkeypatch.setattr("mrafno.tasks.candidates._MOST_NUMBERS", 10)
    large = both()
    assert isinstance(large.inputs, DrawnRows)
    assert (large.digest.sha256, large.log_parameters) == (small.digest.sha256, small.log_parameters)
    np.testing.assert_array_equal(large.sample(30, seed=4), small.sample(30, seed=4))


def test_parameters_are_added_to_a_pool_and_read_from_another_versions_file(tmp_path):
    task, more = only(), only().join(None, {"nu": [0.3, 0.4], "shift": [5.0, 6.0]})
    with runs.create(tmp_path / "run", task=task, pool=None) as run:
        n = len(run.inputs.pool)
        run.add_candidates(more)
        np.testing.assert_array_equal(run.inputs.pool[n:], more)
        before, [added] = run.inputs.pool[:], run.state.added
        assert added.shape == (2, 2, 1)
    with Run.open(tmp_path / "run", only()) as run:
        np.testing.assert_array_equal(run.inputs.pool[:], before)
    # Earlier versions wrote inputs on the whole grid.
    with runs.create(tmp_path / "old", task=task, pool=None) as run:
        state, ledger = run.state, run.ledger
        whole = ledger.write_array("inputs", np.asarray(run.session.store.drawn()))
        state.inputs = whole
        found = inputs_of(ledger, state, task)
        np.testing.assert_array_equal(found.pool[:], before[:n])
    with pytest.raises(TaskError, match="nu of input 1 is a parameter, but changes over the grid"):
        as_stored(np.stack([more[0], more[1] + np.linspace(0, 1, 17)]), task)
