r"""Likelihood of outputs under a prediction, and the shift of the noise that makes out-of-fold outputs most likely.

A prediction's samples are matched by one Gaussian, :math:`y \sim N(\bar\mu, \lambda I + B B^T)` with
:math:`B = [\mu_s - \bar\mu] / \sqrt{S - 1}` and :math:`\lambda` the average noise. ``marginal`` keeps its diagonal
only, as intervals at single points do.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

from mrafno.grids import Array
from mrafno.surrogate.prediction import Prediction

#: Central intervals whose coverage is measured.
INTERVALS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def gaussian_nll(prediction: Prediction, truth: Array) -> Array:
    r"""Negative log likelihood of each output, ``(n,)`` nats, under the matched Gaussian with its full covariance.

    .. math:: \tfrac12 \left(d \log 2\pi\lambda + \log\det(I + G) +
        \tfrac1\lambda\left(|r|^2 - (B^T r)^T (I + G)^{-1} B^T r / \lambda\right)\right), \quad G = B^T B / \lambda
    """
    n, d = len(truth), int(np.prod(truth.shape[1:]))
    noise = prediction.noise
    residual = (truth - prediction.mean).reshape(n, d)
    squares = np.sum(residual**2, axis=1)
    if prediction.sample_count == 1:
        return np.asarray(0.5 * (d * np.log(2 * np.pi * noise) + squares / noise))
    deviations = (prediction.samples - prediction.mean).reshape(prediction.sample_count, n, d) / math.sqrt(
        prediction.sample_count - 1
    )
    gram = np.einsum("snd,tnd->nst", deviations, deviations, optimize=True) / noise[:, None, None]
    inner = np.eye(prediction.sample_count) + gram
    projected = np.einsum("snd,nd->ns", deviations, residual, optimize=True)
    solved = np.linalg.solve(inner, projected[..., None])[..., 0]
    quadratic = (squares - np.sum(projected * solved, axis=1) / noise) / noise
    return np.asarray(0.5 * (d * np.log(2 * np.pi * noise) + np.linalg.slogdet(inner)[1] + quadratic))


def marginal_nll(prediction: Prediction, truth: Array) -> Array:
    """Negative log likelihood of each output, ``(n,)`` nats, with independent values."""
    variance = prediction.std**2
    values = np.log(2 * np.pi * variance) + (truth - prediction.mean) ** 2 / variance
    return np.asarray(0.5 * values.reshape(len(truth), -1).sum(axis=1))


def best_shift(
    residuals: list[Array],
    noises: list[Array],
    spreads: list[Array],
    weights: Sequence[float] | None = None,
    bounds: tuple[float, float] = (-3.0, 12.0),
) -> float:
    r"""The shift of all log-variances that makes out-of-fold values most likely.

    Args:
        residuals: truth minus the mean of the network that was not trained on it, one array ``(n, d)`` per level.
        noises: the prediction's noise :math:`\lambda`, ``(n,)`` per level.
        spreads: variance that the residuals have beyond the noise, ``(n, d)`` per level.
        weights: of each example of a level, whatever its grid; None for the same.
    """
    weights = [1.0] * len(residuals) if weights is None else weights
    parts = [part for part in zip(residuals, noises, spreads, weights, strict=True) if len(part[0])]
    if not parts:
        return 0.0

    def cost(shift: float) -> float:
        total, count = 0.0, 0.0
        for residual, noise, spread, weight in parts:
            variance = spread + math.exp(shift) * noise[:, None]
            total += weight * float(np.sum(np.mean(np.log(variance) + residual**2 / variance, axis=1)))
            count += weight * len(residual)
        return total / count

    return float(minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x)
