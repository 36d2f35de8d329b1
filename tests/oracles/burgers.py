"""Plain reference for Burgers equation: one example at a time, a dense mass matrix, SciPy's Radau.

The scheme in space is that of ``mrafno.tasks.burgers``: linear finite elements, consistent mass, the flux interpolated
at the nodes.
"""

import numpy as np
from scipy.integrate import solve_ivp


def solve_burgers(u0, *, viscosity, final_time, tolerance=1e-8):
    """Velocities ``(n, nodes)`` at ``final_time`` from ``u0`` ``(n, nodes)``; the ends are held at zero."""
    return np.stack([_solve_one(u, viscosity, final_time, tolerance) for u in u0])


def _solve_one(u0, viscosity, final_time, tolerance):
    nodes = len(u0)
    inner, h = nodes - 2, 1 / (nodes - 1)
    one = np.eye(inner)
    right, left = np.eye(inner, k=1), np.eye(inner, k=-1)
    inverse_mass = np.linalg.inv(h / 6 * (4 * one + left + right))
    stiffness = (2 * one - left - right) / h
    difference = (right - left) / 2

    def rate(_, u):
        return inverse_mass @ (-difference @ (u**2 / 2) - viscosity * stiffness @ u)

    def jacobian(_, u):
        return inverse_mass @ (-difference * u - viscosity * stiffness)

    solution = solve_ivp(
        rate, (0, final_time), u0[1:-1], method="Radau", jac=jacobian, rtol=tolerance, atol=tolerance,
        t_eval=[final_time],
    )  # fmt: skip
    if not solution.success:
        raise RuntimeError(solution.message)
    return np.concatenate([[0.0], solution.y[:, -1], [0.0]])
