"""Uniform grids on the unit box, moving functions between them, and the relative L2 distance.

An array that holds functions on a grid has the grid's axes last; whatever stands before them (examples, channels,
members) is carried along.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import index
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrafno.errors import TaskError

Array = NDArray[np.float64]
Layout = Literal["nodes", "cells", "periodic"]
Interpolation = Literal["linear", "nearest"]

#: Share of a typical function's norm below which one is nearly zero.
_SMALL = 0.01


@dataclass(frozen=True)
class Grid:
    """A uniform grid: how many points along each axis, and where they lie in [0, 1].

    ``nodes``: both ends included, ``j / (n - 1)``; ``cells``: cell centres, ``(j + 1/2) / n``; ``periodic``: the right
    end left out because it is the left end again, ``j / n``.
    """

    shape: tuple[int, ...]
    layout: tuple[Layout, ...]

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.layout):
            raise TaskError(f"grid: {len(self.shape)} axes but {len(self.layout)} layouts. Give one layout per axis.")
        for n, layout in zip(self.shape, self.layout, strict=True):
            if layout not in get_args(Layout):
                raise TaskError(f"grid: unknown layout {layout!r}. Choose one of {', '.join(get_args(Layout))}.")
            if n < 2:
                raise TaskError(f"grid: an axis needs at least 2 points, got shape {self.shape}.")

    @property
    def dim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def axes(self) -> tuple[Array, ...]:
        """Coordinates of the points along each axis."""
        return tuple(_coordinates(n, layout) for n, layout in zip(self.shape, self.layout, strict=True))


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


def _coordinates(n: int, layout: Layout) -> Array:
    if layout == "nodes":
        return np.arange(n) / (n - 1)
    if layout == "cells":
        return (np.arange(n) + 0.5) / n
    return np.arange(n) / n


@lru_cache(maxsize=256)
def _axis_matrix(source: int, target: int, layout: Layout, kind: Interpolation) -> Array:
    """Matrix (target, source) that moves a function along one axis."""
    x, z = _coordinates(source, layout), _coordinates(target, layout)
    if layout == "periodic" and kind == "linear":
        return _fourier_matrix(source, target)
    matrix = np.zeros((target, source))
    rows = np.arange(target)
    if kind == "nearest":
        # A coarse centre may lie exactly between two fine ones: take the right one, always.
        spacing = x[1] - x[0]
        nearest = np.floor((z - x[0]) / spacing + 0.5 + 1e-9).astype(int)
        matrix[rows, nearest % source if layout == "periodic" else nearest.clip(0, source - 1)] = 1.0
        return matrix
    # Beyond the first or last centre of a cell grid the line through the two nearest points is continued.
    left = (np.searchsorted(x, z + 1e-12, side="right") - 1).clip(0, source - 2)
    weight = (z - x[left]) / (x[left + 1] - x[left])
    # Shared points are copied exactly, not up to rounding.
    weight = np.where(np.abs(weight - np.round(weight)) < 1e-9, np.round(weight), weight)
    matrix[rows, left] = 1.0 - weight
    matrix[rows, left + 1] += weight
    return matrix


def _fourier_matrix(source: int, target: int) -> Array:
    """Trigonometric interpolation from ``source`` to ``target`` points, dropping modes that the target cannot hold."""
    spectrum = np.fft.rfft(np.eye(source), axis=0)
    kept = np.zeros((target // 2 + 1, source), dtype=complex)
    common = min(source, target)
    modes = (common - 1) // 2 + 1  # below the Nyquist mode of the smaller grid
    kept[:modes] = spectrum[:modes]
    if common % 2 == 0 and source == target:
        kept[modes] = spectrum[modes]
    elif common % 2 == 0 and target > source:
        kept[modes] = 0.5 * spectrum[modes]
    return np.asarray(np.fft.irfft(kept, n=target, axis=0) * (target / source), dtype=np.float64)


def resample(values: Array, source: Grid, target: Grid, kind: Interpolation = "linear") -> Array:
    """Move functions ``(..., *source.shape)`` to ``(..., *target.shape)``.

    ``linear`` is exact for functions that are linear between the source's points, and on a periodic axis it is
    trigonometric interpolation, exact for every function that both grids resolve. ``nearest`` samples; it is exact for
    functions that are constant on the coarser grid's cells, and keeps a coefficient with two values at two values.
    """
    if source.layout != target.layout:
        raise TaskError(f"resample: the grids have different layouts, {source.layout} and {target.layout}.")
    if tuple(values.shape[-source.dim :]) != source.shape:
        raise TaskError(f"resample: values of shape {values.shape} do not end in the grid's shape {source.shape}.")
    if source.shape == target.shape:
        return values.copy()
    for axis in range(source.dim):
        matrix = _axis_matrix(source.shape[axis], target.shape[axis], source.layout[axis], kind)
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
