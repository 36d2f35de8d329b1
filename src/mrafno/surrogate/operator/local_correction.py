r"""Local corrections from each level to the next finer one.

The error of a coarse solver depends mainly on the solution nearby: it is large where solutions are steep, in the same
way everywhere. So the levels need no operators of their own. The network works on points with the spacing of the
coarsest mesh; its mean is interpolated to the mesh of the prediction, and for each finer level a small network, the
same at all points, adds a correction that depends on the values around a point:

.. math:: v^{r}(x) = v^{r-1}(x) + \mathrm{FFN}_r\left(v^{r-1}(x),\;
    v^{r-1}(x \pm k h_a) - v^{r-1}(x), \; k = 1 \dots K\right)

with :math:`h_a` the spacing of the coarsest mesh along axis a. Ten fine solutions of burgers are too few examples of an
operator, but their thousand points are enough examples of a local correction.
"""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from torch import Tensor, nn
from torch.nn import functional

from mrafno.surrogate.operator.layers import Linear
from mrafno.surrogate.operator.spectral import Mesh, Points, points_first, points_last, product_along

#: Largest share of the inputs' variation that may lie between the points where the layers work.
_LOST = 0.1
#: Relative size of rounding errors of a constant.
_ROUNDING = 1e-9


class LocalCorrection(nn.Module):
    """The correction from one level to the next finer one."""

    def __init__(
        self,
        members: int,
        channels: int,
        spacing: tuple[float, ...],
        stencil_radius: int,
        width: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.spacing, self.stencil_radius = spacing, stencil_radius
        self.first = Linear(members, channels * (1 + 2 * stencil_radius * len(spacing)), width, dtype)
        self.second = Linear(members, width, width, dtype)
        self.last = Linear(members, width, channels, dtype)

    def forward(self, values: Tensor, mesh: Mesh) -> Tensor:
        """The correction of values ``(M, *points, B, C)``."""
        seen = neighbourhood(values, mesh, self.spacing, self.stencil_radius)
        hidden = functional.gelu(self.second(functional.gelu(self.first(seen))))
        correction: Tensor = self.last(hidden)
        return correction

    def start(self, member: int) -> None:
        """Set a member's correction to zero."""
        self.last.weight[member] = 0.0
        self.last.bias[member] = 0.0


@lru_cache(maxsize=512)
def working_mesh(mesh: Mesh, spacing: tuple[float, ...]) -> tuple[Mesh, tuple[tuple[int, int], ...]]:
    """The points of a mesh that are about as far apart as ``spacing``, and the (start, stride) of each axis.

    Equally many points are omitted at the start and at the end of an axis.
    """
    slices = []
    for points, period, wanted in zip(mesh.axes, mesh.periods, spacing, strict=True):
        stride = max(1, round(wanted / _gap(points))) if len(points) > 1 else 1
        rest = 0 if period == 1.0 else (len(points) - 1) % stride
        slices.append((rest // 2, stride))
    axes = tuple(points[start::stride] for points, (start, stride) in zip(mesh.axes, slices, strict=True))
    return Mesh(axes, mesh.periods), tuple(slices)


def thin(values: Tensor, slices: tuple[tuple[int, int], ...]) -> Tensor:
    """Functions ``(..., *grid)`` at every stride-th point of each of the last axes."""
    for axis, (start, stride) in enumerate(slices):
        if stride > 1:
            points = torch.arange(start, values.shape[axis - len(slices)], stride, device=values.device)
            values = values.index_select(axis - len(slices), points)
    return values


def interpolate(values: Tensor, coarse: Mesh, mesh: Mesh) -> Tensor:
    """Functions ``(M, *points of coarse, B, C)`` on another mesh, by cubic splines; unchanged if it is the same."""
    for axis in range(len(mesh.axes)):
        if coarse.axes[axis] == mesh.axes[axis]:
            continue
        matrix = _spline_matrix(
            coarse.axes[axis], mesh.axes[axis], mesh.periods[axis] == 1.0, values.dtype, values.device
        )
        values = product_along(values, matrix, axis)
    return values


def resolves(mesh: Mesh, spacing: tuple[float, ...], values: Tensor) -> bool:
    """Whether functions ``(n, C, *grid)`` are resolved by the points of a mesh that are ``spacing`` apart."""
    worked, slices = working_mesh(mesh, spacing)
    lost = values - points_last(interpolate(points_first(thin(values, slices)[None]), worked, mesh))[0]
    varying = values - values.mean(tuple(range(2, values.ndim)), keepdim=True)
    missed, varied, size = (part.transpose(0, 1).flatten(1).norm(dim=1) for part in (lost, varying, values))
    return bool((missed <= _LOST * varied + _ROUNDING * size).all())


def neighbourhood(values: Tensor, mesh: Mesh, spacing: tuple[float, ...], stencil_radius: int) -> Tensor:
    """Functions ``(M, *points, B, C)`` and their changes to each side, ``C (1 + 2 radius dim)`` channels."""
    seen = [values]
    for axis in range(len(mesh.axes)):
        matrix = _changes_matrix(
            mesh.axes[axis], spacing[axis], stencil_radius, mesh.periods[axis] == 1.0, values.dtype, values.device
        )
        place = values.ndim - 3 - axis
        changes = product_along(values, matrix, axis).view(
            *values.shape[:place], 2 * stencil_radius, *values.shape[place:]
        )
        seen.append(changes.movedim(place, -1).flatten(-2))
    return torch.cat(seen, dim=-1)


@lru_cache(maxsize=512)
def _spline_matrix(source: Points, target: Points, periodic: bool, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Matrix ``(target, source)`` of the cubic spline through values at ``source``."""
    x, values = np.asarray(source), np.eye(len(source))
    if periodic:
        x, values = np.append(x, x[0] + 1.0), np.concatenate([values, values[:1]])
    spline = CubicSpline(x, values, axis=0, bc_type="periodic" if periodic else "not-a-knot")
    return torch.tensor(spline(np.asarray(target)), dtype=dtype, device=device)


@lru_cache(maxsize=512)
def _changes_matrix(
    points: Points, spacing: float, stencil_radius: int, periodic: bool, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Matrix ``(2 radius x points, points)`` of the changes from each point to those at multiples of ``spacing``.

    Functions are interpolated linearly between points and are constant beyond the ends of an axis.
    """
    x = np.asarray(points)
    steps = [k for k in range(-stencil_radius, stencil_radius + 1) if k]
    blocks = [_linear_matrix(x, x + k * spacing, periodic) - np.eye(len(x)) for k in steps]
    return torch.tensor(np.concatenate(blocks), dtype=dtype, device=device)


def _linear_matrix(x: NDArray[np.float64], z: NDArray[np.float64], periodic: bool) -> NDArray[np.float64]:
    """Matrix ``(z, x)`` of linear interpolation."""
    values = np.eye(len(x))
    if periodic:
        z = (z - x[0]) % 1.0 + x[0]
        x, values = np.append(x, x[0] + 1.0), np.concatenate([values, values[:1]])
    return np.stack([np.interp(z, x, row) for row in values.T], axis=1)


def _gap(points: Points) -> float:
    return float(np.median(np.diff(points)))
