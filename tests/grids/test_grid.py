"""Grids: where points lie, and moving functions between them without error where both grids can hold them."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.grids import Domain, Grid, as_shapes, grids_of, layout_of, relative_l2, resample

TAU = 2 * np.pi


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("nodes", [0, 1 / 3, 2 / 3, 1]),
        ("cells", [0.125, 0.375, 0.625, 0.875]),
        ("periodic-cells", [0.125, 0.375, 0.625, 0.875]),
        ("periodic", [0, 0.25, 0.5, 0.75]),
        ("left", [0, 0.25, 0.5, 0.75]),
    ],
)
def test_where_points_lie(layout, expected):
    np.testing.assert_allclose(Grid((4,), (layout,)).axes[0], expected, rtol=1e-15)


@pytest.mark.parametrize(("source", "target"), [(129, 33), (128, 32), (9, 12), (5, 2), (33, 129)])
@pytest.mark.parametrize("layout", ["nodes", "cells", "left"])
def test_linear_is_exact_for_straight_lines(layout, source, target):
    """A line is linear between any points, so every pair of grids holds it."""
    a, b = Grid((source,), (layout,)), Grid((target,), (layout,))
    np.testing.assert_allclose(resample(3 * a.axes[0] - 1, a, b), 3 * b.axes[0] - 1, atol=1e-13)


def test_linear_is_exact_for_functions_linear_between_coarse_nodes():
    """Up to a grid that contains all nodes and back: equal to the last bit, since shared nodes are copied."""
    coarse, fine = Grid((5, 9), ("nodes", "nodes")), Grid((13, 33), ("nodes", "nodes"))
    f = np.random.default_rng(0).standard_normal((2, 3, 5, 9))
    up = resample(f, coarse, fine)
    np.testing.assert_array_equal(resample(up, fine, coarse), f)
    np.testing.assert_allclose(up[..., 1, 0], f[..., 0, 0] * 2 / 3 + f[..., 1, 0] / 3, rtol=1e-14)


@pytest.mark.parametrize(("source", "target"), [(16, 8), (64, 16), (15, 9), (9, 16), (18, 12), (8, 9)])
@pytest.mark.parametrize("layout", ["periodic", "periodic-cells"])
def test_periodic_is_exact_for_every_mode_both_grids_hold(layout, source, target):
    a, b = Grid((source,), (layout,)), Grid((target,), (layout,))
    for k in range((min(source, target) - 1) // 2 + 1):
        for wave in (np.sin, np.cos):
            np.testing.assert_allclose(resample(wave(TAU * k * a.axes[0]), a, b), wave(TAU * k * b.axes[0]), atol=1e-13)


def test_periodic_drops_modes_the_target_cannot_hold():
    a, b = Grid((32,), ("periodic",)), Grid((8,), ("periodic",))
    np.testing.assert_allclose(resample(np.sin(TAU * 7 * a.axes[0]), a, b), 0, atol=1e-13)
    # Up, the unpaired mode of the small grid becomes the cosine, whose values at the small grid's points it had.
    np.testing.assert_allclose(resample((-1.0) ** np.arange(8), b, a), np.cos(TAU * 4 * a.axes[0]), atol=1e-13)


@pytest.mark.parametrize(("coarse", "factor"), [(32, 4), (32, 2), (5, 3), (4, 1)])
def test_nearest_is_exact_for_functions_constant_on_coarse_cells(coarse, factor):
    a, b = Grid((coarse * factor,), ("cells",)), Grid((coarse,), ("cells",))
    f = np.random.default_rng(1).standard_normal((2, coarse))
    np.testing.assert_array_equal(resample(f.repeat(factor, axis=1), a, b, "nearest"), f)
    np.testing.assert_array_equal(resample(f, b, a, "nearest"), f.repeat(factor, axis=1))


@pytest.mark.parametrize("layout", ["nodes", "cells", "periodic"])
def test_nearest_invents_no_values(layout):
    a, b = Grid((30, 30), (layout, layout)), Grid((11, 7), (layout, layout))
    f = np.where(np.random.default_rng(2).standard_normal((3, 30, 30)) > 0, 12.0, 4.0)
    assert set(np.unique(resample(f, a, b, "nearest"))) == {4.0, 12.0}


def test_axes_may_have_different_layouts():
    a, b = Grid((9, 16), ("nodes", "periodic")), Grid((5, 8), ("nodes", "periodic"))
    f, g = (grid.axes[0][:, None] * np.sin(TAU * 3 * grid.axes[1]) for grid in (a, b))
    np.testing.assert_allclose(resample(f, a, b), g, atol=1e-13)


@pytest.mark.parametrize("layout", ["nodes", "cells", "periodic"])
def test_a_function_does_not_depend_on_its_company(layout):
    """Caches are keyed by a restricted input's bytes, so they must not depend on how many are restricted at once."""
    a, b = Grid((64, 48), (layout, layout)), Grid((17, 16), (layout, layout))
    f = np.random.default_rng(3).standard_normal((20, 2, 64, 48))
    together = resample(f, a, b)
    np.testing.assert_array_equal(np.concatenate([resample(f[i : i + 1], a, b) for i in range(20)]), together)


def test_the_same_grid_gives_a_copy():
    grid = Grid((4,), ("nodes",))
    f = np.arange(4.0)
    moved = resample(f, grid, grid)
    moved[0] = 7.0
    assert f[0] == 0.0


def test_relative_l2_of_each_example():
    y = np.array([[[3.0, 4.0]], [[0.0, 2.0]]])
    np.testing.assert_allclose(relative_l2(1.1 * y, y), [0.1, 0.1])
    np.testing.assert_allclose(relative_l2(y + [3.0, 0.0], y), [0.6, 1.5])


def test_an_ordinary_error_is_the_quotient_to_the_last_bit():
    y = np.random.default_rng(0).standard_normal((50, 2, 7)) * np.geomspace(0.1, 10, 50)[:, None, None]
    p = y + np.random.default_rng(1).standard_normal(y.shape)
    exact = np.sqrt(np.sum((p - y) ** 2, axis=(1, 2))) / np.sqrt(np.sum(y**2, axis=(1, 2)))
    np.testing.assert_array_equal(relative_l2(p, y), exact)
    np.testing.assert_array_equal(relative_l2(p, y, typical=3.0), exact)


def test_a_truth_that_is_zero_is_measured_against_a_typical_one():
    y = np.array([[[0.0, 0.0]], [[3.0, 4.0]], [[0.0, 1e-12]]])
    np.testing.assert_allclose(relative_l2(y + [0.3, 0.4], y)[:2], [0.5 / (0.01 * np.median([5, 1e-12])), 0.1])
    np.testing.assert_allclose(relative_l2(y + [0.3, 0.4], y, typical=5.0), [10.0, 0.1, 10.0])
    np.testing.assert_allclose(relative_l2(y[:1] + 0.3, y[:1]), [0.3 * np.sqrt(2) / 0.01])
    assert relative_l2(y[:1], y[:1]) == 0


def test_shapes_from_what_people_write():
    assert as_shapes((33, 129)) == ((33,), (129,))
    assert as_shapes([[32, 16], (np.int64(64), 32)]) == ((32, 16), (64, 32))


@pytest.mark.parametrize(
    ("resolutions", "message"),
    [
        ((), "none given"),
        (((),), "none given"),
        ((129, 33), "coarse to fine"),
        ((33, 33), "coarse to fine"),
        ((8, (8, 8)), "mix dimensions"),
        ((0, 33), "at least 2 points"),
        ((33.5, 129), "not a list of grid shapes"),
        (33, "not a list of grid shapes"),
        (("a", "b"), "not a list of grid shapes"),
    ],
)
def test_bad_shapes_are_refused(resolutions, message):
    with pytest.raises(TaskError, match=message):
        as_shapes(resolutions)


def test_bad_grids_are_refused():
    with pytest.raises(TaskError, match="one layout per axis"):
        Grid((4, 4), ("nodes",))
    with pytest.raises(TaskError, match="unknown layout 'hexagons'"):
        Grid((4,), ("hexagons",))
    with pytest.raises(TaskError, match="at least 2 points"):
        Grid((1,), ("nodes",))
    with pytest.raises(TaskError, match="different layouts"):
        resample(np.zeros(4), Grid((4,), ("nodes",)), Grid((4,), ("cells",)))
    with pytest.raises(TaskError, match="do not end in"):
        resample(np.zeros(5), Grid((4,), ("nodes",)), Grid((3,), ("nodes",)))
    with pytest.raises(TaskError, match="differ"):
        relative_l2(np.zeros((1, 1, 3)), np.zeros((1, 1, 4)))


def test_a_domain_counts_levels_and_axes():
    grids = tuple(Grid((n, n), ("cells", "cells")) for n in (4, 8, 16))
    domain = Domain(1, 2, grids, ((True, True),) * 2)
    assert (domain.levels, domain.dim) == (3, 2)


POINTS = (0.0, 0.5, 2.0, 3.0)


def test_coordinates_are_those_of_the_domain_and_axes_are_scaled():
    grid = Grid((5, 4), ("nodes", "cells"), ((-1.0, 1.0), (10.0, 18.0)))
    np.testing.assert_allclose(grid.coordinates[0], [-1, -0.5, 0, 0.5, 1])
    np.testing.assert_allclose(grid.coordinates[1], [11, 13, 15, 17])
    np.testing.assert_allclose(grid.axes[1], [0.125, 0.375, 0.625, 0.875])


def test_points_anywhere():
    grid = Grid((4, 3), ("points", "nodes"), ((0.0, 4.0), (0.0, 1.0)), (POINTS, ()))
    np.testing.assert_allclose(grid.coordinates[0], POINTS)
    np.testing.assert_allclose(grid.axes[0], np.array(POINTS) / 4)
    assert grid.resized((7, 3)).coordinates[0].tolist() == [0, 0.25, 0.5, 1.25, 2, 2.5, 3]
    assert grid.resized((4, 3)) is grid


def test_linear_and_nearest_between_points_anywhere():
    coarse = Grid((4,), ("points",), ((0.0, 3.0),), (POINTS,))
    fine = Grid((5,), ("points",), ((0.0, 3.0),), ((0.0, 0.2, 0.5, 1.9, 3.0),))
    line = 2 * fine.coordinates[0] - 1
    np.testing.assert_allclose(resample(line, fine, coarse), 2 * coarse.coordinates[0] - 1, atol=1e-13)
    np.testing.assert_array_equal(resample(np.arange(5.0), fine, coarse, "nearest"), [0, 2, 3, 4])


@pytest.mark.parametrize(
    "grid",
    [Grid((4, 3), ("points", "left"), ((0.0, 4.0), (0.0, 1.0)), (POINTS, ())), Grid((4,), ("periodic-cells",))],
)
def test_json_round_trip(grid):
    assert Grid.from_json(json.loads(json.dumps(asdict(grid)))) == grid


def test_grids_of_a_ledger_of_an_earlier_version():
    task = {"resolutions": [[3, 4], [6, 8]], "layout": ["cells", "periodic"]}
    assert grids_of(task) == (Grid((3, 4), ("cells", "periodic")), Grid((6, 8), ("cells", "periodic")))


@pytest.mark.parametrize(
    ("shape", "layout", "extent", "points", "message"),
    [
        ((4,), ("nodes",), ((1.0, 0.0),), (), "start < end"),
        ((4,), ("nodes",), ((0.0, 1.0), (0.0, 1.0)), (), "for each of 1 axes"),
        ((4,), ("points",), (), (), "needs coordinates"),
        ((4,), ("points",), (), (POINTS,), r"points from 0 to 3 outside of \(0, 1\)"),
        ((4,), ("points",), ((0.0, 3.0),), (POINTS[::-1],), "in increasing order"),
        ((3,), ("points",), ((0.0, 3.0),), (POINTS,), "needs 3 coordinates"),
        ((4,), ("nodes",), ((0.0, 3.0),), (POINTS,), "Leave one of the two out"),
    ],
)
def test_impossible_grids_are_refused(shape, layout, extent, points, message):
    with pytest.raises(TaskError, match=message):
        Grid(shape, layout, extent, points)


def test_functions_are_not_moved_to_another_domain():
    with pytest.raises(TaskError, match="different extents"):
        resample(np.zeros(4), Grid((4,), ("nodes",)), Grid((8,), ("nodes",), ((0.0, 2.0),)))


@pytest.mark.parametrize("layout", ["nodes", "cells", "left", "periodic", "periodic-cells"])
def test_the_layout_of_a_solvers_coordinates(layout):
    grid = Grid((16,), (layout,), ((-2.0, 3.0),))
    periodic = layout.startswith("periodic")
    assert layout_of(grid.coordinates[0].astype(np.float32), (-2.0, 3.0), periodic=periodic) == layout
    assert layout_of(POINTS, (0.0, 3.0)) == "points"
    with pytest.raises(TaskError, match="no uniform grid of the period"):
        layout_of(np.linspace(-2, 3, 16), (-2.0, 3.0), periodic=True)
