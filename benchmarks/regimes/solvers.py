"""Finite differences for the problems of the regimes: random inputs, and Newton's method for many at a time."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from mrafno.grids import Array

#: Largest number of Newton steps, and the relative step at which they end.
_STEPS, _TOLERANCE = 60, 1e-11


def gaussian_fields(n: int, points: int, length: float, seed: int) -> Array:
    """Draws of a Gaussian process with an RBF kernel on nodes, ``(n, points)``."""
    x = np.linspace(0, 1, points)
    kernel = np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 1e-9 * np.eye(points)
    return np.random.default_rng(seed).normal(size=(n, points)) @ np.linalg.cholesky(kernel).T


def stiffness(points: int) -> Array:
    """The matrix of -u'' on the inner nodes of (0, 1), u = 0 at both ends."""
    n, h = points - 2, 1 / (points - 1)
    return np.asarray((2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)) / h**2)


def upwind(points: int) -> Array:
    """The matrix of u' on the inner nodes of (0, 1), from the left, u = 0 at the left end."""
    n, h = points - 2, 1 / (points - 1)
    return np.asarray((np.eye(n) - np.eye(n, k=-1)) / h)


def newton(residual: Callable[[Array], Array], jacobian: Callable[[Array], Array], start: Array) -> Array:
    """Roots of many systems, ``(batch, n)``; a step is halved for those whose residual would grow."""
    u = start.copy()
    for _ in range(_STEPS):
        r = residual(u)
        step = np.linalg.solve(jacobian(u), r[..., None])[..., 0]
        size = np.ones((len(u), 1))
        for _ in range(12):
            worse = np.linalg.norm(residual(u - size * step), axis=1) > np.linalg.norm(r, axis=1) * (1 + 1e-9)
            if not worse.any():
                break
            size[worse] /= 2
        u = u - size * step
        if np.abs(step).max() <= _TOLERANCE * max(1.0, float(np.abs(u).max())):
            break
    return u


def with_ends(inner: Array) -> Array:
    """Inner values with zeros at both ends and one channel: ``(batch, 1, points)``."""
    return np.pad(inner, ((0, 0), (1, 1)))[:, None]


def square(f: NDArray[np.float64], power: float) -> Array:
    """Solve -Laplace(u) + power u^3 = f on the unit square, u = 0 at its boundary; ``(1, n, n)`` to ``(1, n, n)``."""
    points = f.shape[-1]
    one = sp.csr_matrix(stiffness(points))
    laplace = sp.kronsum(one, one, format="csc")
    right, u = f[0, 1:-1, 1:-1].ravel(), np.zeros((points - 2) ** 2)
    for _ in range(_STEPS):
        step = splu(laplace + sp.diags(3 * power * u**2, format="csc")).solve(laplace @ u + power * u**3 - right)
        u = u - step
        if np.abs(step).max() <= _TOLERANCE * max(1.0, float(np.abs(u).max())):
            break
    return np.pad(u.reshape(points - 2, points - 2), 1)[None]
