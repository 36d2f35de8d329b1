r"""The error of an ensemble's mean on the finest mesh, without test examples, and an interval for it.

Every network of the ensemble leaves out its own fold of the examples. Its errors there are those of the very network
that predicts, so their mean is an unbiased estimate of the networks' mean error x. Three sources say what x is, and are
combined as likelihoods of its logarithm:

- **fine**: out-of-fold errors on the finest mesh. Logarithms of relative errors are spread widely, so a few errors know
  their mean badly: :math:`\log x \sim N(\overline{\log e} + \log k, \sigma^2 / n)`, where :math:`k` is the ratio of
  mean and geometric mean, and :math:`\sigma` and :math:`k` are those of the errors of all meshes together;
- **spread**: how far the networks are apart on candidates, S, which no label is needed for, and no choice of examples
  makes harder than candidates are: :math:`x \approx \kappa S`, within a factor, with tails as of Student's t, and not
  less than S;
- **coarse**: out-of-fold errors on coarser meshes, of which there are more. What a network does not know of coarse
  solutions it hardly knows of fine ones: x is not much lower than they are, unless the coarse mesh says little of the
  fine one.

The mean of the networks is closer to the truth than they are. For squares that is exact,
:math:`\overline{|\mu_m - y|^2} = |\bar\mu - y|^2 + \overline{|\mu_m - \bar\mu|^2}`, so

.. math:: E = x \sqrt{1 - c\, (S / x)^2}

where c, close to one, makes up for means of ratios in place of ratios of means.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mrafno.grids import Array

#: Ratio of the networks' mean error to their spread, and the standard deviation of its logarithm.
_ERROR_OF_SPREAD, _SPREAD_DEVIATION = 1.8, 0.35
#: Smallest such ratio: the networks' squared error is at least their squared spread, as the formula above says.
_LEAST_RATIO = 1.15
#: Degrees of freedom of the tails of that logarithm.
_SPREAD_FREEDOM = 4
#: Standard deviation of logarithms of relative errors, and how many errors that assumption counts for.
_DEVIATION, _ASSUMED = 0.6, 4
#: Standard deviation of how far fine errors may be below coarse ones, and the share of problems where they may be at
#: any distance.
_COARSE_DEVIATION, _UNRELATED = 0.25, 0.1
#: See c above; and the standard deviation of the logarithm of what it leaves open.
_SQUARES, _OWN_DEVIATION = 0.85, 0.1
#: Normal quantile of 95 %.
_QUANTILE = 1.645
#: Logarithms of the error that are considered, and errors below which one is rounding.
_LOGARITHMS = np.linspace(math.log(1e-8), math.log(1e2), 4001)
_LEAST = 1e-12


@dataclass(frozen=True)
class Estimate:
    """The relative L2 error of the ensemble's mean on the finest mesh, over inputs like the candidates.

    Attributes:
        error: as likely too high as too low.
        low, high: ends of the interval that holds the error with a probability of 90 %.
        fine: out-of-fold errors on the finest mesh that it rests on; coarse: those on coarser meshes.
        spread: mean relative distance of the networks from their mean; candidates: on how many of these.
        skewness: how unequal the errors of inputs are: the logarithm of their root mean square over their mean, within
            meshes. 0 where all inputs are equally hard, so that choosing them gains nothing; above .2 where few hard
            ones decide. None if it was not recorded.
    """

    error: float
    low: float
    high: float
    fine: int
    coarse: int
    spread: float
    candidates: int
    skewness: float | None = None

    @property
    def interval(self) -> str:
        """Error and interval, in short."""
        return f"{self.error:.3g} ({self.low:.3g} to {self.high:.3g})"

    @property
    def basis(self) -> str:
        """What it rests on, in words."""
        coarse = f" and {self.coarse} on coarser meshes" if self.coarse else ""
        return (
            f"{self.fine} errors on the finest mesh{coarse}, each of a network that was not trained on the example, "
            f"and the spread of the networks over {self.candidates} candidates"
        )

    def __str__(self) -> str:
        return f"{self.error:.3g} ({self.low:.3g} to {self.high:.3g} with 90 % probability), from {self.basis}"

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def estimate_error(errors: Sequence[Sequence[float] | Array], spreads: Sequence[float] | Array) -> Estimate | None:
    """Estimate the error of an ensemble's mean on the finest mesh; None if no error was measured there.

    Args:
        errors: of each level, coarse to fine, relative L2 errors of single networks on examples that they were not
            trained on.
        spreads: for each of some candidates, the root mean square distance of the networks' predictions on the finest
            mesh from their mean, relative to the mean's norm.
    """
    logs = [np.log(np.maximum(np.asarray(level, dtype=np.float64), _LEAST)) for level in errors]
    spread = float(np.mean(spreads)) if len(spreads) else math.nan
    if not logs or not len(logs[-1]) or not (math.isfinite(spread) and all(np.isfinite(x).all() for x in logs)):
        return None
    spread = max(spread, _LEAST)
    variance, ratio = _shape(logs)
    posterior = _spread_likelihood(spread) + _fine_likelihood(logs[-1].mean() + ratio, variance / len(logs[-1]))
    for coarse in logs[:-1]:
        if len(coarse):
            posterior += _coarse_likelihood(coarse.mean() + ratio, variance / len(coarse))
    weights = np.cumsum(np.exp(posterior - posterior.max()))
    error, low, high = (
        _of_mean(math.exp(_LOGARITHMS[np.searchsorted(weights, share * weights[-1])]), spread)
        for share in (0.5, 0.05, 0.95)
    )
    low = error * math.exp(-math.hypot(math.log(error / low), _QUANTILE * _OWN_DEVIATION))
    high = error * math.exp(math.hypot(math.log(high / error), _QUANTILE * _OWN_DEVIATION))
    counts = [len(level) for level in logs]
    return Estimate(error, low, high, counts[-1], sum(counts[:-1]), spread, len(spreads), _skewness(logs))


def _shape(logs: Sequence[Array]) -> tuple[float, float]:
    """Variance of logarithms of errors, and log of mean over geometric mean, of all levels together."""
    around = np.concatenate([np.empty(0), *(level - level.mean() for level in logs if len(level) > 1)])
    freedom = len(around) - sum(len(level) > 1 for level in logs)
    variance = (_ASSUMED * _DEVIATION**2 + float(np.sum(around**2))) / (_ASSUMED + freedom)
    assumed = _ASSUMED * math.exp(_DEVIATION**2 / 2)
    return variance, math.log((assumed + float(np.exp(around).sum())) / (_ASSUMED + len(around)))


def _skewness(logs: Sequence[Array]) -> float:
    """Logarithm of the ratio of root mean square and mean of the errors, each divided by its mesh's mean."""
    relative = np.concatenate([np.exp(level) / np.exp(level).mean() for level in logs if len(level)])
    return 0.5 * math.log(float(np.mean(relative**2)))


def _fine_likelihood(centre: float, variance: float) -> Array:
    return np.asarray(-0.5 * (_LOGARITHMS - centre) ** 2 / variance)


def _spread_likelihood(spread: float) -> Array:
    scaled = (_LOGARITHMS - math.log(_ERROR_OF_SPREAD * spread)) / _SPREAD_DEVIATION
    found = -(_SPREAD_FREEDOM + 1) / 2 * np.log1p(scaled**2 / _SPREAD_FREEDOM)
    return np.where(math.log(_LEAST_RATIO * spread) > _LOGARITHMS, -np.inf, found)


def _coarse_likelihood(centre: float, variance: float) -> Array:
    scaled = (_LOGARITHMS - centre) / math.sqrt(2 * (variance + _COARSE_DEVIATION**2))
    below = np.array([0.5 * (1 + math.erf(value)) for value in scaled])
    return np.asarray(np.log(_UNRELATED + (1 - _UNRELATED) * below))


def _of_mean(error: float, spread: float) -> float:
    """The error of the networks' mean, from that of the networks."""
    return error * math.sqrt(1 - _SQUARES * min(spread / error, 1.0) ** 2)
