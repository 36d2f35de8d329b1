r"""Plain reference for :func:`mrafno.tasks.navier_stokes.integrate`: slow, and obvious.

One trajectory at a time, complex transforms of the full spectrum, the advective form :math:`-u w_x - v w_y` with modes
above a third of the grid cut off, and the classical Runge-Kutta method of order 4 for
:math:`\hat v = e^{\nu |k|^2 t} \hat w` (integrating factor).
"""

from collections.abc import Sequence

import numpy as np

from mrafno.grids import Array


def integrate(
    vorticity: Array, *, viscosity: float, forcing: Array, times: Sequence[float], step: float | None = None
) -> Array:
    """Vorticity at ``times``, ``(n, len(times), *grid)``, from ``(n, *grid)`` at time 0; ``forcing`` is ``(*grid)``."""
    return np.stack([_trajectory(w, viscosity, forcing, times, step) for w in vorticity])


def _trajectory(w0: Array, viscosity: float, forcing: Array, times: Sequence[float], step: float | None) -> Array:
    n, m = w0.shape
    kx, ky = np.meshgrid(np.fft.fftfreq(n, 1 / n), np.fft.fftfreq(m, 1 / m), indexing="ij")
    keep = (3 * np.abs(kx) < n) & (3 * np.abs(ky) < m) & ((kx != 0) | (ky != 0))
    dx, dy = 2j * np.pi * kx, 2j * np.pi * ky
    square = 4 * np.pi**2 * (kx**2 + ky**2)
    inverse = np.where(keep, 1 / np.where(square == 0, 1, square), 0)
    force = np.fft.fft2(forcing) * keep

    def rate(w):
        psi = inverse * w
        u, v, w_x, w_y = (np.fft.ifft2(a).real for a in (dy * psi, -dx * psi, dx * w, dy * w))
        return force - keep * np.fft.fft2(u * w_x + v * w_y)

    largest = 1 / max(n, m) if step is None else step
    w = np.fft.fft2(w0) * keep
    frames, now = [], 0.0
    for time in times:
        steps = int(np.ceil((time - now) / largest * (1 - 1e-9)))
        h = (time - now) / steps
        half = np.exp(-viscosity * square * h / 2)
        for _ in range(steps):
            k1 = rate(w)
            k2 = rate(half * (w + h / 2 * k1))
            k3 = rate(half * w + h / 2 * k2)
            k4 = rate(half**2 * w + h * half * k3)
            w = half**2 * (w + h / 6 * k1) + h / 3 * half * (k2 + k3) + h / 6 * k4
        frames.append(np.fft.ifft2(w).real)
        now = time
    return np.stack(frames)
