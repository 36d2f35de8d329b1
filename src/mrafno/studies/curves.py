"""Comparison of error against accumulated cost, methods by seeds.

Between measurements the logarithm of the error is a straight line over the cost (:mod:`mrafno.analysis.curves`). The
mean curve of a method is the mean of its seeds' errors at equal costs, over the costs that all of them have reached.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrafno.analysis.curves import Curve, area, at_costs, common_costs, cost_to_reach, round_errors
from mrafno.errors import MrafnoError
from mrafno.studies.active import Result
from mrafno.studies.summary import Spread

#: Methods of the paper and of this package that weigh information against cost; the others are baselines.
OURS = ("mra-uhat", "mra-u", "mra-auto")
#: The method whose final error and cost are the reference for savings.
REFERENCE = "random-high"
#: Share of the common cost range over which methods are compared: its end, since all start equal.
PART = 2 / 3
_POINTS = 2001


@dataclass(frozen=True)
class MeanCurve:
    """The mean of curves where all are known, with the lowest and the highest."""

    curve: Curve
    lowest: Curve
    highest: Curve
    n: int

    @staticmethod
    def of(curves: Sequence[Curve]) -> "MeanCurve":
        """Of the curves of one method."""
        costs = common_costs(curves)
        errors = at_costs(curves, costs)
        middle, low, high = (
            Curve(tuple(costs.tolist()), tuple(values.tolist()))
            for values in (errors.mean(axis=0), errors.min(axis=0), errors.max(axis=0))
        )
        return MeanCurve(middle, low, high, len(curves))


@dataclass(frozen=True)
class Reach:
    """Cost to reach an error, over those of ``n`` seeds that reached it."""

    error: float
    cost: Spread | None
    n: int


@dataclass(frozen=True)
class Row:
    """A row of the table: one method.

    Attributes:
        steps: of the shortest and the longest run.
        error: at the end of each run, which has its own cost.
        counts: mean number of chosen examples of each level.
        areas: area under each run's curve up to each of some costs; None where a run did not get there.
    """

    label: str
    method: str
    n: int
    steps: tuple[int, int]
    error: Spread
    cost: Spread
    counts: tuple[float, ...]
    areas: tuple[Spread | None, ...]
    reached: tuple[Reach, ...]


@dataclass(frozen=True)
class Pair:
    """A method of ours against a baseline over the last two thirds of the costs that both mean curves have.

    Attributes:
        share: of these costs at which ours has the lower mean error.
        first, last: the costs.
        gain: geometric mean of the other's error divided by ours.
    """

    ours: str
    other: str
    share: float
    first: float
    last: float
    gain: float


@dataclass(frozen=True)
class Saving:
    """Cost of a method to reach the reference's final error, as a share of the reference's cost.

    Attributes:
        ratio: from the mean curves; None if it was not reached.
        seeds: the same seed by seed, each with its own reference.
    """

    label: str
    ratio: float | None
    seeds: tuple[float | None, ...]


@dataclass(frozen=True)
class Comparison:
    """All results of the study."""

    means: dict[str, MeanCurve]
    rows: tuple[Row, ...]
    errors: tuple[float, ...]
    area_costs: tuple[float, ...]
    pairs: tuple[Pair, ...]
    savings: tuple[Saving, ...]


def compare(results: Mapping[str, Sequence[Result]], errors: Sequence[float] | None = None) -> Comparison:
    """Summarise runs by label.

    Args:
        errors: to reach; round numbers if none are given.
    """
    if not results:
        raise MrafnoError("study: no run has been measured yet, so there is nothing to compare.")
    curves = {label: [r.curve for r in some] for label, some in results.items()}
    means = {label: MeanCurve.of(some) for label, some in curves.items()}
    wanted = tuple(sorted(errors, reverse=True)) if errors else errors_to_reach([m.curve for m in means.values()])
    upto = area_costs([m.curve for m in means.values()])
    rows = tuple(_row(label, some, curves[label], wanted, upto) for label, some in results.items())
    methods = {label: some[0].job.method for label, some in results.items()}
    ours = [label for label, method in methods.items() if method in OURS]
    pairs = [pair(a, b, means[a].curve, means[b].curve) for a in ours for b in results if b not in ours]
    return Comparison(
        means, rows, wanted, upto, tuple(one for one in pairs if one is not None), tuple(_savings(results, means))
    )


def errors_to_reach(curves: Sequence[Curve]) -> tuple[float, ...]:
    """Round numbers between the lowest initial error and the lowest error of any curve."""
    low = min(min(curve.errors) for curve in curves)
    return tuple(round_errors(low, min(curve.errors[0] for curve in curves), most=5))


def area_costs(curves: Sequence[Curve]) -> tuple[float, ...]:
    """Costs up to which areas are compared: those that all, half and two of the curves have reached."""
    ends = sorted(curve.costs[-1] for curve in curves)
    chosen = {ends[0], ends[len(ends) // 2], ends[-min(2, len(ends))]}
    return tuple(sorted(cost for cost in chosen if cost > 0))


def pair(ours: str, other: str, a: Curve, b: Curve) -> Pair | None:
    """Two mean curves compared; None if they share no range of costs."""
    start, last = max(a.costs[0], b.costs[0]), min(a.costs[-1], b.costs[-1])
    if last <= start:
        return None
    first = last - PART * (last - start)
    mine, theirs = at_costs([a, b], np.linspace(first, last, _POINTS))
    gain = float(np.exp(np.mean(np.log(theirs) - np.log(mine))))
    return Pair(ours, other, float(np.mean(mine < theirs)), first, last, gain)


def saving(curve: Curve, reference: Curve) -> float | None:
    """Cost to reach the error at the reference's end, divided by the cost there."""
    cost = cost_to_reach(curve, reference.errors[-1])
    return None if cost is None or not reference.costs[-1] else cost / reference.costs[-1]


def _savings(results: Mapping[str, Sequence[Result]], means: Mapping[str, MeanCurve]) -> list[Saving]:
    if REFERENCE not in results:
        return []
    seeds = {r.job.seed: r.curve for r in results[REFERENCE]}
    return [
        Saving(
            label,
            saving(means[label].curve, means[REFERENCE].curve),
            tuple(saving(r.curve, seeds[r.job.seed]) for r in some if r.job.seed in seeds),
        )
        for label, some in results.items()
        if label != REFERENCE
    ]


def _row(
    label: str, some: Sequence[Result], curves: Sequence[Curve], errors: Sequence[float], upto: Sequence[float]
) -> Row:
    reached = []
    for error in errors:
        costs = [cost for cost in (cost_to_reach(curve, error) for curve in curves) if cost is not None]
        reached.append(Reach(error, Spread.of(costs) if costs else None, len(curves)))
    areas = [
        Spread.of([area(curve, cost) for curve in curves]) if all(c.costs[-1] >= cost for c in curves) else None
        for cost in upto
    ]
    steps = [r.state.step for r in some]
    return Row(
        label=label,
        method=some[0].job.method,
        n=len(some),
        steps=(min(steps), max(steps)),
        error=Spread.of([curve.errors[-1] for curve in curves]),
        cost=Spread.of([curve.costs[-1] for curve in curves]),
        counts=tuple(np.mean([r.counts() for r in some], axis=0).tolist()),
        areas=tuple(areas),
        reached=tuple(reached),
    )


def as_json(comparison: Comparison, results: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """The comparison and every run's curve, as dataclasses and JSON values."""
    return {
        "methods": comparison.rows,
        "errors": comparison.errors,
        "area_costs": comparison.area_costs,
        "pairs": comparison.pairs,
        "savings": {"reference": REFERENCE, "methods": comparison.savings},
        "mean_curves": comparison.means,
        "runs": [
            {"label": label, "run": r.job.name, "seed": r.job.seed, "steps": r.state.step, "curve": r.curve}
            for label, some in results.items()
            for r in some
        ],
    }
