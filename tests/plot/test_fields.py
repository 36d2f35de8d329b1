"""Figures of functions hold the numbers they are given."""

import numpy as np
import pytest

from mrafno.grids import Grid
from mrafno.plot.axes import Axes
from mrafno.plot.fields import example_figures, prediction_figure, task_figure
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
    np.testing.assert_allclose(figure.data[3].z, outputs[2][0, 0].T, rtol=1e-6)
    assert len({(trace.zmin, trace.zmax) for trace in figure.data[1:4]}) == 1
    assert figure.data[4].zmin == -figure.data[4].zmax


@pytest.mark.parametrize("sizes", [(17,), (9, 17), (5, 9, 17), (3, 5, 9, 17)])
def test_curves_of_a_problem_in_one_dimension(sizes):
    task = FunctionTask(lambda f, level: f + level, np.ones((2, 17)), sizes, range(1, len(sizes) + 1))
    f, outputs = solved(task)
    figure = task_figure(task, f[0], [y[0] for y in outputs])
    assert [len(trace.y) for trace in figure.data] == [17, *reversed(sizes), sizes[0]]
    np.testing.assert_allclose(figure.data[-1].y, 1 - len(sizes))


def test_a_trajectory_has_a_slider_through_its_channels():
    task = get_task("navier-stokes", resolutions=((8, 8), (16, 16)), frames=3, final_time=0.5)
    f, outputs = solved(task)
    figure = task_figure(task, f[0], [y[0] for y in outputs])
    assert [step.label for step in figure.layout.sliders[0].steps] == [f"channel {i} of 3" for i in (1, 2, 3)]
    np.testing.assert_allclose(figure.data[1].z, f[0, 1].T, rtol=1e-6)
    np.testing.assert_allclose(figure.data[-4].z, outputs[-1][0, 2].T, rtol=1e-6)


def test_a_prediction_in_one_dimension():
    axes, rng = Axes(Grid((9,), ("nodes",)), ["x"]), np.random.default_rng(0)
    f, truth, mean, std = rng.uniform(size=(4, 1, 9))
    figure = prediction_figure(axes, f, truth, mean, std)
    source, exact, band, centre, _, zero, error = figure.data
    np.testing.assert_allclose(band.y, [*(mean + 1.645 * std)[0], *(mean - 1.645 * std)[0, ::-1]])
    for trace, values in zip(
        (source, exact, centre, zero, error), (f, truth, mean, 0 * mean, mean - truth), strict=True
    ):
        np.testing.assert_array_equal(trace.y, values[0])
    assert figure.layout.xaxis.title.text == "x"


def test_a_prediction_in_two_dimensions():
    axes, rng = Axes(Grid((4, 6), ("cells", "cells")), ["x", "t"], ["m", "s"]), np.random.default_rng(0)
    f, truth, mean, std = rng.uniform(size=(4, 1, 4, 6))
    figure = prediction_figure(axes, f, truth, mean, std)
    for trace, values in zip(figure.data, (f, truth, mean, mean - truth, std), strict=True):
        np.testing.assert_allclose(trace.z, values[0].T, rtol=1e-6)
    assert (figure.data[1].zmin, figure.data[1].zmax) == (figure.data[2].zmin, figure.data[2].zmax)
    assert figure.data[3].zmin == -figure.data[3].zmax == -np.abs(mean - truth).max()
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("x (m)", "t (s)")


def test_figures_of_what_is_known_of_an_example():
    axes = Axes(Grid((4, 6, 3), ("cells",) * 3))
    f = np.random.default_rng(0).uniform(size=(1, 4, 6, 3))
    figures, labels, start = example_figures(axes, f)
    assert [title for title, _ in figures] == ["input"]
    assert labels == ["z = 0.167", "z = 0.5", "z = 0.833"]
    assert [trace.visible for trace in figures[0][1].data] == [False, True, False]
    np.testing.assert_allclose(figures[0][1].data[start].z, f[0, :, :, 1].T, rtol=1e-6)
