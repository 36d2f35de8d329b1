"""Values at points anywhere, such as those of a finite element mesh, as functions on a grid."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrafno.errors import TaskError
from mrafno.grids.grid import Array, Grid
from mrafno.grids.masks import check_unmasked


@dataclass(frozen=True)
class Resampled:
    """Functions on a grid, and what is lost on the way.

    Attributes:
        values: ``(n, *grid)``.
        lost: relative L2 distance, at the given points inside of the grid, of the functions on the grid from those
            given; the mean over functions.
        worst: the largest of these distances.
        outside: share of the grid's points that lie outside of the convex hull of the given ones, where the value of
            the nearest point is taken.
    """

    values: Array
    lost: float
    worst: float
    outside: float

    def __str__(self) -> str:
        shape = "x".join(map(str, self.values.shape[1:]))
        text = f"{len(self.values)} functions on {shape}: {self.lost:.2%} lost on average, {self.worst:.2%} at most"
        return f"{text}; {self.outside:.1%} of the grid lies outside of the points." if self.outside else f"{text}."


def from_points(points: ArrayLike, values: ArrayLike, grid: Grid) -> Resampled:
    """Functions given at points, linearly interpolated to a grid, with a measure of what that loses.

    What is lost is measured there and back: functions on the grid are interpolated to the points again. It is the
    smallest error that a surrogate on this grid can have at the points; a finer grid lowers it.

    Args:
        points: ``(m, axes)``, or ``(m,)`` on one axis, in the units of the grid's domain.
        values: ``(n, m)``, or ``(m,)`` for one function.
        grid: for instance ``task.grids[-1]``.
    """
    check_unmasked(points, "from_points: the points have", TaskError)
    check_unmasked(values, "from_points: the values have", TaskError)
    x, y = np.asarray(points, dtype=np.float64), np.atleast_2d(np.asarray(values, dtype=np.float64))
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[1] != grid.dim or y.ndim != 2 or y.shape[1] != len(x):
        raise TaskError(
            f"from_points: points of shape {x.shape} and values of shape {y.shape} are not (m, {grid.dim}) and (n, m)."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise TaskError("from_points: there are points or values that are NaN or infinite. Leave them out.")
    targets = np.stack([axis.ravel() for axis in np.meshgrid(*grid.coordinates, indexing="ij")], axis=1)
    found, outside = _interpolated(x, y, targets)
    on_grid = found.reshape(len(y), *grid.shape)
    inside, back = _back(on_grid, grid, x)
    if not inside.any():
        raise TaskError("from_points: no point lies in the grid's domain. Are extent and points in the same units?")
    norm = np.linalg.norm(y[:, inside], axis=1)
    distance = np.linalg.norm(back - y[:, inside], axis=1) / np.where(norm > 0, norm, 1.0)
    return Resampled(on_grid, float(distance.mean()), float(distance.max()), float(outside.mean()))


def _interpolated(x: Array, y: Array, targets: Array) -> tuple[Array, Array]:
    """Values ``(n, targets)`` by linear interpolation between points, and which targets lie outside of their hull."""
    from scipy.interpolate import LinearNDInterpolator
    from scipy.spatial import KDTree, QhullError

    if x.shape[1] == 1:
        order = np.argsort(x[:, 0])
        ends = x[order[[0, -1]], 0]
        outside = (targets[:, 0] < ends[0]) | (targets[:, 0] > ends[1])
        return np.stack([np.interp(targets[:, 0], x[order, 0], row[order]) for row in y]), outside
    try:
        found = np.array(LinearNDInterpolator(x, y.T)(targets).T)
    except (QhullError, ValueError) as error:
        raise TaskError(
            f"from_points: {len(x)} points do not span {x.shape[1]} dimensions. Give points that are not all on one "
            f"line or plane. ({str(error).splitlines()[0]})"
        ) from error
    outside = np.isnan(found[0])
    if outside.any():
        found[:, outside] = y[:, KDTree(x).query(targets[outside])[1]]
    return found, outside


def _back(values: Array, grid: Grid, x: Array) -> tuple[NDArray[np.bool_], Array]:
    """Which points lie in the grid's domain, and functions on the grid interpolated to those, ``(n, inside)``."""
    from scipy.interpolate import RegularGridInterpolator

    lengths = np.array(grid.lengths)
    inside = np.all((x >= lengths[:, 0]) & (x <= lengths[:, 1]), axis=1)
    axes = grid.coordinates
    for axis, periodic in enumerate(grid.periodic):
        if periodic:  # the last end is the first again
            start, end = grid.lengths[axis]
            values = np.concatenate([values, np.take(values, [0], axis=1 + axis)], axis=1 + axis)
            axes = (*axes[:axis], np.append(axes[axis], axes[axis][0] + end - start), *axes[axis + 1 :])
    back = RegularGridInterpolator(axes, np.moveaxis(values, 0, -1), bounds_error=False, fill_value=None)
    return inside, np.asarray(back(x[inside]).T)
