"""Selection: greedy batches against dense brute force, and a budget that is never exceeded."""

import itertools

import numpy as np
import pytest

from mrafno.acquisition import Choice, pool_grams, scorer, select
from mrafno.errors import AcquisitionError
from mrafno.surrogate.prediction import Prediction
from tests.acquisition.contexts import ACQUISITIONS, context_of
from tests.acquisition.gaussians import DenseGaussian, random_predictions

COSTS = (0.2, 0.3, 0.5)


def make(samples=4, n=7, seed=0):
    means, log_vars = random_predictions(samples, n, ((1, 2), (1, 3), (1, 4)), seed)
    chunk = [Prediction(mean, log_var) for mean, log_var in zip(means, log_vars, strict=True)]
    return pool_grams([chunk]), DenseGaussian(means, log_vars)


def score_of(pool, kind):
    return scorer(ACQUISITIONS[kind], context_of(pool=pool, costs=(1.0,) * len(pool.sizes)))


def dense_score(dense, kind, candidate, level, remaining, known):
    if kind == "predvar":
        return dense.variance((candidate, level), known)
    targets = [candidate] if kind == "u" else remaining
    return np.mean([dense.information((candidate, level), (target, 2), known) for target in targets])


def brute_force(dense, kind, n, remaining, pending):
    known, chosen = list(pending), []
    remaining = [i for i in remaining if i not in {c for c, _ in pending}]
    for _ in range(n):
        pairs = itertools.product(remaining, range(3))
        best = max(pairs, key=lambda p: dense_score(dense, kind, *p, remaining, known) / COSTS[p[1]])
        chosen.append(best)
        known.append(best)
        remaining = [i for i in remaining if i != best[0]]
    return chosen


@pytest.mark.parametrize("kind", ["u", "u-hat", "predvar"])
@pytest.mark.parametrize("pending", [[], [(2, 1), (5, 0)]])
@pytest.mark.parametrize("samples", [2, 5])
def test_greedy_batch_equals_dense_conditioning(kind, pending, samples):
    pool, dense = make(samples)
    found = select(score_of(pool, kind), n=4, remaining=range(7), pending=pending, costs=COSTS)
    assert found == brute_force(dense, kind, 4, list(range(7)), pending)
    assert len({choice.candidate for choice in found}) == 4


def test_a_batch_is_queries_asked_one_by_one_while_the_others_run():
    pool, _ = make(n=9)
    score = score_of(pool, "u-hat")
    batch = select(score, n=5, remaining=range(9), costs=COSTS)
    running = []
    for _ in range(5):
        running += select(score, remaining=range(9), pending=running, costs=COSTS)
    assert batch == running


def test_conditioning_spreads_a_batch():
    """Two candidates that are the same function: once one is asked, the other is worth much less."""
    rng = np.random.default_rng(0)
    mean = rng.standard_normal((5, 4, 1, 2)) * np.array([9.0, 9.0, 2.0, 1.0])[:, None, None]
    mean[:, 1] = mean[:, 0]
    pool = pool_grams([[Prediction(mean, np.full((5, 4), -6.0))]])
    found = select(score_of(pool, "predvar"), n=2, remaining=range(4))
    assert found == [Choice(0, 0), Choice(2, 0)]
    alone = select(score_of(pool, "predvar")(np.arange(4), []), n=2)
    assert alone == [Choice(0, 0), Choice(1, 0)]


def test_ratio_not_score_decides():
    scores = np.array([[1.0, 5.0], [2.0, 4.0]])
    assert select(scores) == [Choice(0, 1)]
    assert select(scores, costs=(1, 10)) == [Choice(1, 0)]
    assert select(scores, costs=(1, 10), n=2) == [Choice(1, 0), Choice(0, 0)]


def test_ties_go_to_the_lowest():
    assert select(np.ones((3, 2)), n=3) == [Choice(0, 0), Choice(1, 0), Choice(2, 0)]
    assert select(np.ones((9, 2)), remaining=[7, 4, 7], n=5) == [Choice(4, 0), Choice(7, 0)]
    assert select(np.zeros((3, 2)), costs=(1, 2)) == [Choice(0, 0)]


@pytest.mark.parametrize("seed", range(30))
def test_budget_is_never_exceeded_and_never_left_when_something_fits(seed):
    rng = np.random.default_rng(seed)
    p, levels = rng.integers(1, 12), rng.integers(1, 5)
    scores, prices = rng.random((p, levels)), rng.uniform(0.1, 3, levels)
    budget, n = rng.uniform(0, 8), int(rng.integers(1, 12))
    found = select(scores, n=n, costs=rng.random(levels) + 0.1, prices=prices, budget=budget)
    left = budget - sum(prices[choice.level] for choice in found)
    assert left >= -1e-12
    assert len({choice.candidate for choice in found}) == len(found) <= min(n, p)
    assert len(found) == min(n, p) or left < prices.min()


def test_a_level_that_does_not_fit_gives_way():
    scores = np.array([[1.0, 9.0], [2.0, 9.0], [3.0, 9.0]])
    found = select(scores, n=5, prices=(1, 4), budget=6.0)
    assert found == [Choice(0, 1), Choice(2, 0), Choice(1, 0)]
    assert select(scores, n=5, prices=(1, 4), budget=0.9) == []
    assert select(scores, n=2, prices=(1, 4), budget=8.0) == [Choice(0, 1), Choice(1, 1)]


def test_budget_counts_exactly():
    """Ten times 0.1 is 1, summed as it should be."""
    assert len(select(np.ones((20, 1)), n=20, prices=(0.1,), budget=1.0)) == 10


def test_what_scores_minus_infinity_is_not_asked():
    scores = np.array([[-np.inf, 1.0], [-np.inf, -np.inf]])
    assert select(scores, n=3, costs=(1, 2)) == [Choice(0, 1)]
    assert select(scores, n=3, prices=(1, 2), budget=1.5) == []


def test_nothing_to_choose():
    assert select(np.ones((3, 2)), remaining=[]) == []
    assert select(np.ones((3, 2)), n=0) == []
    assert select(np.ones((2, 2)), pending=[(0, 0), (1, 1)]) == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: select(np.array([[1.0, np.nan]])), "level 1, is NaN"),
        (lambda: select(np.ones(3)), "scores of shape"),
        (lambda: select(np.ones((3, 2)), costs=(1, 2, 3)), "3 levels"),
        (lambda: select(np.ones((3, 2)), prices=(1, 2, 3), budget=1), "3 levels"),
        (lambda: select(np.ones((3, 2)), budget=1), "prices"),
        (lambda: select(np.ones((3, 2)), prices=(1, 2), budget=float("nan")), "number"),
        (lambda: select(np.ones((3, 2)), costs=(1, 0)), "costs must be"),
        (lambda: select(np.ones((3, 2)), remaining=[3]), "of 3 scores"),
        (lambda: select(np.ones((3, 2)), n=-1), "-1 queries"),
        (lambda: select(-np.ones((3, 2)), costs=(1, 2)), "negative score"),
        (lambda: select(lambda rest, chosen: np.ones((len(rest), 1))), "remaining"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(AcquisitionError, match=words):
        call()
