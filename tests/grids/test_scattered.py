"""Points anywhere to grids, with what is lost."""

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.grids import Grid
from mrafno.grids.scattered import from_points

SQUARE = Grid((17, 9), ("nodes", "cells"), ((0.0, 2.0), (-1.0, 1.0)))


def scattered(n, grid, seed=0):
    """Random points and the corners of the domain."""
    lengths = np.array(grid.lengths)
    corners = np.stack([axis.ravel() for axis in np.meshgrid(*lengths, indexing="ij")], axis=1)
    inner = np.random.default_rng(seed).uniform(lengths[:, 0], lengths[:, 1], (n, grid.dim))
    return np.concatenate([corners, inner])


@pytest.mark.parametrize("grid", [SQUARE, Grid((5,), ("nodes",)), Grid((4, 5, 6), ("left", "cells", "nodes"))])
def test_planes_lose_nothing(grid):
    points = scattered(200, grid)
    slopes = np.arange(1.0, 1.0 + grid.dim)
    found = from_points(points, np.stack([points @ slopes + 3, -points @ slopes]), grid)
    expected = sum(np.meshgrid(*(a * x for a, x in zip(slopes, grid.coordinates, strict=True)), indexing="ij")) + 3
    np.testing.assert_allclose(found.values[0], expected, atol=1e-12)
    assert found.lost < 1e-12
    assert found.outside == 0.0


def test_what_is_lost_falls_with_a_finer_grid_and_is_told():
    points = scattered(4000, SQUARE)
    values = np.sin(6 * points[:, 0]) * np.cos(4 * points[:, 1])
    lost = [from_points(points, values, SQUARE.resized(shape)).lost for shape in ((9, 9), (17, 17), (33, 33))]
    assert lost[0] > 1.5 * lost[1] > 2.25 * lost[2]
    assert lost[2] < 0.1
    assert str(from_points(points, values, SQUARE)).startswith("1 functions on 17x9: ")


def test_periodic_functions_lose_nothing_across_the_ends():
    grid = Grid((64,), ("periodic-cells",))
    x = np.linspace(0, 1, 500, endpoint=False)
    assert from_points(x, np.sin(2 * np.pi * x), grid).lost < 2e-3


def test_a_grid_larger_than_the_points_takes_the_nearest_value_and_says_so():
    points = scattered(50, Grid((3, 3), ("nodes", "nodes"), ((0.5, 1.0), (-0.5, 0.5))))
    found = from_points(points, np.ones(len(points)), SQUARE)
    np.testing.assert_allclose(found.values, 1.0)
    assert found.outside > 0.5
    assert "of the grid lies outside of the points" in str(found)


@pytest.mark.parametrize(
    ("points", "values", "message"),
    [
        (np.zeros((3, 3)), np.zeros(3), r"are not \(m, 2\) and \(n, m\)"),
        (np.zeros((3, 2)), np.zeros((1, 4)), "are not"),
        (np.full((3, 2), np.nan), np.zeros(3), "NaN or infinite"),
        (np.stack([np.linspace(0, 1, 5)] * 2, axis=1), np.zeros(5), "do not span 2 dimensions"),
        (np.random.default_rng(0).uniform(100, 200, (20, 2)), np.zeros(20), "no point lies in the grid's domain"),
    ],
)
def test_what_is_refused(points, values, message):
    with pytest.raises(TaskError, match=message):
        from_points(points, values, SQUARE)
