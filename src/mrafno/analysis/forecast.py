r"""What more simulations will bring: a power law with a floor, fitted to a run's own learning curve.

With N examples until now and A the error now,

.. math:: E(n)^2 = A^2 \left((1 - \varphi) (n / N)^{-2p} + \varphi\right)

where :math:`\varphi` is the share of the squared error that the present mixture of meshes never lowers. Every power p
and share :math:`\varphi` on a grid is weighted by how well it explains the errors measured so far, with A and the
scatter of the errors integrated out; later errors count more, because the beginning of a curve says little of its end.
The forecast is the mixture of all of them, so it is as wide as the curve leaves open. Errors fall with the number of
examples rather than with their cost, most of which may be that of a few fine ones at the beginning.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrafno.analysis.curves import rounded_cost
from mrafno.grids import Array

#: Points of a learning curve below which nothing is forecast.
FEWEST_POINTS = 4
_POWERS = np.arange(0.05, 3.0, 0.05)
_FLOORS = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9])
#: Errors fall by a power of the number of examples like this one, within a factor: the standard deviation of its
#: logarithm.
_POWER, _POWER_DEVIATION = 0.8, 0.5
#: Weight of the floors: half for none to a twentieth.
_FLOOR_WEIGHTS = np.where(_FLOORS <= 0.05, 0.5 / 4, 0.5 / 7)
#: Scatter of the logarithms of errors around their curve, and how many errors that assumption counts for.
_SCATTER, _ASSUMED = 0.12, 3
#: A fit from scratch turns out better or worse than the last one: standard deviation of the logarithm of its error.
_FIT_DEVIATION = 0.2
#: Neighbouring errors have examples and weights in common: together they count at most for so many.
_MOST_POINTS = 8.0
#: Normal quantiles that the errors around each curve are represented by.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


@dataclass(frozen=True)
class ErrorForecast:
    """The error that a total cost will bring. Printed, it is a sentence.

    Attributes:
        cost: in all.
        error: as likely too high as too low; low, high: ends of the interval with a probability of 90 %.
    """

    cost: float
    error: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"about {self.error:.3g}, {self.low:.3g} to {self.high:.3g} with 90 % probability, at a total cost of "
            f"{self.cost:.4g}"
        )


@dataclass(frozen=True)
class CostForecast:
    """What it will cost to reach an error. Printed, it is a sentence.

    Attributes:
        error: to reach.
        more: cost beyond what was spent, as likely too high as too low; infinite if the error is as likely never
            reached with this mixture of meshes.
        low, high: ends of the interval with a probability of 90 %; infinite like ``more``.
        total: what was spent, and ``more``.
        seconds: how long it takes with ``workers`` simulations at a time; NaN if no simulation was timed.
    """

    error: float
    more: float
    low: float
    high: float
    total: float
    seconds: float = math.nan
    workers: int = 1

    def __str__(self) -> str:
        if self.more == 0:
            return f"an error of {self.error:.3g} is as likely reached as not"
        if math.isinf(self.low):
            return f"an error of {self.error:.3g} is out of reach"
        if math.isinf(self.more):
            return f"more than {rounded_cost(self.low)} more, to reach {self.error:.3g}"
        between = f"at least {rounded_cost(self.low)}"
        if not math.isinf(self.high):
            between = f"{rounded_cost(self.low)} to {rounded_cost(self.high)}"
        text = f"about {rounded_cost(self.more)} more, {between}, to reach {self.error:.3g}"
        if not math.isfinite(self.seconds):
            return text
        return f"{text}; {_duration(self.seconds)} at {self.workers} worker{'s' * (self.workers != 1)}"


@dataclass(frozen=True)
class LearningCurve:
    """The curves that measured errors leave open, each with its weight.

    Attributes:
        examples: N, their number until now.
        powers, floors, weights: of each curve, ``(n,)``.
        logarithms: of A for each curve, ``(n, nodes)``; node_weights: of these, ``(nodes,)``.
    """

    examples: float
    powers: Array
    floors: Array
    weights: Array
    logarithms: Array
    node_weights: Array

    @staticmethod
    def fit(examples: Sequence[float], errors: Sequence[float], *, deviation: float = 0.0) -> "LearningCurve | None":
        """Fit to errors with so many examples, fewest first; None for too few points.

        Args:
            deviation: standard deviation of the logarithm of a factor that all errors may be wrong by, as an estimate
                without test examples is.
        """
        n, e = np.asarray(examples, dtype=np.float64), np.asarray(errors, dtype=np.float64)
        kept = np.isfinite(e) & (e > 0) & (n > 0)
        n, y = n[kept], np.log(e[kept])
        if len(n) < FEWEST_POINTS or n[-1] <= n[0]:
            return None
        powers, floors = (grid.ravel() for grid in np.meshgrid(_POWERS, _FLOORS, indexing="ij"))
        counts = n / n[-1]
        counts *= min(len(n), _MOST_POINTS) / counts.sum()
        around = y - _shape(n / n[-1], powers, floors)  # (curves, points)
        total = counts.sum()
        centre = around @ counts / total
        squares = ((around - centre[:, None]) ** 2) @ counts
        variance = (squares + _ASSUMED * _SCATTER**2) / (total - 1 + _ASSUMED)
        prior = -0.5 * ((np.log(powers) - math.log(_POWER)) / _POWER_DEVIATION) ** 2
        prior += np.log(np.tile(_FLOOR_WEIGHTS, len(_POWERS)))
        fit = prior - 0.5 * (total - 1 + _ASSUMED) * np.log(squares + _ASSUMED * _SCATTER**2)
        weights = np.exp(fit - fit.max())
        # The error to come scatters around its curve as those before did.
        scale = np.sqrt(variance * (1 + 1 / total) + max(deviation, _FIT_DEVIATION) ** 2)
        logarithms = centre[:, None] + scale[:, None] * _NODES
        return LearningCurve(
            float(n[-1]), powers, floors, weights / weights.sum(), logarithms, _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
        )

    def error_at(self, examples: float) -> tuple[float, float, float]:
        """Median and ends of the 90 % interval of the error with so many examples."""
        shape = _shape(np.array([examples / self.examples]), self.powers, self.floors)
        low, middle, high = np.exp(self._quantiles(self.logarithms + shape))
        return float(middle), float(low), float(high)

    def examples_to_reach(self, error: float) -> tuple[float, float, float]:
        """Median and ends of the 90 % interval of the number of examples that reach an error; may be infinite."""
        above = (np.exp(2 * (math.log(error) - self.logarithms)) - self.floors[:, None]) / (1 - self.floors)[:, None]
        with np.errstate(divide="ignore"):
            ratios = np.where(above > 0, np.log(np.maximum(above, 1e-300)) / (-2 * self.powers[:, None]), np.inf)
        low, middle, high = np.exp(self._quantiles(np.maximum(ratios, 0.0))) * self.examples
        return float(middle), float(low), float(high)

    def _quantiles(self, values: Array) -> Array:
        weights = (self.weights[:, None] * self.node_weights).ravel()
        order = np.argsort(values, axis=None)
        shares = np.cumsum(weights[order])
        return np.asarray(values.ravel()[order][np.searchsorted(shares, np.array([0.05, 0.5, 0.95]) * shares[-1])])


def _shape(ratios: Array, powers: Array, floors: Array) -> Array:
    """Logarithm of E(n) / A for each curve at each ratio n / N, ``(curves, points)``."""
    falling = (1 - floors)[:, None] * ratios ** (-2 * powers[:, None])
    return np.asarray(0.5 * np.log(falling + floors[:, None]))


def _duration(seconds: float) -> str:
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"
