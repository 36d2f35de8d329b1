r"""Viscous Burgers equation on an interval.

.. math:: u_t + u u_x = \nu u_{xx}, \quad x \in [0, 1], \quad u(0, t) = u(1, t) = 0

from :math:`u_0(x) = a e^{-a x} \sin(2 \pi x) \cos(b \pi x)` with a, b uniform in [1, 6], to t = 1. The input is
:math:`u_0`, the output :math:`u(\cdot, 1)`.

Space: linear finite elements with the consistent mass matrix and the flux :math:`u^2/2` interpolated at the nodes
(product approximation), which is what the published data was made with; lumping the mass changes coarse solutions by up
to a quarter. Time: RODAS4, a stiffly accurate Rosenbrock method of order 4 with an embedded error estimate, every
example with its own steps. The tridiagonal systems of a batch are stacked into one and solved by one LAPACK call.

References: Li et al. (2024), section 6; Hairer & Wanner, Solving Ordinary Differential Equations II (1996), IV.7 and
the coefficients of their program RODAS.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import Array, as_shapes
from mrafno.tasks.base import Task, generators, power_law_costs

# RODAS4 in the form of its authors' program: W u_i = f(y + sum a_ij u_j) + M sum (c_ij / h) u_j, W = M/(h gamma) - J.
_GAMMA = 0.25
_A = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0),
)
_C = (
    (),
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)
_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 5.0
_MAX_STEPS = 200_000
_PUBLISHED_COSTS: dict[tuple[tuple[int, ...], ...], tuple[float, ...]] = {((33,), (129,)): (1.0, 41.2)}


class Burgers(Task):
    """Burgers equation: initial velocity to velocity at ``final_time``.

    ``costs`` default to the published ratio 1 : 41.2 for the published meshes, and to the power of the mesh size that
    it implies for others. Where a mesh is far too coarse for the shocks (fewer than about 30 nodes for the published
    viscosity) the scheme's own solution blows up, which is reported as a :class:`SimulationError`.
    """

    name = "burgers"
    input_name = "initial velocity"
    output_name = "velocity at the final time"
    axis_names = ("x",)
    layout = ("nodes",)
    zero_boundary = ((True, True),)

    def __init__(
        self,
        *,
        resolutions: Sequence[Sequence[int] | int] = ((33,), (129,)),
        costs: Sequence[float] | None = None,
        viscosity: float = 0.002,
        final_time: float = 1.0,
        tolerance: float = 5e-8,
    ) -> None:
        shapes = as_shapes(resolutions)
        if costs is None:
            costs = _PUBLISHED_COSTS.get(shapes) or power_law_costs(shapes, float(np.log(41.2) / np.log(129 / 33)))
        super().__init__(shapes, costs)
        if shapes[0][0] < 5:
            raise TaskError(f"{self.name}: a mesh needs 5 nodes or more, got {shapes[0][0]}.")
        for setting, value in (("viscosity", viscosity), ("final_time", final_time), ("tolerance", tolerance)):
            if not (np.isfinite(value) and value > 0):
                raise TaskError(f"{self.name}: {setting} must be a positive number, got {value!r}.")
        self.viscosity = float(viscosity)
        self.final_time = float(final_time)
        self.tolerance = float(tolerance)

    @property
    def configuration(self) -> dict[str, Any]:
        """Viscosity, final time and tolerance."""
        return {"viscosity": self.viscosity, "final_time": self.final_time, "tolerance": self.tolerance}

    def _sample(self, indices: Sequence[int], seed: int) -> Array:
        return profiles(generators(indices, seed), self.grids[-1].axes[0])[:, None]

    def _solve(self, f: Array, level: int) -> Array:
        u = solve_burgers(f[:, 0], viscosity=self.viscosity, final_time=self.final_time, tolerance=self.tolerance)
        return u[:, None, :]


def profiles(rngs: Sequence[np.random.Generator], x: Array) -> Array:
    """Initial velocities ``(len(rngs), len(x))`` with a and b uniform in [1, 6]."""
    draws = np.array([rng.uniform(1.0, 6.0, size=2) for rng in rngs]).reshape(-1, 2, 1)
    a, b = draws[:, 0], draws[:, 1]
    return np.asarray(a * np.exp(-a * x) * np.sin(2 * np.pi * x) * np.cos(b * np.pi * x))


def solve_burgers(u0: Array, *, viscosity: float | Array, final_time: float, tolerance: float = 5e-8) -> Array:
    """Velocities ``(n, nodes)`` at ``final_time`` from ``u0`` ``(n, nodes)``; the ends are held at zero.

    Args:
        viscosity: one for all, or ``(n,)``.
    """
    if not len(u0):
        return u0.copy()
    h = 1.0 / (u0.shape[1] - 1)
    interior = u0[:, 1:-1].copy()
    result = np.zeros_like(u0)
    viscosities = np.broadcast_to(np.asarray(viscosity, dtype=np.float64).reshape(-1, 1), (len(u0), 1))
    result[:, 1:-1] = _rodas(interior, h, viscosities, final_time, tolerance)
    return result


def _mass(u: Array, h: float) -> Array:
    """Consistent mass matrix h/6 [1 4 1] times interior values."""
    out = 4.0 * u
    out[:, 1:] += u[:, :-1]
    out[:, :-1] += u[:, 1:]
    out *= h / 6
    return out


def _rhs(u: Array, h: float, nu: Array) -> Array:
    """Flux differences and diffusion: the right-hand side of M u' = F(u)."""
    flux = 0.25 * u * u
    slope = nu / h
    out = (-2.0 * slope) * u
    out[:, 1:] += slope * u[:, :-1] + flux[:, :-1]
    out[:, :-1] += slope * u[:, 1:] - flux[:, 1:]
    return out


def _rodas(u: Array, h: float, nu: Array, final_time: float, tolerance: float) -> Array:
    """Integrate interior values ``(n, m)`` with viscosities ``(n, 1)``; every row has its own time and step."""
    result = np.empty_like(u)
    rows: NDArray[np.intp] = np.arange(len(u))
    time = np.zeros(len(u))
    step = np.full(len(u), min(1e-3, final_time))
    rejected = np.zeros(len(u), dtype=bool)
    for _ in range(_MAX_STEPS):
        step = np.minimum(step, final_time - time)
        new, error = _rodas_step(u, step[:, None], h, nu)
        if len(u) > 1 and not np.isfinite(new).all():
            # One overflow spreads through the whole stacked system, so every row takes this step by itself.
            alone = [_rodas_step(u[i : i + 1], step[i : i + 1, None], h, nu[i : i + 1]) for i in range(len(u))]
            new, error = np.concatenate([a for a, _ in alone]), np.concatenate([b for _, b in alone])
        scale = tolerance * (1.0 + np.maximum(np.abs(u), np.abs(new)))
        norm = np.sqrt(np.mean((error / scale) ** 2, axis=1))
        norm = np.where(np.isfinite(norm), norm, 1e10)
        accept = norm <= 1.0
        u = np.where(accept[:, None], new, u)
        # A step that ends within rounding of the final time ends at it.
        time = np.where(accept, time + step, time)
        factor = np.clip(_SAFETY * np.maximum(norm, 1e-10) ** -0.25, _SHRINK, _GROW)
        step = step * np.where(rejected, np.minimum(factor, 1.0), factor)
        rejected = ~accept
        if (step < 1e-14 * final_time).any():
            bad = rows[step < 1e-14 * final_time]
            raise SimulationError(
                f"burgers: the time step vanished for input {bad[0]}: on {round(1 / h) + 1} nodes its solution blows "
                "up. Take more nodes or a larger viscosity."
            )
        done = time >= final_time * (1 - 1e-13)
        if done.any():
            result[rows[done]] = u[done]
            keep = ~done
            u, rows, time, step, rejected, nu = u[keep], rows[keep], time[keep], step[keep], rejected[keep], nu[keep]
        if not len(rows):
            return result
    raise SimulationError(f"burgers: input {rows[0]} needs more than {_MAX_STEPS} time steps. Raise the tolerance.")


def _rodas_step(u: Array, step: Array, h: float, nu: Array) -> tuple[Array, Array]:
    """One step of RODAS4 for all rows ``(n, m)`` with steps ``(n, 1)``: the new values and the error estimate."""
    n, m = u.shape
    weight = (h / 6) / (_GAMMA * step)
    slope = nu / h
    # W = M / (gamma h) - J, tridiagonal; the zeros between two examples keep their blocks apart.
    diagonal = np.broadcast_to(4.0 * weight + 2.0 * slope, (n, m))
    lower = (weight - slope) - 0.5 * u
    upper = (weight - slope) + 0.5 * u
    lower[:, -1] = 0.0
    upper = np.roll(upper, -1, axis=1)
    upper[:, -1] = 0.0
    dl, d, du, du2, pivots, _ = lapack.dgttrf(lower.ravel()[:-1], diagonal.ravel(), upper.ravel()[:-1])
    stages: list[Array] = []
    point = u
    for a_row, c_row in zip(_A, _C, strict=True):
        point = u
        for a, k in zip(a_row, stages, strict=True):
            point = point + a * k
        rhs = _rhs(point, h, nu)
        if stages:
            history = sum((c * k for c, k in zip(c_row, stages, strict=True)), start=np.zeros_like(u))
            rhs += _mass(history / step, h)
        solution, _ = lapack.dgttrs(dl, d, du, du2, pivots, rhs.ravel())
        stages.append(solution.reshape(n, m))
    return point + stages[-1], stages[-1]
