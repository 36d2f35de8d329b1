"""LCMD equals the reference: of the used input whose candidates are farthest in sum, the farthest candidate."""

import numpy as np
import pytest

from mrafno.acquisition import Coreset, LargestClusterMaxDist, scorer, select
from mrafno.errors import AcquisitionError
from mrafno.surrogate.prediction import Prediction
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


def test_relative_distances_do_not_prefer_large_outputs():
    """Outputs from 1 to 1,000, features in proportion: all regions count the same, relative to what is predicted."""
    rng = np.random.default_rng(3)
    sizes = 10.0 ** rng.uniform(0, 3, 200)
    points = sizes[:, None] * (1 + 0.3 * rng.standard_normal((200, 2)))

    def predict(rows, level):
        return Prediction(np.tile(sizes[rows][:, None, None], (2, 1, 1, 4)), np.zeros((2, len(rows))))

    def chosen(relative):
        context = context_of(
            range(1, 200), features=features_of(points), used=[(0, 0)], costs=(1.0, 1.0), predictor=predict
        )
        score = scorer(LargestClusterMaxDist("low", relative=relative), context)
        return [choice.candidate for choice in select(score, n=30, remaining=range(1, 200))]

    absolute, relative = chosen(False), chosen(True)
    small = np.flatnonzero(sizes < 30)
    assert len(set(small) & set(absolute)) < 5
    assert len(set(small) & set(relative)) > 10


def test_relative_distances_are_divided_by_the_norm_of_the_prediction():
    sizes = np.array([1.0, 1.0, 2.0, 4.0, 0.0])
    points = [[0.0], [1.0], [3.0], [4.0], [0.1]]
    context = context_of(
        range(1, 5),
        features=features_of(points),
        used=[(0, 0)],
        costs=(1.0, 1.0),
        predictor=lambda rows, level: Prediction(
            sizes[rows][None, :, None, None] * np.ones((2, 1, 1, 3)), np.zeros((2, len(rows)))
        ),
    )
    scores = LargestClusterMaxDist("low", relative=True).score(context, [])
    # The typical size is the median of 1, 2, 4 and 0; the last one counts as a hundredth of it.
    np.testing.assert_allclose(scores[:, 0], [1.0, 1.5, 1.0, 0.1 / 0.015], rtol=1e-6)


def test_where_a_budget_leaves_one_mesh_something_is_still_chosen():
    points = np.random.default_rng(2).standard_normal((12, 3))
    score = lcmd(points, [(0, 0), (1, 1)], "mix")
    assert {c.level for c in select(score, n=3, remaining=range(2, 12), prices=(1, 50), budget=3)} == {0}
    high = lcmd(points, [(0, 0), (1, 1)], "high")
    assert {c.level for c in select(high, n=3, remaining=range(2, 12))} == {1}


def test_without_used_inputs_there_are_no_distances():
    with pytest.raises(AcquisitionError, match="lcmd: no input was used"):
        lcmd(np.zeros((3, 1)), [])(np.arange(3), [])
