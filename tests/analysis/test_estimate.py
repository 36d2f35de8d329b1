"""The estimate of a run's error: exact where the answer is known, right as often as it says on simulated ensembles."""

import math

import numpy as np
import pytest

from mrafno.analysis.estimate import Estimate, estimate_error

MEMBERS, VALUES = 5, 12


def predictions(rng, n, bias):
    """Errors in common ``(n, values)`` and deviations of the networks, on inputs of different difficulty."""
    size = 0.1 * np.exp(0.5 * rng.normal(size=(n, 1)))
    shared = bias * size * rng.normal(size=(n, VALUES)) / math.sqrt(VALUES)
    return shared, size * rng.normal(size=(MEMBERS, n, VALUES)) / math.sqrt(VALUES)


def single_errors(rng, n, bias):
    shared, own = predictions(rng, n, bias)
    return np.linalg.norm(shared + own[0], axis=1)


def spreads(rng, n, bias):
    _, own = predictions(rng, n, bias)
    return np.sqrt(np.mean(np.sum((own - own.mean(0)) ** 2, axis=2), axis=0))


@pytest.mark.parametrize(("bias", "fine", "coarse"), [(1.0, 4, 20), (1.5, 12, 0), (2.5, 4, 40), (1.0, 40, 40)])
def test_the_interval_holds_the_error_about_as_often_as_it_says(bias, fine, coarse):
    rng = np.random.default_rng([fine, coarse, int(10 * bias)])
    shared, own = predictions(rng, 4000, bias)
    true = np.linalg.norm(shared + own.mean(0), axis=1).mean()
    held, ratios = [], []
    for _ in range(80):
        errors = [single_errors(rng, coarse, bias), single_errors(rng, fine, bias)]
        found = estimate_error(errors, spreads(rng, 100, bias))
        assert found.low < found.error < found.high
        held.append(found.low <= true <= found.high)
        ratios.append(found.error / true)
    assert np.mean(held) >= 0.85
    assert 0.8 < np.median(ratios) < 1.25


def test_many_equal_errors_without_spread_are_the_error():
    found = estimate_error([[], [0.2] * 5000], [1e-9] * 10)
    assert found.error == pytest.approx(0.2, rel=0.05)
    assert found.high / found.low < 1.5
    assert (found.fine, found.coarse, found.candidates) == (5000, 0, 10)


def test_the_mean_of_networks_is_better_than_they_are():
    """By what the square of their spread takes off the square of their errors."""
    found = estimate_error([[0.2] * 5000], [0.1] * 10)
    assert found.error == pytest.approx(math.sqrt(0.2**2 - 0.1**2), rel=0.08)


def test_more_errors_make_it_surer():
    widths = [
        (found := estimate_error([[0.1] * 30, [0.05, 0.1, 0.2] * n], [0.05] * 100)).high / found.low for n in (1, 3, 30)
    ]
    assert widths == sorted(widths, reverse=True)


def test_a_coarse_error_lifts_few_fine_ones():
    fine, coarse = [0.02, 0.03, 0.04, 0.05], np.array([0.03, 0.04, 0.05, 0.06] * 10)
    low, lifted = (estimate_error([factor * coarse, fine], [0.01] * 10) for factor in (0.01, 1.0))
    assert lifted.error > 1.05 * low.error
    assert lifted.low > 1.05 * low.low
    # A coarse mesh that says nothing of the fine one gives way to many fine errors.
    assert estimate_error([[0.9] * 30, [0.02] * 200], [0.01] * 10).error == pytest.approx(0.02, rel=0.25)


@pytest.mark.parametrize(
    ("errors", "spreads"),
    [([[0.1] * 9, []], [0.1]), ([[0.1] * 9], []), ([[0.1, math.nan]], [0.1]), ([], [0.1])],
)
def test_nothing_is_estimated_from_too_little(errors, spreads):
    assert estimate_error(errors, spreads) is None


def test_one_fine_error_gives_a_wide_interval():
    one, many = (estimate_error([[0.1] * 9, [0.1] * n], [0.05]) for n in (1, 20))
    assert one.low < 0.1 < one.high
    assert one.high / one.low > 1.3 * many.high / many.low
    for coarse in ([], [0.1]):  # nor need there be several of any level
        found = estimate_error([coarse, [0.1]], [0.05])
        assert found.low < found.error < found.high


def test_errors_of_zero_are_no_trouble():
    found = estimate_error([[0.0] * 3, [0.0] * 3], [0.0] * 3)
    assert 0 <= found.low <= found.error <= found.high < 1e-6


def test_skewness_is_that_of_the_errors_of_each_mesh():
    assert estimate_error([[0.5] * 9, [0.1] * 9], [0.1]).skewness == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(0)
    errors = [scale * np.exp(0.6 * rng.normal(size=20_000)) for scale in (0.5, 0.01)]
    assert estimate_error(errors, [0.1]).skewness == pytest.approx(0.6**2 / 2, rel=0.05)  # of a lognormal


def test_it_prints_as_a_sentence_and_is_json():
    found = Estimate(0.0214, 0.0151, 0.0312, 12, 40, 0.01, 100)
    assert str(found) == (
        "0.0214 (0.0151 to 0.0312 with 90 % probability), from 12 errors on the finest mesh and 40 on coarser meshes, "
        "each of a network that was not trained on the example, and the spread of the networks over 100 candidates"
    )
    assert found.interval == "0.0214 (0.0151 to 0.0312)"
    assert Estimate(**found.as_json()) == found
    assert "coarser" not in Estimate(0.1, 0.1, 0.2, 5, 0, 0.1, 9).basis
