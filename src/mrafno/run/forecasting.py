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
    """The curves that a run's errors leave open, over the cost of its examples; None while too few are known."""
    measured = state.error_curve(count="training")
    if measured is not None and len(measured.costs) >= FEWEST_POINTS:
        return LearningCurve.fit(measured.costs, measured.errors)
    found = list(estimates(state))
    if len(found) < FEWEST_POINTS:
        return None
    last = found[-1][1]
    deviation = math.log(last.high / last.low) / (2 * _QUANTILE) if last.low > 0 else 0.0
    return LearningCurve.fit([c for c, _ in found], [e.error for _, e in found], deviation=deviation)


def estimates(state: RunState) -> Iterator[tuple[float, Estimate]]:
    """The run's own estimate after each fit, with the cost of the examples until then, failures included at the end."""
    spent = 0.0
    for training in state.trainings:
        spent += math.fsum(state.queries[id].cost for id in training.added if not state.queries[id].imported)
        if training.estimate is not None:
            yield spent, training.estimate


def forecast_error(state: RunState, cost: float) -> ErrorForecast | None:
    """The error that a total cost will bring."""
    curve = learning_curve(state)
    if curve is None:
        return None
    return ErrorForecast(cost, *curve.error_at(curve.cost + cost - state.spent.total))


def forecast_cost(state: RunState, error: float, workers: int = 1) -> CostForecast | None:
    """What it will cost to reach an error."""
    curve = learning_curve(state)
    if curve is None:
        return None
    more, low, high = (max(cost - curve.cost, 0.0) for cost in curve.cost_to_reach(error))
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
