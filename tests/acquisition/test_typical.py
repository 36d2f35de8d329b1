"""The typical input equals brute force, and is not an outlier."""

import numpy as np
import pytest

from mrafno.acquisition import ByLevel, Choice, LargestClusterMaxDist, RandomChoice, Typical, scorer, select
from mrafno.errors import AcquisitionError
from mrafno.surrogate.prediction import Prediction
from tests.acquisition.contexts import context_of


def context(points, used, sizes=None, **more):
    points = np.asarray(points, dtype=np.float64)
    sizes = np.ones(len(points)) if sizes is None else np.asarray(sizes)
    return context_of(
        **{
            "candidates": [row for row in range(len(points)) if row not in [row for row, _ in used]],
            "features": lambda rows, level: points[rows][:, :, None] + 0.01 * level,
            "predictor": lambda rows, level: Prediction(
                np.tile(sizes[rows][:, None, None], (2, 1, 1, 4)), np.zeros((2, len(rows)))
            ),
            "used": used,
            "costs": (1.0, 5.0),
            **more,
        }
    )


def brute_force(points, sizes, fine, remaining, n):
    """Distances on the fine level, one choice after another."""
    chosen, everyone = [], list(remaining)
    for _ in range(n):

        def total(rows):
            apart = np.linalg.norm(points[everyone][:, None] - points[rows][None], axis=2).min(axis=1)
            return (apart / sizes[everyone]).sum()  # fmt: skip

        best = min((row for row in remaining if row not in chosen), key=lambda row: total([*fine, *chosen, row]))
        chosen.append(best)
    return chosen


def test_it_equals_brute_force():
    rng = np.random.default_rng(0)
    points, sizes = rng.standard_normal((50, 3)), rng.uniform(1, 2, 50)
    used = [(0, 1), (1, 0), (2, 0)]  # inputs that were simulated on the coarse level only do not count
    found = select(scorer(Typical("high"), context(points, used, sizes)), n=6, remaining=range(3, 50))
    assert [choice.level for choice in found] == [1] * 6
    assert [choice.candidate for choice in found] == brute_force(points, sizes, [0], list(range(3, 50)), 6)


def test_an_outlier_is_not_typical():
    points = [[0.0], [100.0], *[[10 + 0.1 * i] for i in range(21)]]
    [choice] = select(scorer(Typical("high"), context(points, [(0, 1)])), n=1, remaining=range(1, 23))
    assert choice.candidate in (12, 13)  # the middle of the crowd
    [other] = select(scorer(LargestClusterMaxDist("high"), context(points, [(0, 1)])), n=1, remaining=range(1, 23))
    assert other.candidate == 1


def test_without_examples_of_the_level_it_is_the_medoid():
    points = np.random.default_rng(1).standard_normal((30, 2))
    [choice] = select(scorer(Typical("high"), context(points, [(0, 0)])), n=1, remaining=range(1, 30))
    sums = np.linalg.norm(points[1:, None] - points[None, 1:], axis=2).sum(axis=1)
    assert choice.candidate == 1 + int(np.argmin(sums))


def test_of_many_candidates_some_are_in_the_sum():
    points = np.random.default_rng(2).standard_normal((400, 2))
    found = {
        select(scorer(Typical("high", targets=50), context(points, [(0, 1)], seed=seed)), n=1, remaining=range(1, 400))[
            0
        ]
        for seed in range(4)
    }
    assert len(found) > 1
    assert all(np.linalg.norm(points[choice.candidate]) < 1.5 for choice in found)


def test_nothing_to_choose_from():
    assert Typical().score(context(np.zeros((1, 2)), [(0, 1)]), []).shape == (0, 2)
    broken = context(np.zeros((3, 2)), [(0, 1)], features=lambda rows, level: np.full((len(rows), 2, 1), np.nan))
    with pytest.raises(AcquisitionError, match="typical: features at level 0"):
        Typical().score(broken, [])


def test_each_level_has_its_own_acquisition():
    here = context(np.random.default_rng(3).standard_normal((20, 2)), [(0, 0), (1, 1)])
    parts = LargestClusterMaxDist("low"), Typical()
    scores = ByLevel(*parts).score(here, [Choice(5, 0)])
    np.testing.assert_array_equal(scores[:, 0], parts[0].score(here, [Choice(5, 0)])[:, 0])
    np.testing.assert_array_equal(scores[:, 1], parts[1].score(here, [Choice(5, 0)])[:, 1])
    assert ByLevel(RandomChoice("low"), RandomChoice("high")).score(here, []).shape == (18, 2)
