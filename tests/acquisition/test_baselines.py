"""Random choice is seeded and even; the coreset choice equals brute force over all distances."""

from collections import Counter

import numpy as np
import pytest

from mrafno.acquisition import Coreset, RandomChoice, scorer, select
from mrafno.errors import AcquisitionError
from mrafno.grids import Grid, resample
from tests.acquisition.contexts import context_of

GRIDS = (Grid((5,), ("nodes",)), Grid((9,), ("nodes",)), Grid((17,), ("nodes",)))


def features_of(n, seed=0, width=3):
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal((n, width, *grid.shape)) for grid in GRIDS]
    return lambda rows, level: values[level][rows]


def on_finest_grid(features):
    return lambda rows, level: resample(features(rows, level), GRIDS[level], GRIDS[-1])


def brute_force(features, used, levels, remaining, n):
    def at(row, level):
        return resample(features(np.array([row]), level), GRIDS[level], GRIDS[-1])

    used, chosen = list(used), []
    for _ in range(n):
        pairs = [(row, level) for row in remaining for level in levels]
        best = max(pairs, key=lambda p: min(np.linalg.norm(at(*p) - at(*q)) for q in used))
        chosen.append(best)
        used.append(best)
        remaining = [row for row in remaining if row != best[0]]
    return chosen


LEVELS = {"low": (0,), "high": (2,), "mix": (0, 1, 2)}


def coreset(features, used, levels="mix", **settings):
    return scorer(Coreset(levels, **settings), context_of(features=features, used=used))


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("numbers", [1, 200, 10**7])
def test_coreset_equals_brute_force(levels, numbers):
    features, used = features_of(20), [(0, 0), (1, 2), (2, 1), (3, 0)]
    remaining = [*range(4, 20)]
    score = coreset(on_finest_grid(features), used, levels, block_size=numbers)
    found = select(score, n=5, remaining=remaining)
    assert found == brute_force(features, used, LEVELS[levels], remaining, 5)


def test_coreset_counts_running_queries_as_used():
    features, used = on_finest_grid(features_of(12)), [(0, 0)]

    found = select(coreset(features, used), n=3, remaining=range(12), pending=[(4, 1), (7, 0)])
    assert found == select(coreset(features, [*used, (4, 1), (7, 0)]), n=3, remaining=[*range(4), 5, 6, *range(8, 12)])


def test_coreset_keeps_only_distances_that_still_hold():
    """The same context with other candidates, or another history, gives the distances of a new one."""
    features = on_finest_grid(features_of(12))
    score = coreset(features, [(0, 0)])
    select(score, n=4, remaining=range(1, 8))
    for pending, remaining in (([], range(1, 8)), ([(5, 2)], range(1, 12)), ([], [3, 9])):
        ask = {"n": 2, "remaining": remaining, "pending": pending}
        assert select(score, **ask) == select(coreset(features, [(0, 0)]), **ask)


def test_a_used_input_is_at_distance_zero():
    features = features_of(3)
    scores = coreset(features, [(0, 2), (1, 2)], "high")(np.arange(3), [])
    np.testing.assert_allclose(scores[:2, 2], 0.0, atol=1e-7)
    assert scores[2, 2] > 1
    assert (scores[:, :2] == -np.inf).all()


def test_coreset_asks_for_few_features_at_a_time():
    sizes, features = [], features_of(30)

    def watched(rows, level):
        sizes.append(len(rows))
        return features(rows, level)

    score = coreset(watched, [(i, 2) for i in range(10)], "high", block_size=4 * 3 * 17)
    score(np.arange(10, 30), [])
    assert max(sizes) == 4


def random(levels, seed=0, step=0, costs=(1.0, 1.0, 1.0)):
    return scorer(RandomChoice(levels), context_of(seed=seed, step=step, costs=costs))


@pytest.mark.parametrize("levels", LEVELS)
def test_random_choice_is_seeded_and_even(levels):
    def ask(seed, step, n=1):
        return select(random(levels, seed, step), n=n, remaining=range(5))

    assert ask(3, 8, 4) == ask(3, 8, 4)
    counts = Counter(choice for step in range(1500) for choice in ask(0, step))
    assert {level for _, level in counts} == set(LEVELS[levels])
    cells = 5 * len(LEVELS[levels])
    assert len(counts) == cells
    # Chi-square with 14 degrees of freedom or fewer: 36 is the 0.1 % tail of 14.
    assert sum((count - 1500 / cells) ** 2 / (1500 / cells) for count in counts.values()) < 36
    assert [ask(1, step) for step in range(20)] != [ask(0, step) for step in range(20)]


def test_random_keeps_to_the_budget():
    ask = {"n": 9, "remaining": range(9), "prices": (1, 5), "budget": 7}
    found = select(random("mix", costs=(1, 5)), **ask)
    assert sum((1, 5)[choice.level] for choice in found) <= 7
    assert len(select(random("high", costs=(1, 5)), **ask)) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: random("middle")(np.arange(2), []), "unknown name 'middle'. Choose one of low, high, mix"),
        (lambda: coreset(features_of(3), [])(np.arange(2), []), "no input was used"),
        (lambda: coreset(lambda r, _: np.full((len(r), 1, 4), np.nan), [(0, 0)])(np.arange(2), []), "NaN"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(AcquisitionError, match=words):
        call()


def test_features_of_candidates_are_computed_once_for_all_choices_of_a_batch():
    features, used, seen = features_of(30), [(0, 0), (1, 2)], []

    def counted(rows, level):
        seen.extend((int(row), level) for row in rows if row > 1)
        return on_finest_grid(features)(rows, level)

    found = select(coreset(counted, used), n=4, remaining=range(2, 30))
    assert found == brute_force(features, used, LEVELS["mix"], range(2, 30), 4)
    again = [pair for pair in set(seen) if seen.count(pair) > 1]
    assert len(again) <= 4  # a chosen one is computed once more, as one of the used
