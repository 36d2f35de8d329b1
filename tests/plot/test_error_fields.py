"""Error fields of several methods share one scale."""

import numpy as np

from mrafno.grids import Grid
from mrafno.plot.error_fields import curves_figure, maps_figure

METHODS = {"mra-u": "mra-u", "random-mix": "random-mix"}
TITLES = {"mra-u": "mra-u, 0.1", "random-mix": "random-mix, 0.2"}


def test_maps():
    grid, rng = Grid((4, 6), ("cells", "cells")), np.random.default_rng(0)
    truth, first, second = rng.uniform(size=(3, 4, 6))
    figure = maps_figure(grid, truth, {"mra-u": first, "random-mix": second}, TITLES, METHODS)
    for trace, values in zip(figure.data, (truth, first, second), strict=True):
        np.testing.assert_array_equal(trace.z, values.T)
    assert [trace.coloraxis for trace in figure.data] == ["coloraxis2", "coloraxis", "coloraxis"]
    assert figure.layout.coloraxis.cmax == max(first.max(), second.max())
    assert [a.text for a in figure.layout.annotations] == ["truth", "mra-u, 0.1", "random-mix, 0.2"]


def test_curves():
    grid, rng = Grid((9,), ("nodes",)), np.random.default_rng(0)
    truth, first, second = rng.uniform(size=(3, 9))
    figure = curves_figure(grid, truth, {"mra-u": first, "random-mix": second}, TITLES, METHODS)
    for trace, values in zip(figure.data, (truth, first, second), strict=True):
        np.testing.assert_array_equal(trace.y, values)
    top = 1.05 * max(first.max(), second.max())
    assert tuple(figure.layout.yaxis2.range) == tuple(figure.layout.yaxis3.range) == (0, top)
