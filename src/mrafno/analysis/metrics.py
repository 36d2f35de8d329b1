"""Metrics on held-out examples; training never imports this."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from mrafno.grids import Array, relative_l2
from mrafno.surrogate import Surrogate
from mrafno.surrogate.prediction import Prediction
from mrafno.surrogate.uncertainty import INTERVALS, gaussian_nll, marginal_nll


@dataclass(frozen=True)
class Metrics:
    """Metrics of a surrogate on held-out examples of one level.

    Attributes:
        relative_l2: mean over examples, of the samples' mean, in physical units.
        nll: negative log likelihood of a function in normalised units: of every value under its own Gaussian, summed
            over the values, mean over examples.
        nll_per_value: the same divided by the number of values.
        nll_joint: under the matched Gaussian with its covariance between values, mean over examples.
        coverage: share of the values inside the central interval of each probability.
    """

    relative_l2: float
    nll: float
    nll_per_value: float
    nll_joint: float
    coverage: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """As JSON values, with None in place of infinity and NaN."""
        values = {name: _number(value) for name, value in asdict(self).items() if name != "coverage"}
        return {**values, "coverage": {name: _number(value) for name, value in self.coverage.items()}}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def coverage(prediction: Prediction, truth: Array, probability: float) -> float:
    """Share of the values inside the prediction's central intervals of this probability."""
    half_width = norm.ppf(0.5 + probability / 2) * prediction.std
    return float(np.mean(np.abs(truth - prediction.mean) <= half_width))


def evaluate(surrogate: Surrogate, f: Array, truth: Array, level: int | None = None) -> Metrics:
    """Metrics on inputs ``(n, in_channels, *grid)`` and outputs ``(n, out_channels, *grid)`` of a level."""
    prediction = surrogate.predict(f, level, units="normalised")
    normaliser = surrogate.normaliser
    assert normaliser is not None, "predict has checked that the surrogate is fitted"
    target = normaliser.outputs(truth)
    mean = normaliser.physical(prediction.mean, surrogate.domain.dim)
    total = float(np.mean(marginal_nll(prediction, target)))
    return Metrics(
        relative_l2=float(np.mean(relative_l2(mean, truth, normaliser.typical_norm(truth.shape[2:])))),
        nll=total,
        nll_per_value=total / float(np.prod(truth.shape[1:])),
        nll_joint=float(np.mean(gaussian_nll(prediction, target))),
        coverage={f"{p:g}": coverage(prediction, target, p) for p in INTERVALS},
    )
