r"""Steady flow through a porous medium of two materials.

.. math:: -\nabla \cdot (c \nabla u) = s \text{ on } (0, 1)^2, \quad u = 0 \text{ on the boundary}

The input is the permeability c, which is ``high`` where a Gaussian random field with covariance
:math:`(-\Delta + 9)^{-2}` (Neumann) is non-negative and ``low`` elsewhere; the output is the pressure u.

Discretisation: cell-centred finite volumes, second order. The flux through the face of two cells uses the harmonic mean
of their coefficients, exact in one dimension for a jump at the face; at the boundary, u = 0 is half a cell away:

.. math:: n_x^2 \left[ k_{i+1/2} (u_i - u_{i+1}) + k_{i-1/2} (u_i - u_{i-1}) \right] + \dots = s_{ij}, \quad
    k_{i+1/2} = \frac{2}{1/c_i + 1/c_{i+1}}, \quad k_{\text{wall}} (u_i - 0) = 2 c_i u_i

Solution: conjugate gradients, preconditioned by the same scheme for c = 1, which sine transforms invert exactly. The
iterations depend on max c / min c and not on the mesh. A coarse grid samples c, it does not average it.

References: Li et al. (2024), section 6; Eymard, Gallouet & Herbin, Finite Volume Methods (2000), chapter 3; Concus &
Golub, Use of fast direct methods for the efficient numerical solution of nonseparable elliptic equations (1973).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

from mrafno.errors import TaskError
from mrafno.grids import Array, as_shapes
from mrafno.tasks.base import Task, generators, power_law_costs
from mrafno.tasks.random_fields import neumann_field

_TOLERANCE = 1e-10
_MAX_ITERATIONS = 200
#: Grid points worked on at once: more examples together save calls until their arrays leave the cache.
_CHUNK_POINTS = 2**16
_PUBLISHED_COSTS: dict[tuple[tuple[int, ...], ...], tuple[float, ...]] = {
    ((32, 32), (128, 128)): (1.0, 38.3),
    ((32, 32), (64, 64), (128, 128)): (1.0, 21.3, 38.3),
}


class Darcy(Task):
    """Darcy flow: permeability to pressure.

    ``costs`` default to the published ratios, 1 : 38.3 for 32 and 128 cells a side and 1 : 21.3 : 38.3 for 32, 64 and
    128, and to the power of the mesh size that the first implies for other meshes. ``shift`` and ``power`` are those of
    the random field's covariance. ``name`` tells apart two sets of meshes.
    """

    input_name = "permeability"
    output_name = "pressure"
    axis_names = ("x", "y")
    layout = ("cells", "cells")
    interpolation = "nearest"
    zero_boundary = ((True, True), (True, True))

    def __init__(
        self,
        *,
        resolutions: Sequence[Sequence[int] | int] = ((32, 32), (128, 128)),
        costs: Sequence[float] | None = None,
        high: float = 12.0,
        low: float = 4.0,
        shift: float = 9.0,
        power: float = 2.0,
        source: float = 1.0,
        name: str = "darcy",
    ) -> None:
        self.name = name
        shapes = as_shapes(resolutions)
        if costs is None:
            costs = _PUBLISHED_COSTS.get(shapes) or power_law_costs(shapes, float(np.log(38.3) / np.log(4)))
        super().__init__(shapes, costs)
        for setting, value in (("high", high), ("low", low), ("shift", shift), ("power", power)):
            if not (np.isfinite(value) and value > 0):
                raise TaskError(f"{name}: {setting} must be a positive number, got {value!r}.")
        if not np.isfinite(source):
            raise TaskError(f"{name}: source must be a finite number, got {source!r}.")
        self.high = float(high)
        self.low = float(low)
        self.shift = float(shift)
        self.power = float(power)
        self.source = float(source)

    @property
    def configuration(self) -> dict[str, Any]:
        """The two permeabilities, the random field's shift and power, and the source."""
        return {
            "high": self.high,
            "low": self.low,
            "shift": self.shift,
            "power": self.power,
            "source": self.source,
        }

    def _sample(self, indices: Sequence[int], seed: int) -> Array:
        field = neumann_field(generators(indices, seed), self.resolutions[-1], shift=self.shift, power=self.power)
        return np.where(field >= 0, self.high, self.low)[:, None]

    def _check(self, f: Array) -> None:
        _require_positive(f, self.name)

    def _solve(self, f: Array, level: int) -> Array:
        del level  # the shape of f determines it
        return solve_darcy(f[:, 0], self.source)[:, None]


def solve_darcy(coefficient: Array, source: ArrayLike = 1.0) -> Array:
    """Pressures ``(n, nx, ny)`` for coefficients ``(n, nx, ny)`` and a source that broadcasts to them.

    Every example has its own iteration until it has converged (relative residual 1e-10), so its result does not depend
    on the others of its batch. One that does not converge, because of a contrast of many thousands, is solved directly.
    """
    coefficient = np.ascontiguousarray(coefficient, dtype=np.float64)
    _require_positive(coefficient, "darcy")
    rhs = np.broadcast_to(np.asarray(source, dtype=np.float64), coefficient.shape)
    result = np.empty(coefficient.shape)
    size = max(1, _CHUNK_POINTS // int(np.prod(coefficient.shape[1:])))
    for start in range(0, len(coefficient), size):
        chunk = slice(start, start + size)
        result[chunk] = _conjugate_gradients(_stencil(coefficient[chunk]), rhs[chunk])
    return result


def _require_positive(coefficient: Array, name: str) -> None:
    lowest = coefficient.min(axis=tuple(range(1, coefficient.ndim)), initial=np.inf)
    bad = np.flatnonzero(~(lowest > 0))
    if len(bad):
        raise TaskError(
            f"{name}: the coefficient must be positive, got min {lowest[bad[0]]:g} in input {bad[0]}. "
            "Sample it with task.sample, or clip it before solving."
        )


class _Stencil(NamedTuple):
    """The symmetric five-point matrices of a batch: diagonals, and links between neighbours across inner faces."""

    diagonal: Array  # (n, nx, ny)
    x: Array  # (n, nx - 1, ny)
    y: Array  # (n, nx, ny - 1)

    def __matmul__(self, u: Array) -> Array:
        out = self.diagonal * u
        out[:, :-1] -= self.x * u[:, 1:]
        out[:, 1:] -= self.x * u[:, :-1]
        out[:, :, :-1] -= self.y * u[:, :, 1:]
        out[:, :, 1:] -= self.y * u[:, :, :-1]
        return out

    def take(self, rows: NDArray[np.bool_]) -> "_Stencil":
        return _Stencil(self.diagonal[rows], self.x[rows], self.y[rows])


def _stencil(c: Array) -> _Stencil:
    """Finite volumes for coefficients ``(n, nx, ny)``, divided by the cell's area."""
    nx, ny = c.shape[1:]
    resistance = 1.0 / c
    x = 2.0 * nx**2 / (resistance[:, 1:] + resistance[:, :-1])
    y = 2.0 * ny**2 / (resistance[:, :, 1:] + resistance[:, :, :-1])
    diagonal = np.zeros_like(c)
    diagonal[:, :-1] += x
    diagonal[:, 1:] += x
    diagonal[:, :, :-1] += y
    diagonal[:, :, 1:] += y
    # The walls are half a cell away, so their faces conduct twice as well.
    diagonal[:, [0, -1]] += 2.0 * nx**2 * c[:, [0, -1]]
    diagonal[:, :, [0, -1]] += 2.0 * ny**2 * c[:, :, [0, -1]]
    return _Stencil(diagonal, x, y)


def _laplace_eigenvalues(nx: int, ny: int) -> Array:
    """Eigenvalues of the scheme with c = 1; sine functions at cell centres are its eigenvectors."""
    x = 4.0 * nx**2 * np.sin(np.pi * np.arange(1, nx + 1) / (2 * nx)) ** 2
    y = 4.0 * ny**2 * np.sin(np.pi * np.arange(1, ny + 1) / (2 * ny)) ** 2
    return np.asarray(x[:, None] + y[None, :])


def _conjugate_gradients(matrix: _Stencil, rhs: Array) -> Array:
    """Solve the batch ``(n, nx, ny)``; no number of one example enters another's.

    The preconditioner takes c = 1 and not its mean: a constant factor cancels in every step of the method.
    """
    eigenvalues = _laplace_eigenvalues(*rhs.shape[1:])
    result = np.empty(rhs.shape)
    rows: NDArray[np.intp] = np.arange(len(rhs))
    target = _TOLERANCE**2 * _inner(rhs, rhs)
    u = np.zeros(rhs.shape)
    residual = rhs.copy()
    direction = np.zeros(rhs.shape)
    energy = np.ones_like(target)
    for _ in range(_MAX_ITERATIONS):
        active = ~(_inner(residual, residual) <= target).ravel()
        if not active.all():
            result[rows[~active]] = u[~active]
            matrix, u, residual, direction = matrix.take(active), u[active], residual[active], direction[active]
            rows, target, energy = rows[active], target[active], energy[active]
        if not len(rows):
            return result
        correction = scipy.fft.dstn(residual, type=2, axes=(1, 2))
        correction /= eigenvalues
        correction = scipy.fft.idstn(correction, type=2, axes=(1, 2), overwrite_x=True)
        energy, previous = _inner(residual, correction), energy
        direction *= energy / previous
        direction += correction
        image = matrix @ direction
        step = energy / _inner(direction, image)
        u += step * direction
        residual -= step * image
    for i, row in enumerate(rows):
        result[row] = _direct(matrix, i, rhs[row])
    return result


def _inner(a: Array, b: Array) -> Array:
    """Inner product of each example, ``(n, 1, 1)``, always summed in the same order."""
    return np.asarray((a * b).reshape(len(a), -1).sum(axis=1)[:, None, None])


def _direct(matrix: _Stencil, example: int, rhs: Array) -> Array:
    """Solve one example ``(nx, ny)`` by sparse elimination."""
    ny = rhs.shape[1]
    diagonal = matrix.diagonal[example].ravel()
    x = -matrix.x[example].ravel()
    # The last cell of a row and the first of the next are neighbours in memory only.
    y = -np.pad(matrix.y[example], ((0, 0), (0, 1))).ravel()[:-1]
    sparse = scipy.sparse.diags_array([diagonal, x, x, y, y], offsets=[0, ny, -ny, 1, -1], format="csc")
    return np.asarray(scipy.sparse.linalg.spsolve(sparse, rhs.ravel()).reshape(rhs.shape), dtype=np.float64)
