"""Shares of the squared error by level, against sums by hand and draws."""

import json
import math

import numpy as np
import pytest

from mrafno.acquisition.level_errors import (
    LevelErrors,
    LevelMeasurements,
    Share,
    level_shares,
    shares_from_recent,
)


def test_the_expected_share_is_the_mean_of_its_distribution():
    draws = np.random.default_rng(0).standard_normal(400_000)
    for error, deviation in ((0.3, 0.2), (0.05, 0.4), (1.0, 0.0)):
        expected = np.mean((error * np.exp(deviation * draws)) ** 2)
        assert Share(error, deviation, 4).expected == pytest.approx(expected, rel=0.02)


def test_the_coarsest_level_by_hand():
    """Spread .1 says .18 within .35; four errors with mean .4 say .4 within the root of .3^2 + .5^2."""
    [share] = level_shares([LevelMeasurements(spread=0.1, errors=[0.2, 0.4, 0.4, 0.6])])
    precisions = np.array([1 / 0.35**2, 1 / (0.3**2 + 0.5**2)])
    expected = np.exp(precisions @ np.log([0.18, 0.4]) / precisions.sum())
    assert share.error == pytest.approx(expected)
    assert share.deviation == pytest.approx(precisions.sum() ** -0.5)
    assert share.number == 4


def test_two_levels_by_hand():
    """Coarse outputs are 20 % off, so they explain .96 of the fine ones."""
    coarse = LevelMeasurements(spread=0.1, finest=[0.2, 0.2])
    fine = LevelMeasurements(spread=0.05, below=[0.2, 0.2])
    shares = level_shares([coarse, fine])
    assert shares[0].error == pytest.approx(math.sqrt(0.96) * 0.18)
    precisions = np.array([1 / 0.35**2, 1 / 0.7**2])
    assert shares[1].error == pytest.approx(np.exp(precisions @ np.log([0.09, 0.1]) / precisions.sum()))


def test_a_coarse_mesh_that_says_nothing_of_the_fine_one_has_nothing_to_give():
    coarse = LevelMeasurements(spread=0.3, errors=[0.6, 0.7], finest=[1.3, 1.1])
    fine = LevelMeasurements(spread=0.4, below=[1.3, 1.1])
    shares = level_shares([coarse, fine])
    assert shares[0].expected == 0.0
    assert shares[1].error > 0.5


def test_without_measurements_shares_are_assumptions():
    first, second = level_shares([LevelMeasurements(), LevelMeasurements()])
    assert (first.error, first.number, second.error, second.number) == (1.0, 0, 1.0, 0)
    # A level that is predicted as the one below is off by all of the distance between the two.
    [_, fine] = level_shares([LevelMeasurements(spread=0.1, finest=[0.1]), LevelMeasurements(below=[0.1])])
    assert fine.error == pytest.approx(0.1)
    # No fine examples: as much as the coarse error.
    [coarse, fine] = level_shares([LevelMeasurements(spread=0.1), LevelMeasurements()])
    assert fine.error == pytest.approx(coarse.error)
    assert fine.deviation > coarse.deviation


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 7.0])
def test_an_error_above_one_counts_as_one(wrong):
    [share] = level_shares([LevelMeasurements(errors=[wrong])])
    assert share.error == 1.0


def test_no_error_at_all_is_a_number_too():
    [share] = level_shares([LevelMeasurements(spread=0.0, errors=[0.0])])
    assert 0 < share.error < 1e-6


def test_recent_errors_take_the_place_of_both():
    shares = shares_from_recent([*[(0, 1.0)] * 9, *[(0, 0.3)] * 5, (1, 0.5)], 2)
    np.testing.assert_allclose([share.error for share in shares], [0.3, 0.4])
    # A finer level that is no worse has nothing of its own to give; one without errors as much as what is below.
    assert shares_from_recent([(0, 0.3), (1, 0.2)], 2)[1].error == 0.0
    assert shares_from_recent([(0, 0.3)], 2)[1].error == 0.3
    assert [share.error for share in shares_from_recent([], 2)] == [1.0, 1.0]


def test_they_are_recorded_as_json():
    errors = LevelErrors((10, 2), level_shares([LevelMeasurements(errors=[0.2]), LevelMeasurements()]))
    assert LevelErrors.recorded(json.loads(json.dumps(errors.as_json()))) == errors
