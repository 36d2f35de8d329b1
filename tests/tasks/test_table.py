"""Tables of simulations: what is looked up, what is lacking, and which files are read."""

import h5py
import numpy as np
import pytest

from mrafno.errors import SimulationError, TaskError
from mrafno.tasks import TableTask
from mrafno.tasks.rows import Hdf5Rows
from tests import runs

N = 30
INPUTS = runs.fields(N, 17)[:, None]
SOLVER = runs.tiny(n=1)


def solved(level, inputs=INPUTS):
    task = runs.tiny(n=1)
    return task.solve(task.restrict(inputs, level), level)


def table(**changes):
    arguments = {"inputs": INPUTS, "outputs": [solved(0), solved(1)], "costs": (1, 5), **changes}
    return TableTask(arguments.pop("inputs"), arguments.pop("outputs"), arguments.pop("costs"), **arguments)


def test_outputs_are_looked_up_wherever_the_rows_stand():
    task = table()
    assert (task.resolutions, task.levels, task.available.all()) == (((9,), (17,)), 2, True)
    f = task.sample(N, seed=3)
    for level in (0, 1):
        found = task.solve(task.restrict(f, level), level)
        np.testing.assert_allclose(found, solved(level, f), rtol=1e-12, atol=1e-12)
    with pytest.raises(SimulationError, match="the table has no output of this input on level 1"):
        task.solve(f[:1] + 1, 1)


@pytest.mark.parametrize("form", ["nan", "rows"])
def test_a_level_may_lack_rows(form):
    some = np.array([4, 1, 20, 7])
    if form == "rows":
        task = table(outputs=[solved(0), solved(1)[some]], rows=[None, some])
    else:
        fine = np.full((N, 1, 17), np.nan)
        fine[some] = solved(1)[some]
        task = table(outputs=[solved(0), fine])
    np.testing.assert_array_equal(np.flatnonzero(task.available[:, 1]), np.sort(some))
    np.testing.assert_array_equal(task.solve(INPUTS[some], 1), solved(1)[some])
    with pytest.raises(SimulationError, match="no output of this input on level 1"):
        task.solve(INPUTS[:1], 1)


def test_each_level_may_have_inputs_of_its_own():
    coarse, fine = INPUTS[:20, :, ::2], INPUTS[20:]
    task = TableTask([coarse, fine], [solved(0)[:20], solved(1)[20:]], (1, 5))
    assert len(task.inputs) == N
    np.testing.assert_array_equal(task.available.sum(axis=0), [20, 10])
    # Inputs are asked for as they stand in the table, not interpolated there and back.
    np.testing.assert_array_equal(task.restrict(task.inputs[:20], 0), coarse)
    np.testing.assert_array_equal(task.solve(coarse, 0), solved(0)[:20])
    np.testing.assert_array_equal(task.solve(task.restrict(task.inputs[20:], 1), 1), solved(1)[20:])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"costs": None}, "costs are missing"),
        ({"outputs": []}, "there are no outputs"),
        ({"outputs": [solved(0), solved(1)[:9]]}, "level 1 has 9 outputs for 30 inputs. Say with rows"),
        ({"outputs": [solved(0), solved(1)[:3]], "rows": [None, [1, 2, 30]]}, "3 different numbers from 0 to 29"),
        ({"outputs": [solved(0), solved(1)[:3]], "rows": [None, [1, 2, 2]]}, "3 different numbers"),
        ({"outputs": [solved(0)[:, 0], solved(1)[:, 0]]}, r"Give \(n, out_channels, \*grid\)"),
        ({"outputs": [solved(0), np.full((N, 1, 17), np.nan)]}, "level 1 has no outputs at all"),
        ({"test": [99]}, "test must be numbers of rows, 0 to 29"),
        ({"inputs": lambda n, seed: INPUTS}, "an array, not a function"),
        ({"inputs": INPUTS[:, :, :16]}, "do not match the finest resolution"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(change, told):
    with pytest.raises(TaskError, match=told):
        table(**change)


def test_an_output_with_some_nan_is_named():
    fine = solved(1).copy()
    fine[11, 0, 3] = np.inf
    with pytest.raises(TaskError, match="the output of row 11 on level 1 is NaN or infinite in some points"):
        table(outputs=[solved(0), fine])


def test_changed_outputs_are_described():
    assert table().describe_simulator() == table().describe_simulator()
    assert table().describe_simulator() != table(outputs=[solved(0), 5 * solved(1)]).describe_simulator()


# Files.


def test_npz_with_rows_and_costs(tmp_path):
    some = np.array([2, 9, 4])
    np.savez(
        tmp_path / "rods.npz", inputs=INPUTS, output_0=solved(0), output_1=solved(1)[some], rows_1=some,
        costs=[1.0, 7.0], test=[9],
    )  # fmt: skip
    task = TableTask.load(tmp_path / "rods.npz")
    assert (task.name, task.costs, task.test_rows.tolist()) == ("rods", (1.0, 7.0), [9])
    np.testing.assert_array_equal(task.solve(INPUTS[some], 1), solved(1)[some])


def test_npz_with_pairs_of_each_level(tmp_path):
    pairs = {"input_0": INPUTS[:20, :, ::2], "output_0": solved(0)[:20], "cost_0": np.full(20, 2.0)}
    np.savez(tmp_path / "t.npz", **pairs, input_1=INPUTS[20:], output_1=solved(1)[20:], cost_1=np.full(10, 9.0))
    task = TableTask.load(tmp_path / "t.npz", name="mine")
    assert (task.name, task.costs, len(task.inputs)) == ("mine", (2.0, 9.0), N)


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"inputs": INPUTS, "outputs": INPUTS}, "unknown name 'outputs'"),
        ({"inputs": INPUTS, "output_1": solved(1)}, "unknown name 'output_1'|output_0 is missing"),
        ({"output_0": solved(0)}, "the inputs are missing"),
    ],
)
def test_npz_with_other_names_is_refused(tmp_path, arrays, told):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(TaskError, match=told):
        TableTask.load(tmp_path / "t.npz")


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "t.npz").write_bytes(b"text")
    (tmp_path / "t.h5").write_bytes(b"text")
    (tmp_path / "t.txt").write_bytes(b"text")
    for name, told in (("t.npz", "no .npz file"), ("t.h5", "no HDF5 file"), ("t.txt", "ends in"), ("u.h5", "no such")):
        with pytest.raises(TaskError, match=told):
            TableTask.load(tmp_path / name)


def pdebench(path, points=16, n=6, times=4, nu=False, dim=1):
    rng = np.random.default_rng(points)
    with h5py.File(path, "w") as file:
        file["tensor"] = rng.standard_normal((n, times, *[points] * dim)).astype(np.float32)
        for axis in "xy"[:dim]:
            file[f"{axis}-coordinate"] = (np.arange(points) + 0.5) / points
        if nu:
            file["nu"] = rng.standard_normal((n, *[points] * dim)).astype(np.float32)
    return path


def test_pdebench_file_with_times(tmp_path):
    """Without a coefficient the first time is the input, and the last one the output."""
    path = pdebench(tmp_path / "1D_Burgers.hdf5")
    task = TableTask.load(path)
    assert isinstance(task.inputs, Hdf5Rows)
    with h5py.File(path) as file:
        tensor = file["tensor"][:].astype(float)
    assert (task.layout, task.costs, task.resolutions) == (("cells",), (1.0,), ((16,),))
    np.testing.assert_array_equal(task.inputs[:], tensor[:, :1])
    np.testing.assert_array_equal(task.solve(tensor[[4, 2], :1], 0), tensor[[4, 2], 3:])


def test_pdebench_files_with_a_coefficient_one_per_level(tmp_path):
    files = [pdebench(tmp_path / f"{n}.hdf5", n, times=1, nu=True, dim=2) for n in (8, 16)]
    with pytest.raises(TaskError, match="costs are missing"):
        TableTask.load(files)
    task = TableTask.load(files, costs=(1, 4))
    assert (task.resolutions, task.available.all()) == (((8, 8), (16, 16)), True)
    with h5py.File(files[0]) as coarse, h5py.File(files[1]) as fine:
        f = fine["nu"][[3]][:, None].astype(float)
        np.testing.assert_array_equal(task.solve(f, 1), fine["tensor"][[3]])
        np.testing.assert_array_equal(task.solve(task.restrict(f, 0), 0), coarse["tensor"][[3]])


def test_hdf5_without_a_tensor_is_refused_with_what_it_has(tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["density"] = np.zeros((3, 4))
    with pytest.raises(TaskError, match=r"no dataset tensor .* it has density"):
        TableTask.load(tmp_path / "t.h5")
