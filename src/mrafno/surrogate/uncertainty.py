r"""Likelihood of outputs under a prediction, and the shift of the noise that out-of-fold outputs call for.

A prediction's samples are matched by one Gaussian, :math:`y \sim N(\bar\mu, \lambda I + B B^T)` with
:math:`B = [\mu_s - \bar\mu] / \sqrt{S - 1}` and :math:`\lambda` the average noise. ``marginal`` keeps its diagonal
only, as intervals at single points do.
"""

import math

import numpy as np

from mrafno.grids import Array
from mrafno.surrogate.prediction import Prediction

#: Share of the squared residuals that is noise, at least; and the bounds of a shift.
_LEAST_SHARE, _BOUNDS = 0.05, (-3.0, 12.0)
#: Variances below this are rounding.
_TINY = 1e-300
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


def balancing_shift(residual: Array, noise: Array, spread: Array) -> float:
    r"""The shift of all log-variances with which out-of-fold values have the variance that is predicted, on average.

    .. math:: e^{shift} = (\overline{r^2} - \overline{s}) / \overline{\lambda}

    It is the averages that are balanced, and not the likelihood of every value: where a network was not trained on an
    example and the others were, the spread there is the network's own residual again. Value by value it explains
    nearly all of it, and no noise would be left.

    Args:
        residual: truth minus the mean of the network that was not trained on it, ``(n, d)``.
        noise: the prediction's noise :math:`\lambda`, ``(n,)``.
        spread: variance s that the residuals have beyond the noise, ``(n, d)``.
    """
    if not len(residual):
        return 0.0
    squares = float(np.mean(residual**2))
    rest = max(squares - float(np.mean(spread)), _LEAST_SHARE * squares)
    return float(np.clip(np.log(max(rest, _TINY) / max(float(np.mean(noise)), _TINY)), *_BOUNDS))
