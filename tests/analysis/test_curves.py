"""Curves between measurements, compared with functions whose answers are known."""

import math

import numpy as np
import pytest

from mrafno.analysis.curves import Curve, area, at_costs, band, common_costs, cost_to_reach, round_errors, rounded_cost
from mrafno.errors import MrafnoError

COSTS = (0.0, 1.0, 2.5, 4.0)
#: The logarithm is linear everywhere, so that interpolation is exact.
EXPONENTIAL = Curve(COSTS, tuple(math.exp(-c) for c in COSTS))


@pytest.mark.parametrize("cost", [0.0, 0.3, 1.0, 2.0, 4.0])
def test_an_exponential_is_exact_between_its_points(cost):
    assert cost_to_reach(EXPONENTIAL, math.exp(-cost)) == pytest.approx(cost)
    np.testing.assert_allclose(at_costs([EXPONENTIAL], [cost]), [[math.exp(-cost)]])
    assert area(EXPONENTIAL, cost) == pytest.approx(1 - math.exp(-cost))


def test_no_extrapolation():
    assert cost_to_reach(EXPONENTIAL, 0.99 * math.exp(-4)) is None
    assert cost_to_reach(EXPONENTIAL, 7.0) == 0.0  # it began below
    assert np.isnan(at_costs([EXPONENTIAL], [-0.1, 4.1])).all()
    with pytest.raises(MrafnoError, match="no area up to 5"):
        area(EXPONENTIAL, 5.0)


def test_the_first_crossing_counts():
    curve = Curve((0.0, 10.0, 20.0, 30.0), (0.4, 0.1, 0.3, 0.05))
    assert cost_to_reach(curve, 0.1) == 10.0
    # Reached on the way down, whatever came later: halfway in the logarithm.
    assert cost_to_reach(curve, 0.2) == pytest.approx(5.0)
    # Below the first low the way begins at 0.3, as measured, not at the lowest so far.
    assert cost_to_reach(curve, 0.08) == pytest.approx(20 + 10 * math.log(0.3 / 0.08) / math.log(0.3 / 0.05))


def test_area_below_constant_errors():
    assert area(Curve((1.0, 3.0, 9.0), (0.25, 0.25, 0.25)), 5.0) == pytest.approx(1.0)
    assert area(Curve((2.0,), (0.25,)), 2.0) == 0.0


def test_several_measurements_at_one_cost():
    curve = Curve((0.0, 1.0, 1.0, 2.0), (0.4, 0.2, 0.1, 0.1))
    assert cost_to_reach(curve, 0.15) == 1.0
    assert at_costs([curve], [1.0])[0, 0] == pytest.approx(0.1)


def test_an_error_of_zero_is_reached_where_it_was_measured():
    curve = Curve((0.0, 2.0), (0.0, 0.0))
    assert cost_to_reach(curve, 1e-3) == 0.0
    assert area(curve, 2.0) == pytest.approx(0.0, abs=1e-9)
    assert 0 < cost_to_reach(Curve((0.0, 2.0), (0.1, 0.0)), 1e-15) <= 2.0


def test_a_band_is_the_spread_over_common_costs():
    curves = [Curve((0.0, 4.0), (0.4, 0.1)), Curve((0.0, 2.0, 6.0), (0.4, 0.1, 0.05))]
    np.testing.assert_array_equal(common_costs(curves), [0.0, 2.0, 4.0])
    found = band(curves)
    np.testing.assert_allclose(found.high, [0.4, 0.2, 0.1])
    np.testing.assert_allclose(found.low, [0.4, 0.1, math.sqrt(0.1 * 0.05)])
    np.testing.assert_allclose(found.middle, np.sqrt(found.low * found.high))
    assert not len(band([Curve((0.0, 1.0), (1, 1)), Curve((2.0, 3.0), (1, 1))]).costs)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.03, 0.2, [0.15, 0.1, 0.07, 0.04, 0.03]),  # two that are rounder would be too few
        (0.011, 0.9, [0.5, 0.2, 0.1, 0.05, 0.02]),
        (0.063, 0.112, [0.1, 0.09, 0.08, 0.07]),
        (0.21, 0.245, [0.24, 0.23, 0.22, 0.21]),
        (0.2454, 0.2459, []),
        (0.3, 0.3, []),
        (0.0, 0.3, []),
    ],
)
def test_errors_to_reach_are_round(low, high, expected):
    assert round_errors(low, high) == expected


@pytest.mark.parametrize(
    ("costs", "errors"), [((), ()), ((1.0,), ()), ((2.0, 1.0), (1, 1)), ((0.0,), (-1.0,)), ((0.0,), (math.nan,))]
)
def test_invalid_curves(costs, errors):
    with pytest.raises(MrafnoError, match="curve: "):
        Curve(costs, errors)
    with pytest.raises(MrafnoError, match="must be positive"):
        cost_to_reach(EXPONENTIAL, 0.0)


def test_costs_are_rounded_without_exponents():
    costs = (0.12345, 41.25, 99.96, 123.4, 23_341.2)
    assert [rounded_cost(cost) for cost in costs] == ["0.123", "41.2", "100", "123", "23341"]
