"""Rectangular grids, moving functions between them, and the relative L2 distance.

An array that holds functions on a grid has the grid's axes last; whatever stands before them (examples, channels,
members) is carried along. Inside, all coordinates are scaled to [0, 1]; people see those of their own domain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from operator import index
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrafno.errors import TaskError
from mrafno.grids.masks import check_unmasked

Array = NDArray[np.float64]
Layout = Literal["nodes", "cells", "periodic", "left", "periodic-cells", "points"]
Interpolation = Literal["linear", "nearest"]

#: Share of a typical function's norm below which one is nearly zero.
_SMALL = 0.01
#: Layouts of functions whose two ends are the same point.
_PERIODIC = ("periodic", "periodic-cells")
#: Difference of coordinates, as a share of the axis, that is rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Grid:
    """A rectangular grid: how many points along each axis, and where they lie.

    ==================  ==============================================  ==========================
    layout of an axis   n points                                        in [0, 1]
    ==================  ==============================================  ==========================
    ``nodes``           both ends included                              ``j / (n - 1)``
    ``cells``           cell centres                                    ``(j + 1/2) / n``
    ``left``            the last end left out, and not periodic         ``j / n``
    ``periodic``        the last end left out: it is the first again    ``j / n``
    ``periodic-cells``  cell centres of periodic functions              ``(j + 1/2) / n``
    ``points``          anywhere, in increasing order                   as ``points`` has them
    ==================  ==============================================  ==========================

    Attributes:
        extent: start and end of each axis in the units of the domain; () for [0, 1] everywhere.
        points: for each axis with the layout ``points`` its coordinates, in the units of the domain, and () for others;
            () if there are no such axes.
    """

    shape: tuple[int, ...]
    layout: tuple[Layout, ...]
    extent: tuple[tuple[float, float], ...] = ()
    points: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.layout):
            raise TaskError(f"grid: {len(self.shape)} axes but {len(self.layout)} layouts. Give one layout per axis.")
        for n, layout in zip(self.shape, self.layout, strict=True):
            if layout not in get_args(Layout):
                raise TaskError(f"grid: unknown layout {layout!r}. Choose one of {', '.join(get_args(Layout))}.")
            if n < 2:
                raise TaskError(f"grid: an axis needs at least 2 points, got shape {self.shape}.")
        _check_extent(self.extent, self.dim)
        if self.points or "points" in self.layout:
            _check_points(self)

    @property
    def dim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def periodic(self) -> tuple[bool, ...]:
        """For each axis, whether functions are periodic."""
        return tuple(layout in _PERIODIC for layout in self.layout)

    @property
    def axes(self) -> tuple[Array, ...]:
        """Coordinates of the points along each axis, scaled to [0, 1]."""
        return tuple(
            _unit(n, layout) if layout != "points" else self._scaled(axis)
            for axis, (n, layout) in enumerate(zip(self.shape, self.layout, strict=True))
        )

    @property
    def coordinates(self) -> tuple[Array, ...]:
        """Coordinates of the points along each axis in the units of the domain."""
        return tuple(start + (end - start) * x for x, (start, end) in zip(self.axes, self.lengths, strict=True))

    @property
    def lengths(self) -> tuple[tuple[float, float], ...]:
        """Start and end of each axis in the units of the domain."""
        return self.extent or ((0.0, 1.0),) * self.dim

    def resized(self, shape: tuple[int, ...]) -> "Grid":
        """A grid of the same domain and layout with other numbers of points; ``points`` are interpolated."""
        if shape == self.shape:
            return self
        points = tuple(
            tuple(np.interp(np.linspace(0, 1, n), np.linspace(0, 1, len(old)), old).tolist()) if old else ()
            for n, old in zip(shape, self.points, strict=False)
        )
        return replace(self, shape=shape, points=points)

    def _scaled(self, axis: int) -> Array:
        start, end = self.lengths[axis]
        return (np.asarray(self.points[axis]) - start) / (end - start)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Grid":
        """The inverse of ``dataclasses.asdict``; earlier versions wrote shape and layout only."""
        return Grid(
            tuple(map(int, values["shape"])),
            tuple(values["layout"]),
            tuple((float(start), float(end)) for start, end in values.get("extent", ())),
            tuple(tuple(map(float, axis)) for axis in values.get("points", ())),
        )


def grids_of(task: Mapping[str, Any]) -> tuple[Grid, ...]:
    """The grids, coarse to fine, of a task as it stands in a ledger; earlier versions recorded unit boxes only."""
    levels = task.get("points") or [()] * len(task["resolutions"])
    rest = {"layout": task["layout"], "extent": task.get("extent") or ()}
    return tuple(
        Grid.from_json({"shape": shape, "points": points, **rest})
        for shape, points in zip(task["resolutions"], levels, strict=True)
    )


def layout_of(coordinates: ArrayLike, extent: tuple[float, float], *, periodic: bool = False) -> Layout:
    """The layout of an axis with these coordinates on a domain from ``extent[0]`` to ``extent[1]``."""
    x = np.asarray(coordinates, dtype=np.float64)
    if x.ndim != 1 or len(x) < 2:
        raise TaskError(f"layout_of: coordinates of shape {x.shape} are not those of an axis. Give 2 points or more.")
    unit = (x - extent[0]) / (extent[1] - extent[0])
    kinds: tuple[Layout, ...] = ("periodic", "periodic-cells") if periodic else ("nodes", "cells", "left")
    for layout in kinds:
        if np.abs(unit - _unit(len(x), layout)).max() < _ROUNDING:
            return layout
    if periodic:
        raise TaskError(
            f"layout_of: {len(x)} points from {x[0]:g} to {x[-1]:g} are no uniform grid of the period {extent}. "
            "Resample the functions to one; leave out the end that repeats the start."
        )
    return "points"


def _check_extent(extent: tuple[tuple[float, float], ...], dim: int) -> None:
    if extent and (len(extent) != dim or not all(a < b and np.isfinite([a, b]).all() for a, b in extent)):
        raise TaskError(f"grid: extent {extent} is not a (start, end) with start < end for each of {dim} axes.")


def _check_points(grid: Grid) -> None:
    if len(grid.points) != grid.dim:
        raise TaskError(f"grid: the layout 'points' needs coordinates, and () for each other axis, got {grid.points}.")
    for axis, (n, layout, points) in enumerate(zip(grid.shape, grid.layout, grid.points, strict=True)):
        if layout != "points" and points:
            raise TaskError(f"grid: axis {axis} has the layout {layout!r} and coordinates. Leave one of the two out.")
        if layout != "points":
            continue
        if len(points) != n or not np.isfinite(points).all() or not (np.diff(points) > 0).all():
            raise TaskError(f"grid: axis {axis} needs {n} coordinates in increasing order, got {points}.")

        (start, end), first, last = grid.lengths[axis], points[0], points[-1]
        if first < start or last > end:
            raise TaskError(f"grid: axis {axis} has points from {first:g} to {last:g} outside of ({start:g}, {end:g}).")


@dataclass(frozen=True)
class Domain:
    """What a surrogate knows of a problem: its functions and grids, and nothing of solvers or costs.

    ``grids`` are coarse to fine; ``zero_boundary`` tells, per axis, whether outputs vanish at its (start, end).
    ``parameters`` are the names of the last input channels, which are constant; of them ``log_parameters`` are positive
    and seen on a logarithmic scale.
    """

    in_channels: int
    out_channels: int
    grids: tuple[Grid, ...]
    zero_boundary: tuple[tuple[bool, bool], ...]
    parameters: tuple[str, ...] = ()
    log_parameters: tuple[str, ...] = ()

    @property
    def function_channels(self) -> int:
        """Number of functions in an input."""
        return self.in_channels - len(self.parameters)

    @property
    def levels(self) -> int:
        """Number of resolutions."""
        return len(self.grids)

    @property
    def dim(self) -> int:
        """Number of axes."""
        return self.grids[0].dim


def _unit(n: int, layout: Layout) -> Array:
    """Coordinates of a uniform axis in [0, 1]."""
    if layout == "nodes":
        return np.arange(n) / (n - 1)
    return (np.arange(n) + (0.5 if layout in ("cells", "periodic-cells") else 0.0)) / n


@lru_cache(maxsize=256)
def _axis_matrix(source: Grid, target: Grid, axis: int, kind: Interpolation) -> Array:
    """Matrix (target, source) that moves a function along one axis."""
    x, z, periodic = source.axes[axis], target.axes[axis], source.periodic[axis]
    if periodic and kind == "linear":
        return _fourier_matrix(len(x), len(z), x[0], z[0])
    matrix = np.zeros((len(z), len(x)))
    rows = np.arange(len(z))
    if kind == "nearest":
        # A coarse centre may lie exactly between two fine ones: take the right one, always.
        if source.layout[axis] == "points":
            found = np.searchsorted((x[1:] + x[:-1]) / 2, z + 1e-9, side="right")
        else:
            found = np.floor((z - x[0]) / (x[1] - x[0]) + 0.5 + 1e-9).astype(int)
        matrix[rows, found % len(x) if periodic else found.clip(0, len(x) - 1)] = 1.0
        return matrix
    # Beyond the first or last point of a grid the line through the two nearest points is continued.
    left = (np.searchsorted(x, z + 1e-12, side="right") - 1).clip(0, len(x) - 2)
    weight = (z - x[left]) / (x[left + 1] - x[left])
    # Shared points are copied exactly, not up to rounding.
    weight = np.where(np.abs(weight - np.round(weight)) < 1e-9, np.round(weight), weight)
    matrix[rows, left] = 1.0 - weight
    matrix[rows, left + 1] += weight
    return matrix


def _fourier_matrix(source: int, target: int, first: float, start: float) -> Array:
    """Trigonometric interpolation from ``source`` to ``target`` points, dropping modes that the target cannot hold.

    ``first`` and ``start`` are the coordinates of their first points.
    """
    spectrum = np.fft.rfft(np.eye(source), axis=0)
    kept = np.zeros((target // 2 + 1, source), dtype=complex)
    common = min(source, target)
    modes = (common - 1) // 2 + 1  # below the Nyquist mode of the smaller grid
    kept[:modes] = spectrum[:modes]
    if common % 2 == 0 and source == target:
        kept[modes] = spectrum[modes]
    elif common % 2 == 0 and target > source:
        kept[modes] = 0.5 * spectrum[modes]
    if first != start:
        kept *= np.exp(2j * np.pi * np.arange(len(kept)) * (start - first))[:, None]
    return np.asarray(np.fft.irfft(kept, n=target, axis=0) * (target / source), dtype=np.float64)


def resample(values: Array, source: Grid, target: Grid, kind: Interpolation = "linear") -> Array:
    """Move functions ``(..., *source.shape)`` to ``(..., *target.shape)``.

    ``linear`` is exact for functions that are linear between the source's points, and on a periodic axis it is
    trigonometric interpolation, exact for every function that both grids resolve. ``nearest`` samples; it is exact for
    functions that are constant on the coarser grid's cells, and keeps a coefficient with two values at two values.
    """
    check_unmasked(values, "resample: the functions have", TaskError)
    if source.layout != target.layout:
        raise TaskError(f"resample: the grids have different layouts, {source.layout} and {target.layout}.")
    if source.lengths != target.lengths:
        raise TaskError(f"resample: the grids have different extents, {source.lengths} and {target.lengths}.")
    if tuple(values.shape[-source.dim :]) != source.shape:
        raise TaskError(f"resample: values of shape {values.shape} do not end in the grid's shape {source.shape}.")
    if source == target:
        return values.copy()
    for axis in range(source.dim):
        matrix = _axis_matrix(source, target, axis, kind)
        position = axis - source.dim
        values = np.moveaxis(np.moveaxis(values, position, -1) @ matrix.T, -1, position)
    return np.ascontiguousarray(values)


def relative_l2(prediction: Array, truth: Array, typical: float | None = None) -> Array:
    r"""Relative L2 distance of each example: ``(n, channels, *grid)`` twice gives ``(n,)``.

    .. math:: \left\lVert p - y \right\rVert_2 / \left\lVert y \right\rVert_2 \quad\text{over channels and grid}

    A truth that is nearly zero has no relative error: it is measured against a hundredth of a typical one.

    Args:
        typical: the norm of a typical truth; by default the median of those here that are not zero, and 1 if all are.
    """
    if prediction.shape != truth.shape:
        raise TaskError(f"relative_l2: shapes {prediction.shape} and {truth.shape} differ.")
    axes = tuple(range(1, truth.ndim))
    norm = np.sqrt(np.sum(truth**2, axis=axes))
    if typical is None:
        typical = float(np.median(norm[norm > 0])) if norm.any() else 1.0
    return np.asarray(np.sqrt(np.sum((prediction - truth) ** 2, axis=axes)) / np.maximum(norm, _SMALL * typical))


def as_shapes(resolutions: Sequence[Sequence[int] | int]) -> tuple[tuple[int, ...], ...]:
    """Grid shapes, coarse to fine, from what a person writes: ``(33, 129)`` or ``((32, 32), (64, 64))``."""
    try:
        shapes = tuple((index(r),) if hasattr(r, "__index__") else tuple(map(index, r)) for r in resolutions)
    except TypeError:
        raise TaskError(
            f"resolutions: {resolutions!r} is not a list of grid shapes. Write (33, 129) or ((32, 32), (64, 64))."
        ) from None
    if not shapes or not all(shapes):
        raise TaskError("resolutions: none given. Give at least one grid shape, coarse to fine.")
    if min(min(shape) for shape in shapes) < 2:
        raise TaskError(f"resolutions: an axis needs at least 2 points, got {shapes}.")
    if len({len(s) for s in shapes}) != 1:
        raise TaskError(f"resolutions: {shapes} mix dimensions. Give grid shapes with the same number of axes.")
    sizes = [int(np.prod(s)) for s in shapes]
    if any(b <= a for a, b in pairwise(sizes)):
        raise TaskError(f"resolutions: {shapes} are not ordered. List the grid shapes from coarse to fine.")
    return shapes
