"""Cost schedules: the formula, both limits, and what does not depend on renormalising."""

import math

import numpy as np
import pytest

from mrafno.acquisition import annealed_cost, decay
from mrafno.acquisition.cost import cost_shares
from mrafno.errors import AcquisitionError

COSTS = [(1.0, 41.2), (1.0, 21.3, 38.3), (5.0,), (0.1, 0.1, 0.1, 7.0)]


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("step", [0, 1, 17, 400])
@pytest.mark.parametrize("rate", [0.0, 0.002, 0.5])
def test_formula(costs, step, rate):
    share = np.array(costs) / np.sum(costs)
    for schedule, c in (("exp", math.exp(-rate * step)), ("sigmoid", 2 * (1 - 1 / (1 + math.exp(-rate * step))))):
        assert decay(schedule, step, rate=rate) == pytest.approx(c, rel=1e-12, abs=1e-15)
        expected = share / (1 + (len(costs) * share - 1) * c)
        found = annealed_cost(costs, step, schedule=schedule, rate=rate, renormalise=False)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        found = annealed_cost(costs, step, schedule=schedule, rate=rate)
        np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-12)


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("schedule", ["exp", "sigmoid"])
def test_equal_at_first_and_true_in_the_end(costs, renormalise, schedule):
    start = annealed_cost(costs, 0, schedule=schedule, rate=0.1, renormalise=renormalise)
    np.testing.assert_allclose(start, 1 / len(costs), rtol=1e-14)
    end = annealed_cost(costs, 10**6, schedule=schedule, rate=0.1, renormalise=renormalise)
    np.testing.assert_allclose(end, cost_shares(costs), rtol=1e-14)


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("schedule", ["exp", "sigmoid"])
def test_ratios_only_move_towards_the_true_ones(renormalise, schedule):
    rows = np.array(
        [annealed_cost((1, 5, 30), t, schedule=schedule, rate=0.02, renormalise=renormalise) for t in range(200)]
    )
    assert (np.diff(rows[:, 2] / rows[:, 0]) > 0).all()
    assert (np.diff(rows[:, 1] / rows[:, 0]) > 0).all()
    assert (np.diff(rows[:, 0]) < 0).all()
    assert (np.diff(rows[:, 2]) > 0).all()


def test_constant_is_the_true_cost_at_every_step():
    for step in (0, 3, 1000):
        assert annealed_cost((1, 3), step, schedule="constant") == pytest.approx([0.25, 0.75])
        assert annealed_cost((10, 30), step, schedule="constant", renormalise=False) == pytest.approx([0.25, 0.75])


@pytest.mark.parametrize("schedule", ["exp", "sigmoid"])
def test_huge_steps_do_not_overflow(schedule):
    assert decay(schedule, 10**9, rate=10.0) == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: annealed_cost((), 0), "positive cost"),
        (lambda: annealed_cost((1, 0), 0), "positive cost"),
        (lambda: annealed_cost((1, math.nan), 0), "positive cost"),
        (lambda: annealed_cost((1, math.inf), 0), "positive cost"),
        (lambda: annealed_cost((1, 2), -1), "from 0"),
        (lambda: annealed_cost((1, 2), 0, rate=-0.1), "rate"),
        (lambda: annealed_cost((1, 2), 0, schedule="linear"), "unknown schedule 'linear'"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(AcquisitionError, match=words):
        call()
