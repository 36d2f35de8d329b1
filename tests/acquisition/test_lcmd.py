"""LCMD equals the reference: of the used input whose candidates are farthest in sum, the farthest candidate."""

import numpy as np
import pytest

from mrafno.acquisition import Coreset, LargestClusterMaxDist, scorer, select
from mrafno.errors import AcquisitionError
from tests.acquisition.contexts import context_of


def features_of(points):
    values = np.asarray(points, dtype=np.float64)
    return lambda rows, level: values[rows][:, :, None] + 0.01 * level


def lcmd(points, used, levels="low", **settings):
    context = context_of(features=features_of(points), used=used, costs=(1.0, 1.0))
    return scorer(LargestClusterMaxDist(levels, **settings), context)


def brute_force(points, used, remaining, n):
    """One level, one choice after another, by all pairs of distances."""
    points, used, chosen = np.asarray(points), list(used), []
    for _ in range(n):
        squared = ((points[remaining][:, None] - points[used][None]) ** 2).sum(2)
        owner, d = squared.argmin(1), squared.min(1)
        sums = [d[owner == centre].sum() for centre in range(len(used))]
        inside = np.flatnonzero(owner == int(np.argmax(sums)))
        best = remaining[inside[d[inside].argmax()]]
        chosen.append((best, 0))
        used.append(best)
        remaining = [row for row in remaining if row != best]
    return chosen


@pytest.mark.parametrize("block_size", [1, 40, 10**7])
def test_it_equals_brute_force(block_size):
    points = np.random.default_rng(0).standard_normal((60, 2)) ** 3
    remaining = [*range(4, 60)]
    score = lcmd(points, [(i, 0) for i in range(4)], block_size=block_size)
    assert select(score, n=8, remaining=remaining) == brute_force(points, [0, 1, 2, 3], remaining, 8)


def test_many_near_candidates_count_more_than_one_outlier():
    """Coreset takes the outlier; LCMD takes the farthest of the crowd, which many candidates are near to."""
    crowd = [[1.0 + 0.1 * i] for i in range(20)]
    points = [[0.0], [100.0], *crowd, [104.0]]
    used = [(0, 0), (1, 0)]
    remaining = range(2, len(points))
    assert select(lcmd(points, used), n=1, remaining=remaining) == [(21, 0)]
    context = context_of(features=features_of(points), used=used, costs=(1.0, 1.0))
    assert select(scorer(Coreset("low"), context), n=1, remaining=remaining) == [(22, 0)]


def test_running_queries_are_centres():
    points = np.random.default_rng(1).standard_normal((30, 3))
    found = select(lcmd(points, [(0, 0)]), n=4, remaining=range(2, 30), pending=[(1, 0)])
    assert found == select(lcmd(points, [(0, 0), (1, 0)]), n=4, remaining=range(2, 30))


def test_where_a_budget_leaves_one_mesh_something_is_still_chosen():
    points = np.random.default_rng(2).standard_normal((12, 3))
    score = lcmd(points, [(0, 0), (1, 1)], "mix")
    assert {c.level for c in select(score, n=3, remaining=range(2, 12), prices=(1, 50), budget=3)} == {0}
    high = lcmd(points, [(0, 0), (1, 1)], "high")
    assert {c.level for c in select(high, n=3, remaining=range(2, 12))} == {1}


def test_without_used_inputs_there_are_no_distances():
    with pytest.raises(AcquisitionError, match="lcmd: no input was used"):
        lcmd(np.zeros((3, 1)), [])(np.arange(3), [])
