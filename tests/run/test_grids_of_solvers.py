"""Runs on the grids that solvers have: every layout, domains with lengths and units, points anywhere, fewer axes."""

import json
import warnings
from dataclasses import asdict

import h5py
import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.export import export_hdf5
from mrafno.grids import Grid
from mrafno.plot.axes import Axes
from mrafno.run import Run
from mrafno.run.reader import RunReader
from mrafno.surrogate import Surrogate
from mrafno.tasks import Diffusion, FunctionTask
from mrafno.tasks.stored import check_same_task, task_as_json, task_from_json
from mrafno.tasks.table import TableTask
from tests import runs

#: Denser towards both ends.
WALL = [(1 - np.cos(np.pi * np.linspace(0, 1, n))) * 1.5 for n in (9, 17)]
GRIDS = {
    "left": {"layout": "left", "extent": [(0, 1)]},
    "periodic-cells": {"layout": "periodic-cells", "extent": [(-2, 3)], "axis_names": ["s"], "axis_units": ["mm"]},
    "points": {"coordinates": [WALL], "axis_units": ["m"]},
}


def smooth(f, level):
    return np.tanh(f)


def task_on(name):
    return FunctionTask(smooth, runs.fields(30, 17), (9, 17), (1, 5), name=name, **GRIDS[name])


@pytest.mark.parametrize("name", GRIDS)
def test_a_run_on_every_grid(tmp_path, name):
    task = task_on(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with runs.create(tmp_path / "run", "mra-auto", task, iterations=5, pool=15) as run:
            run.advance(steps=2)
    reader = RunReader(tmp_path / "run")
    assert reader.grids == task.grids
    assert reader.task.grids == task.grids
    surrogate = Surrogate.load(tmp_path / "run")
    assert surrogate.domain == task.domain
    f = task.sample(2)
    np.testing.assert_array_equal(reader.predict(f, 1).mean, surrogate.predict(f).mean)
    assert surrogate.predict(np.ones((1, 1, 33))).mean.shape == (1, 1, 33)
    export_hdf5(reader, tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5") as file:
        points = file["level-1"][f"{task.axis_names[0]}-coordinate"][:]
    np.testing.assert_array_equal(points, task.grids[1].coordinates[0])
    table = TableTask.load(tmp_path / "all.h5")
    assert (table.grids, table.axis_units) == (task.grids, task.axis_units)
    axes = Axes.of(reader.state.task, reader.grids[1])
    np.testing.assert_array_equal(axes.shown[0], points)
    assert axes.labels == ["x" if name == "left" else "s (mm)" if name == "periodic-cells" else "x (m)"]
    with Run.open(tmp_path / "run", task_on(name), write=False) as run:
        assert run.surrogate.fits == surrogate.fits


def test_points_anywhere_are_restricted_and_told_apart():
    task = task_on("points")
    line = 3 * task.grids[1].coordinates[0] - 1
    np.testing.assert_allclose(task.restrict(line[None, None], 0)[0, 0], 3 * WALL[0] - 1, atol=1e-12)
    moved = FunctionTask(
        smooth, runs.fields(30, 17), (9, 17), (1, 5), name="points", coordinates=[[x**1.1 for x in WALL]],
        extent=[(0, 4)], axis_units=["m"],
    )  # fmt: skip
    with pytest.raises(TaskError, match="different: extent, points"):
        check_same_task(moved, json.loads(json.dumps(task_as_json(task))))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"extent": [(0, 1), (0, 1)]}, "for each of 1 axes"),
        ({"extent": [3]}, r"extent must be a \(start, end\) for each axis"),
        ({"coordinates": [[WALL[0]]]}, "needs coordinates for each of 2 levels"),
        ({"coordinates": [WALL, None]}, "one entry for each of 1 axes"),
        ({"coordinates": [[WALL[1], WALL[0]]]}, "axis 0 needs 9 coordinates in increasing order"),
        ({"layout": "points"}, "needs coordinates"),
        ({"axis_names": "x y"}, "axis_names must be one text for each of 1 axes"),
        ({"input_axes": [1]}, "input_axes"),
    ],
)
def test_wrong_grids_are_refused(settings, message):
    with pytest.raises(TaskError, match=message):
        FunctionTask(smooth, runs.fields(30, 17), (9, 17), (1, 5), **settings)


# Inputs with fewer axes than outputs.

SPACE_TIME = {"resolutions": ((9, 5), (17, 9)), "costs": (1, 6), "input_axes": (0,), "axis_names": ("x", "t")}


def trajectory(f, level):
    """What decays from f: (1, nx) to (1, nx, nt)."""
    assert f.shape == (1, SPACE_TIME["resolutions"][level][0])
    return f[..., None] * np.exp(-3 * np.linspace(0, 1, SPACE_TIME["resolutions"][level][1]))


def test_inputs_with_fewer_axes_are_repeated_along_the_others():
    candidates = runs.fields(20, 17)
    task = FunctionTask(trajectory, candidates, **SPACE_TIME)
    f = task.sample(3)
    assert f.shape == (3, 1, 17, 9)
    assert (f == f[..., :1]).all()
    y = task.solve(task.restrict(f, 0), 0)
    np.testing.assert_allclose(y[..., 0], f[..., ::2, 0], atol=1e-12)
    np.testing.assert_array_equal(task.repeat(task.unrepeat(f)), f)
    f[1, 0, 3, 4] += 1.0
    with pytest.raises(TaskError, match=r"inputs must be constant along t, but input 1 changes by 1\. .*task.repeat"):
        task.solve(f, 1)


def test_parameters_and_functions_with_fewer_axes():
    def scaled(f, level, parameters):
        return trajectory(f, level) * parameters[0]

    task = FunctionTask(scaled, runs.fields(20, 17), **SPACE_TIME, parameters=np.arange(1.0, 21.0)[:, None])
    f = task.sample(2)
    functions, values = task.split(f)
    np.testing.assert_allclose(task.solve(f, 1)[..., 0], values[:, :, None] * functions[..., 0])


def test_a_stored_task_keeps_its_axes():
    task = FunctionTask(trajectory, runs.fields(20, 17), **SPACE_TIME, axis_units=("m", "s"))
    again = task_from_json(json.loads(json.dumps(task_as_json(task))), task.sample(20))
    assert (again.input_axes, again.axis_names, again.axis_units) == ((0,), ("x", "t"), ("m", "s"))
    assert again.domain == task.domain
    assert asdict(again.grids[0]) == asdict(task.grids[0])


def test_diffusion_is_repeated_by_the_same_code():
    task = Diffusion(resolutions=((8, 6), (16, 12)))
    f = task.sample(2)
    assert task.unrepeat(f).shape == (2, 1, 16)
    assert Grid((8, 6), ("nodes", "nodes")) == task.grids[0]
