r"""Gaussian random fields on a uniform grid, drawn exactly from the eigenfunctions of their covariance.

Every function takes one random generator per field, so that a field does not depend on how many are drawn with it.
"""

from collections.abc import Sequence

import numpy as np
import scipy.fft
import scipy.linalg

from mrafno.grids import Array


def neumann_field(rngs: Sequence[np.random.Generator], shape: tuple[int, ...], *, shift: float, power: float) -> Array:
    r"""Fields at cell centres with covariance :math:`(-\Delta + s)^{-p}`, zero Neumann boundary, unit box.

    .. math:: a(x) = \sum_k \xi_k (\pi^2 |k|^2 + s)^{-p/2} \prod_i \phi_{k_i}(x_i),
        \quad \phi_0 = 1, \; \phi_k = \sqrt 2 \cos(\pi k x), \; \xi_k \sim N(0, 1)

    over the modes that the grid resolves. Gives ``(len(rngs), *shape)``.
    """
    squares = sum(np.ix_(*[np.arange(n, dtype=float) ** 2 for n in shape]))
    amplitude = (np.pi**2 * squares + shift) ** (-power / 2)
    # The orthonormal cosine transform of n points is phi_k / sqrt(n).
    scale = float(np.sqrt(np.prod(shape)))
    noise = np.stack([rng.standard_normal(shape) for rng in rngs]) if rngs else np.zeros((0, *shape))
    axes = tuple(range(1, 1 + len(shape)))
    return np.asarray(scipy.fft.idctn(noise * amplitude * scale, axes=axes, norm="ortho"), dtype=np.float64)


def periodic_field(
    rngs: Sequence[np.random.Generator], shape: tuple[int, ...], *, scale: float, shift: float, power: float
) -> Array:
    r"""Periodic fields on the unit torus with covariance :math:`c\,(-\Delta + s)^{-p}` and zero mean.

    The eigenvalue of the mode :math:`e^{2 \pi i k x}` is :math:`c\,(4 \pi^2 |k|^2 + s)^{-p}`. The constant mode and the
    unpaired Nyquist modes are left out. Gives ``(len(rngs), *shape)``.
    """
    waves = [np.fft.fftfreq(n, 1 / n) for n in shape]
    squares = sum(np.ix_(*[k**2 for k in waves]))
    amplitude = np.sqrt(scale) * (4 * np.pi**2 * squares + shift) ** (-power / 2)
    amplitude[(0,) * len(shape)] = 0.0
    for axis, n in enumerate(shape):
        if n % 2 == 0:
            np.moveaxis(amplitude, axis, 0)[n // 2] = 0.0
    axes = tuple(range(1, 1 + len(shape)))
    noise = np.stack([rng.standard_normal(shape) for rng in rngs]) if rngs else np.zeros((0, *shape))
    # White noise on N points has N-fold variance in each mode of the unnormalised transform.
    points = float(np.prod(shape))
    spectrum = scipy.fft.fftn(noise, axes=axes) * amplitude * np.sqrt(points)
    return np.asarray(scipy.fft.ifftn(spectrum, axes=axes).real, dtype=np.float64)


def rbf_process(rngs: Sequence[np.random.Generator], points: Array, *, length_scale: float) -> Array:
    r"""Gaussian processes with covariance :math:`\exp(-(x - z)^2 / 2 \ell^2)` at ``points``: ``(len(rngs), n)``."""
    kernel = np.exp(-0.5 * ((points[:, None] - points[None, :]) / length_scale) ** 2)
    # The kernel is singular to machine precision, so no Cholesky factor; its symmetric root is unique, which makes the
    # same noise the same function on every machine.
    values, vectors = scipy.linalg.eigh(kernel)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    # One product per function: a product of all of them would round differently for another number of functions.
    draws = [root @ rng.standard_normal(len(points)) for rng in rngs]
    return np.stack(draws) if draws else np.zeros((0, len(points)))
