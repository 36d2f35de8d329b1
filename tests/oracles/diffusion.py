"""Plain reference for the reaction-diffusion equation: one example, one step, one Newton iteration at a time.

The scheme is that of ``mrafno.tasks.diffusion``: central differences and the trapezoidal rule, with the matrices and
the residual written down as they are in a textbook.
"""

import numpy as np
import scipy.sparse
import scipy.sparse.linalg


def solve_reaction_diffusion(forcing, shape, diffusivity, reaction):
    """Fields ``(n, nx, nt)`` on the grid ``shape = (nx, nt)`` for forcings ``(n, nx)`` or ``(n, nx, nt)``."""
    if forcing.ndim == 2:
        forcing = np.repeat(forcing[:, :, None], shape[1], axis=2)
    return np.stack([_solve_one(f, shape, diffusivity, reaction) for f in forcing])


def _solve_one(f, shape, diffusivity, reaction):
    nx, nt = shape
    h, tau = 1 / (nx - 1), 1 / (nt - 1)
    inner = nx - 2
    second = scipy.sparse.diags_array(
        [np.ones(inner - 1), np.full(inner, -2.0), np.ones(inner - 1)], offsets=[-1, 0, 1], format="csc"
    )
    laplace = diffusivity / h**2 * second
    identity = scipy.sparse.eye_array(inner, format="csc")
    f = f[1:-1]
    u = np.zeros((nx, nt))
    for step in range(1, nt):
        old = u[1:-1, step - 1]
        old_rate = laplace @ old + reaction * old**2 + f[:, step - 1]
        new = old.copy()
        for _ in range(50):
            rate = laplace @ new + reaction * new**2 + f[:, step]
            residual = new - old - tau / 2 * (old_rate + rate)
            if np.max(np.abs(residual)) <= 1e-13 * max(np.max(np.abs(new)), 1e-3):
                break
            jacobian = identity - tau / 2 * (laplace + 2 * reaction * scipy.sparse.diags_array(new))
            new = new - scipy.sparse.linalg.spsolve(jacobian.tocsc(), residual)
        else:
            raise RuntimeError("Newton's method did not converge")
        u[1:-1, step] = new
    return u
