"""The inputs of a run: the same for the same seed, and no test input anywhere else."""

from dataclasses import replace

import numpy as np
import pytest

from mrafno.data.pool import PoolSizes, draw, stacked, unstacked
from mrafno.errors import RunError
from tests import runs

SETTINGS = PoolSizes(initial=3, pool=12, test=4, test_seed=10_000)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path / "cache"))


def rows(values):
    return {row.tobytes() for row in values}


@pytest.mark.parametrize("make", [runs.tiny_burgers, runs.tiny, runs.tiny_darcy])
def test_how_many_of_each(make):
    task = make()
    inputs = draw(task, SETTINGS, 0)
    shape = (task.in_channels, *task.resolutions[-1])
    assert inputs.initial.shape == (3 * task.levels, *shape)
    assert inputs.pool.shape == (12, *shape)
    assert inputs.test.shape == (4, *shape)


@pytest.mark.parametrize("make", [runs.tiny_burgers, runs.tiny])
@pytest.mark.parametrize("seed", [0, SETTINGS.test_seed + 1])
def test_no_input_has_two_uses(make, seed):
    inputs = draw(make(), SETTINGS, seed)
    every = [inputs.initial, inputs.pool, inputs.test]
    assert len(rows(np.concatenate(every))) == sum(map(len, every))


@pytest.mark.parametrize("make", [runs.tiny_burgers, runs.tiny])
def test_the_same_seed_gives_the_same_ones_and_another_others(make):
    first, again, other = draw(make(), SETTINGS, 1), draw(make(), SETTINGS, 1), draw(make(), SETTINGS, 2)
    for kind in ("initial", "pool", "test"):
        np.testing.assert_array_equal(getattr(first, kind), getattr(again, kind))
    assert not rows(first.pool) <= rows(other.pool)


def test_an_endless_task_has_the_same_test_inputs_for_every_seed():
    first, second = draw(runs.tiny_burgers(), SETTINGS, 1), draw(runs.tiny_burgers(), SETTINGS, 2)
    np.testing.assert_array_equal(first.test, second.test)
    np.testing.assert_array_equal(first.test, runs.tiny_burgers().sample(4, SETTINGS.test_seed))
    other = draw(runs.tiny_burgers(), replace(SETTINGS, test_seed=7), 1)
    np.testing.assert_array_equal(other.test, runs.tiny_burgers().sample(4, 7))
    np.testing.assert_array_equal(other.pool, first.pool)


def test_a_seed_that_would_make_test_inputs_initial_ones_is_refused():
    with pytest.raises(RunError, match="with seed 10000 the test examples would be the initial ones"):
        draw(runs.tiny_burgers(), SETTINGS, 10_000)
    assert len(draw(runs.tiny(), SETTINGS, 10_000).test) == 4


def test_a_larger_pool_begins_with_the_smaller_one():
    small, large = (draw(runs.tiny_burgers(), replace(SETTINGS, pool=n), 0) for n in (5, 9))
    np.testing.assert_array_equal(small.initial, large.initial)
    np.testing.assert_array_equal(small.pool, large.pool[:5])


def test_candidates_are_used_up_from_both_ends():
    """With 13 candidates, 6 initial and 4 test examples, 3 are left for the pool."""
    task = runs.tiny(n=13)
    inputs = draw(task, SETTINGS, 0)
    assert len(inputs.pool) == 3
    assert rows(stacked(inputs)) == rows(task.inputs)


def test_too_few_candidates_are_an_error_that_counts():
    assert len(draw(runs.tiny(n=11), SETTINGS, 0).pool) == 1
    with pytest.raises(RunError, match=r"tiny: 10 candidates are too few for 6 initial examples \(initial=3, 2 mesh"):
        draw(runs.tiny(n=10), SETTINGS, 0)


@pytest.mark.parametrize("test", [0, 4])
def test_stacking_is_undone(test):
    task, settings = runs.tiny(), replace(SETTINGS, test=test)
    inputs = draw(task, settings, 3)
    again = unstacked(stacked(inputs), task, settings)
    for kind in ("initial", "pool", "test"):
        np.testing.assert_array_equal(getattr(again, kind), getattr(inputs, kind))
        for row in range(len(getattr(inputs, kind))):
            np.testing.assert_array_equal(inputs.of(kind, row), getattr(inputs, kind)[row])
