r"""Error against accumulated cost: interpolation, common costs, bands over several runs.

Between two measurements the logarithm of the error is linear in the cost. Before the first measurement and after the
last one the error is unknown; there is no extrapolation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mrafno.errors import MrafnoError
from mrafno.grids import Array

#: Errors below this are rounding; it avoids the logarithm of zero.
_LEAST = 1e-12
#: Leading digits of round numbers, from few to many.
_ROUND: tuple[tuple[float, ...], ...] = (
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 7),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
    tuple(i / 10 for i in range(10, 100)),
)


@dataclass(frozen=True)
class Curve:
    """Measured errors and the accumulated costs at which they were measured, in the order of cost."""

    costs: tuple[float, ...]
    errors: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.costs or len(self.costs) != len(self.errors):
            raise MrafnoError(f"curve: {len(self.costs)} costs and {len(self.errors)} errors. Give one cost per error.")
        if not all(math.isfinite(cost) for cost in self.costs) or any(b < a for a, b in pairwise(self.costs)):
            raise MrafnoError(f"curve: the costs {self.costs} must be finite and must not decrease.")
        if not all(error >= 0 and math.isfinite(error) for error in self.errors):
            raise MrafnoError(f"curve: the errors {self.errors} must be finite, 0 or more.")


@dataclass(frozen=True)
class Band:
    """Several curves at common costs: geometric mean, lowest and highest error."""

    costs: Array
    middle: Array
    low: Array
    high: Array


def cost_to_reach(curve: Curve, error: float) -> float | None:
    """The cost at which the curve is first at or below an error; None if it never is.

    The first crossing counts, so an error that rises again later does not undo it: the answer is the same for the
    running minimum of the errors.
    """
    if not error > 0:
        raise MrafnoError(f"curve: an error to reach must be positive, got {error}.")
    reached = next((i for i, measured in enumerate(curve.errors) if measured <= error), None)
    if not reached:
        return None if reached is None else curve.costs[0]
    (c0, c1), (e0, e1) = curve.costs[reached - 1 : reached + 1], curve.errors[reached - 1 : reached + 1]
    fall = _log(e0) - _log(e1)
    return c0 + (c1 - c0) * ((_log(e0) - _log(error)) / fall if fall else 1.0)


def at_costs(curves: Sequence[Curve], grid: Sequence[float] | Array) -> Array:
    """Interpolated errors ``(len(curves), len(grid))``; NaN outside of the measured costs of a curve."""
    x = np.asarray(grid, dtype=np.float64)
    rows = [
        np.exp(np.interp(x, curve.costs, [_log(e) for e in curve.errors], left=np.nan, right=np.nan))
        for curve in curves
    ]
    return np.array(rows, dtype=np.float64).reshape(len(curves), len(x))


def area(curve: Curve, upto: float) -> float:
    r"""The area under the curve from its first cost to another, :math:`\int e(c)\, dc`.

    Divided by the length of the cost range it is the mean error on the way. Errors count as they were measured, also
    where they rise; for the running minimum, make a curve of that.
    """
    if not curve.costs[0] <= upto <= curve.costs[-1]:
        raise MrafnoError(
            f"curve: it was measured from cost {curve.costs[0]:g} to {curve.costs[-1]:g}, there is no area up to "
            f"{upto:g}. Choose a cost that all curves have reached."
        )
    end = float(at_costs([curve], [upto])[0, 0])
    points = [(c, e) for c, e in zip(curve.costs, curve.errors, strict=True) if c < upto] + [(upto, end)]
    return math.fsum((c1 - c0) * _log_mean(e0, e1) for (c0, e0), (c1, e1) in pairwise(points))


def common_costs(curves: Sequence[Curve]) -> Array:
    """Costs at which any of the curves was measured, within the range where all are known; may be empty."""
    first, last = max(c.costs[0] for c in curves), min(c.costs[-1] for c in curves)
    every = np.unique(np.concatenate([c.costs for c in curves]))
    return np.asarray(every[(every >= first) & (every <= last)])


def band(curves: Sequence[Curve]) -> Band:
    """Mean and range of several curves, over the costs that all of them have."""
    costs = common_costs(curves)
    errors = at_costs(curves, costs)
    middle = np.exp(np.log(np.maximum(errors, _LEAST)).mean(axis=0))
    return Band(costs, middle, errors.min(axis=0), errors.max(axis=0))


def round_errors(low: float, high: float, most: int = 5) -> list[float]:
    """At most ``most`` round numbers from below ``high`` down to ``low``, with as few digits as possible."""
    if not 0 < low < high:
        return []
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in _ROUND:
        # By way of text, to get the nearest double to 0.05 instead of 5 times a power of ten.
        every = [float(f"{digit:g}e{exponent}") for exponent in exponents for digit in digits]
        found = sorted({error for error in every if low <= error < high}, reverse=True)
        if len(found) >= min(3, most):
            break
    kept = np.linspace(0, len(found) - 1, min(most, len(found))).round().astype(int)
    return [found[i] for i in kept]


def _log(error: float) -> float:
    return math.log(max(error, _LEAST))


def _log_mean(a: float, b: float) -> float:
    """The mean of a function whose logarithm is linear from one value to the other."""
    a, b = max(a, _LEAST), max(b, _LEAST)
    fall = math.log(b / a)
    return a * math.expm1(fall) / fall if fall else a


def rounded_cost(cost: float) -> str:
    """A cost in three significant digits, or as a whole number from 100 on."""
    return f"{cost:.0f}" if cost >= 100 else f"{cost:.3g}"
