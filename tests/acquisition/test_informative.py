"""Acquisitions of the paper: the utilities of the candidates, given what is chosen."""

import numpy as np
import pytest

from mrafno.acquisition import Choice, Information, pool_grams, predictive_variance, u, u_hat
from mrafno.errors import AcquisitionError
from mrafno.surrogate.prediction import Prediction
from tests.acquisition.contexts import ACQUISITIONS, context_of
from tests.acquisition.gaussians import random_predictions

REMAINING = np.array([0, 2, 5, 7])


@pytest.fixture(scope="module")
def pool():
    means, log_vars = random_predictions(5, 8, ((1, 2), (1, 4), (2, 3)), 0)
    return pool_grams([[Prediction(mean, log_var) for mean, log_var in zip(means, log_vars, strict=True)]])


@pytest.mark.parametrize("kind", ACQUISITIONS)
def test_scores_are_conditioned_on_what_is_chosen(pool, kind):
    chosen = [Choice(1, 0), Choice(6, 2)]
    given, g = pool.given(chosen), pool.gram[REMAINING]
    expected = {
        "u": lambda: u(g, given),
        "u-hat": lambda: u_hat(g, None, given),
        "predvar": lambda: predictive_variance(g, pool.log_noise[REMAINING], pool.sizes, given),
    }[kind]()
    context = context_of(REMAINING, pool=pool)
    np.testing.assert_array_equal(ACQUISITIONS[kind].score(context, chosen), expected)
    assert (ACQUISITIONS[kind].score(context, []) > expected.numpy()).all()


def test_mean_information_is_over_the_targets_of_the_context(pool):
    found = Information("all").score(context_of(REMAINING, pool=pool, targets=[1, 2]), [])
    np.testing.assert_array_equal(found, u_hat(pool.gram[REMAINING], pool.gram[[1, 2], -1]))


def test_names():
    assert {kind: acquisition.name for kind, acquisition in ACQUISITIONS.items()} == {
        "u": "u", "u-hat": "u-hat", "predvar": "predictive-variance",
    }  # fmt: skip
    with pytest.raises(AcquisitionError, match=r"unknown kind 'v'. Choose own or all"):
        Information("v")
