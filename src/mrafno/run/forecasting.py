"""Forecasts from a run's state: its learning curve, and how long its simulations and fits took.

The curve is that of the errors on test examples where there are four or more of them, and of the run's own estimates
otherwise; then the forecast is as much wider as the last estimate is uncertain.
"""

import math
from collections.abc import Iterator
from statistics import median

from mrafno.analysis.estimate import Estimate
from mrafno.analysis.forecast import FEWEST_POINTS, CostForecast, ErrorForecast, LearningCurve
from mrafno.run.state import RunState

#: Normal quantile of 95 %: an estimate's interval is twice as many standard deviations wide.
_QUANTILE = 1.645


def learning_curve(state: RunState) -> LearningCurve | None:
    """The curves that a run's errors leave open, over the number of its examples; None while too few are known."""
    measured = state.measurements
    if len(measured) >= FEWEST_POINTS:
        first = len(state.of_kind("initial", "told"))
        return LearningCurve.fit([first + e.step for e in measured], [e.metrics["relative_l2"] for e in measured])
    found = list(estimates(state))
    if len(found) < FEWEST_POINTS:
        return None
    last = found[-1][1]
    deviation = math.log(last.high / last.low) / (2 * _QUANTILE) if last.low > 0 else 0.0
    return LearningCurve.fit([n for n, _ in found], [e.error for _, e in found], deviation=deviation)


def estimates(state: RunState) -> Iterator[tuple[int, Estimate]]:
    """The run's own estimate after each fit, with the number of examples then."""
    examples = 0
    for training in state.trainings:
        examples += len(training.added)
        if training.estimate is not None:
            yield examples, training.estimate


def price(state: RunState) -> float | None:
    """What one more example costs: the mean over the later half of the chosen ones; None before there are any."""
    costs = [query.cost for query in state.of_kind("pool", "told")]
    recent = costs[len(costs) // 2 :]
    return math.fsum(recent) / len(recent) if recent and math.fsum(recent) > 0 else None


def forecast_error(state: RunState, cost: float) -> ErrorForecast | None:
    """The error that a total cost will bring."""
    curve, one = learning_curve(state), price(state)
    if curve is None or one is None:
        return None
    return ErrorForecast(cost, *curve.error_at(curve.examples + (cost - state.spent.total) / one))


def forecast_cost(state: RunState, error: float, workers: int = 1) -> CostForecast | None:
    """What it will cost to reach an error."""
    curve, one = learning_curve(state), price(state)
    if curve is None or one is None:
        return None
    more, low, high = (max(n - curve.examples, 0.0) * one for n in curve.examples_to_reach(error))
    seconds = more * _seconds_per_cost(state, workers)
    return CostForecast(error, more, low, high, state.spent.total + more, seconds, workers)


def _seconds_per_cost(state: RunState, workers: int) -> float:
    """Seconds of simulation and of fits that a unit of cost takes; NaN if no simulation was timed."""
    chosen = [q for q in state.of_kind("pool", "told") if q.cost > 0]
    simulated = [q.seconds / q.cost for q in chosen if q.seconds is not None]
    if not simulated:
        return math.nan
    fits = math.fsum(t.seconds for t in state.trainings[1:]) / math.fsum(q.cost for q in chosen)
    return median(simulated) / workers + fits
