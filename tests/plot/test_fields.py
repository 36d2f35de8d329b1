"""Figures of functions hold the numbers they are given."""

import numpy as np
import pytest

from mrafno.grids import Grid
from mrafno.plot.fields import prediction_figure, task_figure
from mrafno.tasks import FunctionTask, get_task


def solved(task):
    f = task.sample(1)
    return f, [task.solve(task.restrict(f, level), level) for level in range(task.levels)]


def test_maps_of_a_problem_in_two_dimensions():
    task = get_task("darcy3", resolutions=((4, 4), (6, 6), (8, 8)))
    f, outputs = solved(task)
    figure = task_figure(task, f[0], [y[0] for y in outputs])
    assert [trace.z.shape for trace in figure.data] == [(8, 8), (4, 4), (6, 6), (8, 8), (4, 4)]
    # The vertical axis of a map is the second of the grid.
    np.testing.assert_array_equal(figure.data[3].z, outputs[2][0, 0].T)
    assert len({(trace.zmin, trace.zmax) for trace in figure.data[1:4]}) == 1
    assert figure.data[4].zmin == -figure.data[4].zmax


@pytest.mark.parametrize("sizes", [(17,), (9, 17), (5, 9, 17), (3, 5, 9, 17)])
def test_curves_of_a_problem_in_one_dimension(sizes):
    task = FunctionTask(lambda f, level: f + level, np.ones((2, 17)), sizes, range(1, len(sizes) + 1))
    f, outputs = solved(task)
    figure = task_figure(task, f[0], [y[0] for y in outputs])
    assert [len(trace.y) for trace in figure.data] == [17, *reversed(sizes), sizes[0]]
    np.testing.assert_allclose(figure.data[-1].y, 1 - len(sizes))


def test_a_prediction_in_one_dimension():
    grid, rng = Grid((9,), ("nodes",)), np.random.default_rng(0)
    f, truth, mean, std = rng.uniform(size=(4, 9))
    figure = prediction_figure(grid, f, truth, mean, std, ["x"])
    np.testing.assert_allclose(figure.data[1].y, [*(mean + 1.645 * std), *(mean - 1.645 * std)[::-1]])
    for trace, values in zip(figure.data[3:], (truth, mean, mean - truth), strict=True):
        np.testing.assert_array_equal(trace.y, values)


def test_a_prediction_in_two_dimensions():
    grid, rng = Grid((4, 6), ("cells", "cells")), np.random.default_rng(0)
    f, truth, mean, std = rng.uniform(size=(4, 4, 6))
    figure = prediction_figure(grid, f, truth, mean, std, ["x", "t"])
    for trace, values in zip(figure.data, (f, truth, mean, mean - truth, std), strict=True):
        np.testing.assert_array_equal(trace.z, values.T)
    assert (figure.data[1].zmin, figure.data[1].zmax) == (figure.data[2].zmin, figure.data[2].zmax)
    assert figure.data[3].zmin == -figure.data[3].zmax == -np.abs(mean - truth).max()
