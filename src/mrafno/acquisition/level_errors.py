r"""What each level contributes to the squared error on the finest one, measured after a fit.

The squared error splits into shares: :math:`D_0`, which an example of any level lowers, and :math:`D_j`, which only
examples of level j and finer lower,

.. math:: D_0 = w_0\, x_0^2, \qquad D_j = w_j\, x_j^2, \qquad w_j = \overline{\max(1 - \delta_j^2, 0)}

with the relative errors :math:`x_0` of predictions on the coarsest level and :math:`x_j` of what is predicted as the
difference between levels j - 1 and j. :math:`w_j` is what outputs of level j say of the finest ones, with
:math:`\delta_j` their relative distance on inputs that were simulated on both.

Each error is estimated from two sources, as a mean of logarithms with the precision of each as weight:

- the **spread** of the networks over candidates, of their predictions or of the differences that they predict, times a
  ratio of error to spread. No label is needed, and no choice of examples makes it harder than candidates are;
- **out-of-fold errors** of single networks, of level j on inputs that were simulated on level j - 1 too. Chosen inputs
  are the hard ones, so they are known to be too large by an unknown factor.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

#: Ratio of the networks' error to their spread, and the standard deviation of its logarithm.
_ERROR_OF_SPREAD, _SPREAD_DEVIATION = 1.8, 0.35
#: Standard deviations of the logarithm of a relative error, and of what the choice of hard inputs adds to their mean.
_DEVIATION, _CHOSEN_DEVIATION = 0.6, 0.5
#: What a few examples of a level leave of its distance to the level below, and the deviation of that logarithm.
_LEFT, _LEFT_DEVIATION = 0.5, 0.7
#: Deviation of the logarithm of an error that is only an assumption.
_ASSUMED_DEVIATION = 1.0
#: A larger relative error says no more than that nothing is known; a smaller one is rounding.
_LARGEST, _LEAST = 1.0, 1e-12
#: Number of recent errors that count, where errors are those before training on an example.
_RECENT = 5


@dataclass(frozen=True)
class Share:
    """A level's share of the squared relative error on the finest level.

    Attributes:
        error: the estimate of its root, as likely too high as too low.
        deviation: standard deviation of its logarithm.
        number: out-of-fold errors that it rests on.
    """

    error: float
    deviation: float
    number: int

    @property
    def expected(self) -> float:
        """Expected value of the share, whose logarithm is a normal variable: an uncertain one counts for more."""
        return self.error**2 * math.exp(2 * self.deviation**2)


@dataclass(frozen=True)
class LevelErrors:
    """Shares of all levels after a fit, and the number of examples of each level then, coarse to fine."""

    counts: tuple[int, ...]
    shares: tuple[Share, ...]

    def as_json(self) -> dict[str, Any]:
        """As the ledger has it."""
        return {"counts": list(self.counts), "shares": [[s.error, s.deviation, s.number] for s in self.shares]}

    @classmethod
    def recorded(cls, values: dict[str, Any]) -> Self:
        """As the ledger has it."""
        return cls(tuple(values["counts"]), tuple(Share(float(e), float(d), int(n)) for e, d, n in values["shares"]))


@dataclass(frozen=True)
class LevelMeasurements:
    """What is measured on one level after a fit.

    Attributes:
        spread: mean over candidates of the relative spread of the networks' predictions on the coarsest level, of the
            difference to the next coarser level on others; None if this level is predicted as the one below.
        errors: out-of-fold errors, on others than the coarsest level those on inputs that were also simulated on the
            next coarser one.
        below: relative distances between outputs of the next coarser level and of this one, on the same inputs.
        finest: relative distances between outputs of this level and of the finest one, on the same inputs.
    """

    spread: float | None = None
    errors: Sequence[float] = ()
    below: Sequence[float] = ()
    finest: Sequence[float] = ()


def level_shares(levels: Sequence[LevelMeasurements]) -> tuple[Share, ...]:
    """The share of each level, coarse to fine, from what was measured on it."""
    found: list[Share] = []
    coarser = 1.0
    for measured in levels:
        sources: list[tuple[float, float]] = []
        if measured.spread is not None:
            sources.append((_ERROR_OF_SPREAD * measured.spread, _SPREAD_DEVIATION))
        if len(measured.errors):
            sources.append(
                (_mean(measured.errors), math.hypot(_DEVIATION / len(measured.errors) ** 0.5, _CHOSEN_DEVIATION))
            )
        if len(measured.below):
            left = _LEFT if measured.spread is not None else 1.0
            sources.append((left * _mean(measured.below), _LEFT_DEVIATION))
        error, deviation = _combined(sources or [(coarser, _ASSUMED_DEVIATION)])
        says = float(np.mean([max(1 - d**2, 0.0) for d in measured.finest])) if len(measured.finest) else 1.0
        found.append(Share(math.sqrt(says) * error, deviation, len(measured.errors)))
        coarser = error
    return tuple(found)


def shares_from_recent(errors: Iterable[tuple[int, float]], levels: int) -> tuple[Share, ...]:
    """The same from level and error of each chosen example before the surrogate was trained on it, in order.

    For surrogates of one network, which have neither spread nor out-of-fold errors. A level's own error is by how much
    the square of its errors is larger than that of the level below.
    """
    by_level: list[list[float]] = [[] for _ in range(levels)]
    for level, error in errors:
        by_level[level].append(error)
    found: list[Share] = []
    below = 0.0
    for values in by_level:
        recent = values[-_RECENT:]
        error = _mean(recent) if recent else max(below, _LARGEST if not found else 0.0)
        own = math.sqrt(max(error**2 - below**2, 0.0)) if recent or not found else below
        found.append(Share(own, _DEVIATION / max(len(recent), 1) ** 0.5, len(recent)))
        below = max(error, below)
    return tuple(found)


def _mean(values: Sequence[float]) -> float:
    """Mean of errors; NaN is no knowledge."""
    return float(np.mean(np.fmin(values, _LARGEST)))


def _combined(sources: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean of estimates with given deviations of their logarithms, and its own deviation."""
    weights = [1 / deviation**2 for _, deviation in sources]
    logs = [math.log(max(value, _LEAST)) for value, _ in sources]
    total = sum(weights)
    return math.exp(sum(w * x for w, x in zip(weights, logs, strict=True)) / total), total**-0.5
