"""Error fields of several methods share one scale."""

import numpy as np

from mrafno.grids import Grid
from mrafno.plot.axes import Axes
from mrafno.plot.error_fields import error_fields_figure

METHODS = {"mra-u": "mra-u", "random-mix": "random-mix"}
TITLES = {"mra-u": "mra-u, 0.1", "random-mix": "random-mix, 0.2"}


def drawn(shape):
    axes = Axes(Grid(shape, ("cells",) * len(shape)))
    truth, first, second = np.random.default_rng(0).uniform(size=(3, 1, *shape))
    figure = error_fields_figure(axes, truth, {"mra-u": first, "random-mix": second}, TITLES, METHODS)
    assert [a.text for a in figure.layout.annotations] == ["truth", "mra-u, 0.1", "random-mix, 0.2"]
    return figure, (truth[0], first[0], second[0]), max(first.max(), second.max())


def test_maps():
    figure, fields, top = drawn((4, 6))
    for trace, values in zip(figure.data, fields, strict=True):
        np.testing.assert_allclose(trace.z, values.T, rtol=1e-6)
    assert [(trace.zmin, trace.zmax) for trace in figure.data[1:]] == [(0, top)] * 2


def test_slices_of_fields_in_three_dimensions():
    figure, (_, first, _), _ = drawn((4, 6, 3))
    assert len(figure.data) == 9
    np.testing.assert_allclose(figure.data[4].z, first[:, :, 1].T, rtol=1e-6)
    assert [trace.visible for trace in figure.data] == [False, True, False] * 3


def test_curves():
    figure, fields, top = drawn((9,))
    for trace, values in zip(figure.data, fields, strict=True):
        np.testing.assert_array_equal(trace.y, values)
    assert tuple(figure.layout.yaxis2.range) == tuple(figure.layout.yaxis3.range) == (0, 1.05 * top)
