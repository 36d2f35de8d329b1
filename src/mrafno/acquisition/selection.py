"""Greedy selection: from scores, costs and a budget to the next queries."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrafno.acquisition.base import Choice, Indices, Score
from mrafno.errors import AcquisitionError
from mrafno.grids import Array


def select(
    score: Score | ArrayLike,
    *,
    n: int = 1,
    remaining: Sequence[int] | Indices | None = None,
    pending: Sequence[tuple[int, int]] = (),
    costs: Sequence[float] | None = None,
    prices: Sequence[float] | None = None,
    budget: float | None = None,
) -> list[Choice]:
    r"""The next n queries, chosen one after another, each the best given all before it.

    .. math:: \arg\max_{h, r} \; \text{score}(h, r \mid \text{pending, chosen}) / \text{cost}_r

    A chosen input leaves the pool. Of equal ratios the lowest candidate wins, then the lowest level. Fewer than n are
    returned when the pool or the budget ends.

    Args:
        score: called once per choice with the candidates that remain and with all that is pending or chosen, in this
            order; or scores ``(P, R)`` that do not change. :func:`mrafno.acquisition.base.scorer` makes one.
        remaining: candidates to choose from; by default all P of given scores.
        pending: (candidate, level) of queries whose outputs the surrogate was not trained on yet.
        costs: what each level counts in the ratio, ``(R,)``, e.g. from a schedule; None to compare scores themselves.
        prices: what each level really costs, ``(R,)``; needed with a budget.
        budget: what may be spent on these n, pending queries already taken off; it is never exceeded, and a level that
            does not fit gives way to those that do.
    """
    if n < 0:
        raise AcquisitionError(f"select: cannot choose {n} queries.")
    if budget is not None and (prices is None or math.isnan(budget)):
        raise AcquisitionError("select: a budget needs to be a number, and the prices of the levels beside it.")
    weights = None if costs is None else _positive(costs, "costs")
    fees = None if prices is None else _positive(prices, "prices")
    scores, candidates = _scorer(score, remaining)
    running = [Choice(int(candidate), int(level)) for candidate, level in pending]
    rest = (
        np.setdiff1d(candidates, [choice.candidate for choice in running]).astype(np.int64) if running else candidates
    )
    chosen: list[Choice] = []
    spent: list[float] = []
    while len(chosen) < n and len(rest):
        fits = None
        if budget is not None and fees is not None:
            fits = np.array([math.fsum([*spent, fee]) <= budget for fee in fees])
            if not fits.any():
                break
        ratios = _ratios(scores(rest, [*running, *chosen]), len(rest), weights, fits)
        best = int(np.argmax(ratios))  # the first of equals
        row, level = divmod(best, ratios.shape[1])
        if ratios[row, level] == -np.inf:
            break
        chosen.append(Choice(int(rest[row]), level))
        if fees is not None:
            spent.append(float(fees[level]))
        rest = np.delete(rest, row)
    return chosen


def _ratios(scores: ArrayLike, rows: int, weights: Array | None, fits: NDArray[np.bool_] | None) -> Array:
    """Scores per cost ``(rows, R)``, minus infinity where the budget does not reach."""
    values = np.array(scores, dtype=np.float64)
    levels = {len(x) for x in (weights, fits) if x is not None}
    if values.ndim != 2 or len(values) != rows or levels - {values.shape[1]}:
        raise AcquisitionError(
            f"select: scores of shape {values.shape} do not fit {rows} candidates"
            + "".join(f" and {count} levels" for count in levels)
            + "."
        )
    if np.isnan(values).any():
        row, level = np.argwhere(np.isnan(values))[0]
        raise AcquisitionError(f"select: the score of candidate {row} of those left, at level {level}, is NaN.")
    if weights is not None:
        if (np.isfinite(values) & (values < 0)).any():
            raise AcquisitionError("select: a negative score divided by a cost prefers what is expensive. Shift it.")
        values = values / weights
    if fits is not None:
        values[:, ~fits] = -np.inf
    return values


def _scorer(score: Score | ArrayLike, remaining: Sequence[int] | Indices | None) -> tuple[Score, Indices]:
    """A function to call, and the candidates, sorted and each once."""
    scores = None if callable(score) else np.asarray(score, dtype=np.float64)
    if remaining is None:
        if scores is None:
            raise AcquisitionError("select: a score function needs the remaining candidates.")
        remaining = np.arange(len(scores))
    candidates = np.asarray(remaining, dtype=np.int64)
    if (candidates[1:] <= candidates[:-1]).any():  # usually they are in order
        candidates = np.unique(candidates)
    if scores is not None and len(candidates) and not 0 <= candidates[0] <= candidates[-1] < len(scores):
        raise AcquisitionError(f"select: candidates {candidates[0]} to {candidates[-1]} of {len(scores)} scores.")
    if callable(score):
        return score, candidates
    fixed = np.asarray(scores)
    return lambda rest, _: fixed[rest], candidates


def _positive(values: Sequence[float], what: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not (np.isfinite(array) & (array > 0)).all():
        raise AcquisitionError(f"select: {what} must be one positive number per level, got {values}.")
    return array
