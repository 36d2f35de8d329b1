r"""How likely outputs are under a prediction, and the shift of the noise that makes held-in outputs most likely.

A prediction's samples are matched by one Gaussian, :math:`y \sim N(\bar\mu, \lambda I + B B^T)` with
:math:`B = [\mu_s - \bar\mu] / \sqrt{S - 1}` and :math:`\lambda` the average noise. ``marginal`` keeps its diagonal only:
every value by itself, which is what an interval at a point states.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from mrafno.grids import Array
from mrafno.records import Prediction


def gaussian_nll(prediction: Prediction, truth: Array) -> Array:
    r"""Negative log likelihood of each output, ``(n,)`` nats, under the matched Gaussian with its full covariance.

    .. math:: \tfrac12 \left(d \log 2\pi\lambda + \log\det(I + G) +
        \tfrac1\lambda\left(|r|^2 - (B^T r)^T (I + G)^{-1} B^T r / \lambda\right)\right), \quad G = B^T B / \lambda
    """
    n, d = len(truth), int(np.prod(truth.shape[1:]))
    noise = prediction.noise
    residual = (truth - prediction.center).reshape(n, d)
    squares = np.sum(residual**2, axis=1)
    if prediction.samples == 1:
        return np.asarray(0.5 * (d * np.log(2 * np.pi * noise) + squares / noise))
    deviations = (prediction.mean - prediction.center).reshape(prediction.samples, n, d) / math.sqrt(
        prediction.samples - 1
    )
    gram = np.einsum("snd,tnd->nst", deviations, deviations, optimize=True) / noise[:, None, None]
    inner = np.eye(prediction.samples) + gram
    projected = np.einsum("snd,nd->ns", deviations, residual, optimize=True)
    solved = np.linalg.solve(inner, projected[..., None])[..., 0]
    quadratic = (squares - np.sum(projected * solved, axis=1) / noise) / noise
    return np.asarray(0.5 * (d * np.log(2 * np.pi * noise) + np.linalg.slogdet(inner)[1] + quadratic))


def marginal_nll(prediction: Prediction, truth: Array) -> Array:
    """Negative log likelihood of each output, ``(n,)`` nats, every value by itself."""
    variance = prediction.std**2
    values = np.log(2 * np.pi * variance) + (truth - prediction.center) ** 2 / variance
    return np.asarray(0.5 * values.reshape(len(truth), -1).sum(axis=1))


def best_shift(held_in: list[tuple[Prediction, Array]], bounds: tuple[float, float] = (-4.0, 12.0)) -> float:
    """What to add to every log-variance so that the values of held-in outputs are most likely.

    Every example counts the same, whatever its grid.
    """
    pairs = [(p, y) for p, y in held_in if len(y)]
    if not pairs:
        return 0.0

    def cost(shift: float) -> float:
        total, count = 0.0, 0
        for prediction, truth in pairs:
            moved = Prediction(prediction.mean, prediction.log_var + shift)
            total += float(np.sum(marginal_nll(moved, truth))) / math.prod(truth.shape[1:])
            count += len(truth)
        return total / count

    return float(minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x)
