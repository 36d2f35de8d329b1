r"""Diffusion with a quadratic reaction and a steady forcing, on an interval.

.. math:: u_t = D u_{xx} + k u^2 + f(x), \quad x \in [0, 1], \; t \in [0, 1], \quad u(0, t) = u(1, t) = u(x, 0) = 0

f is a Gaussian process with an RBF kernel. The output is the whole field :math:`u(x, t)`, axes (x, t), both ends of
both included; the input is f repeated along time, so that input and output live on one grid.

Discretisation: central differences in space and the trapezoidal rule (Crank-Nicolson) in time, second order in both,
with the spacings of the level's own grid. Every step is a quadratic system

.. math:: v - \mu \delta^2 v - \tfrac{\tau k}{2} v^2 = u + \mu \delta^2 u + \tfrac{\tau k}{2} u^2
    + \tfrac\tau2 (f + f_{\text{next}}), \quad \mu = \tau D / 2 h^2

solved by Newton's method; the tridiagonal systems of a batch are stacked into one and solved by one LAPACK call. The
residual that a Newton update :math:`\delta` leaves is known exactly, :math:`\tau k \delta^2 / 2`, so no extra
iteration is needed to detect convergence.

References: Li et al. (2024), section 6; Crank & Nicolson (1947); Morton & Mayers, Numerical Solution of Partial
Differential Equations (2005), chapter 2.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import lapack

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import Array, as_shapes
from mrafno.tasks.base import Task, generators, power_law_costs
from mrafno.tasks.random_fields import rbf_process

_TOLERANCE = 1e-13
_MAX_NEWTON = 30
_PUBLISHED_COSTS: dict[tuple[tuple[int, ...], ...], tuple[float, ...]] = {((32, 32), (128, 128)): (1.0, 17.6)}


class Diffusion(Task):
    """Reaction-diffusion: forcing to the field over space and time.

    Grid shapes are (nodes in space, nodes in time). ``costs`` default to the published ratio 1 : 17.6 for the published
    meshes, and to the power of the mesh size that it implies for others.
    """

    name = "diffusion"
    input_name = "forcing, repeated along time"
    output_name = "concentration over space and time"
    axis_names = ("x", "t")
    layout = ("nodes", "nodes")
    input_axes = (0,)
    zero_boundary = ((True, True), (True, False))

    def __init__(
        self,
        *,
        resolutions: Sequence[Sequence[int] | int] = ((32, 32), (128, 128)),
        costs: Sequence[float] | None = None,
        diffusivity: float = 0.01,
        reaction: float = 0.01,
        length_scale: float = 0.2,
    ) -> None:
        shapes = as_shapes(resolutions)
        if costs is None:
            costs = _PUBLISHED_COSTS.get(shapes) or power_law_costs(shapes, float(np.log(17.6) / np.log(4)))
        super().__init__(shapes, costs)
        for setting, value in (("diffusivity", diffusivity), ("length_scale", length_scale)):
            if not (np.isfinite(value) and value > 0):
                raise TaskError(f"{self.name}: {setting} must be a positive number, got {value!r}.")
        if not np.isfinite(reaction):
            raise TaskError(f"{self.name}: reaction must be a finite number, got {reaction!r}.")
        self.diffusivity = float(diffusivity)
        self.reaction = float(reaction)
        self.length_scale = float(length_scale)

    @property
    def configuration(self) -> dict[str, Any]:
        """Diffusivity, reaction rate and the forcing's length scale."""
        return {"diffusivity": self.diffusivity, "reaction": self.reaction, "length_scale": self.length_scale}

    def _sample(self, indices: Sequence[int], seed: int) -> Array:
        x = self.grids[-1].axes[0]
        forcing = rbf_process(generators(indices, seed), x, length_scale=self.length_scale)
        return self.repeat(forcing[:, None])

    def _solve(self, f: Array, level: int) -> Array:
        u = solve_reaction_diffusion(self.unrepeat(f)[:, 0], self.resolutions[level], self.diffusivity, self.reaction)
        return u[:, None]


def solve_reaction_diffusion(forcing: Array, shape: tuple[int, ...], diffusivity: float, reaction: float) -> Array:
    """Fields ``(n, nx, nt)`` on the grid ``shape = (nx, nt)`` for forcings ``(n, nx)``, or ``(n, nx, nt)`` that change.

    Rows do not influence each other. Raises :class:`SimulationError` where the reaction outgrows the time step, as it
    does before a solution blows up.
    """
    nx, nt = shape
    n = len(forcing)
    if forcing.shape not in ((n, nx), (n, nx, nt)):
        raise TaskError(f"diffusion: the forcing has shape {forcing.shape}, expected ({n}, {nx}) or ({n}, {nx}, {nt}).")
    tau = 1.0 / (nt - 1)
    mu = 0.5 * tau * diffusivity * (nx - 1) ** 2
    by_time = np.moveaxis(forcing, -1, 0) if forcing.ndim == 3 else np.broadcast_to(forcing, (nt, n, nx))
    result = np.zeros((nt, n, nx))
    if not n:
        return np.zeros((n, nx, nt))
    links = _links(n, nx, mu)
    u = guess = result[0]
    for step in range(1, nt):
        known = np.zeros((n, nx))
        known[:, 1:-1] = (
            mu * (u[:, 2:] - 2.0 * u[:, 1:-1] + u[:, :-2])
            + (u + 0.5 * tau * (reaction * u * u + by_time[step - 1] + by_time[step]))[:, 1:-1]
        )
        result[step] = _newton(known, guess, links, mu, tau * reaction, time=step * tau)
        u = result[step]
        # The parabola through the last three times is close enough for one iteration to do, once there are three.
        guess = 3.0 * (u - result[step - 1]) + result[step - 2] if step > 2 else u
    return np.ascontiguousarray(np.moveaxis(result, 0, -1))


def _links(n: int, nx: int, mu: float) -> Array:
    """Off-diagonal of the stacked matrix, ``(n * nx - 1,)``: zero at the ends, which keeps examples apart."""
    links = np.full((n, nx), -mu)
    links[:, [0, -2, -1]] = 0.0
    return links.ravel()[:-1]


def _newton(known: Array, guess: Array, links: Array, mu: float, growth: float, time: float) -> Array:
    """Solve v - mu (second difference of v) - growth v^2 / 2 = known for all rows ``(n, nx)``; v = 0 at the ends.

    A row that has converged is left alone, whatever the others still need. While growth v < 1 the matrices are
    diagonally dominant, so they can be solved, and the root found is the one that the solution follows; beyond, the
    reaction is faster than the time step.
    """
    # An extrapolated guess may overshoot where the solution does not; zero is always a safe start.
    v = np.where(growth * guess < 1.0, guess, 0.0)
    active = np.ones((len(v), 1), dtype=bool)
    for _ in range(_MAX_NEWTON):
        diagonal = 1.0 - growth * v
        resolved = diagonal.min(axis=1) > 0.0
        if not resolved.all():
            break
        diagonal[:, 1:-1] += 2.0 * mu
        _, _, _, flat, _ = lapack.dgtsv(links, diagonal.ravel(), links, (known - 0.5 * growth * v * v).ravel())
        new = np.where(active, flat.reshape(v.shape), v)
        left = 0.5 * abs(growth) * np.max((new - v) ** 2, axis=1, keepdims=True)
        active &= ~(left <= _TOLERANCE * np.max(np.abs(new), axis=1, keepdims=True))
        v = new
        if not active.any():
            return v
    else:
        resolved = ~active[:, 0]
    raise SimulationError(
        f"diffusion: the reaction outgrows the time step at t = {time:.3g} for input {np.argmin(resolved)}; its "
        "solution blows up or needs a finer grid in time. Lower the reaction or the forcing."
    )
