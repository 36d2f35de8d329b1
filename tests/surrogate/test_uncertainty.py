"""Likelihoods of a matched Gaussian against dense ones, and the shift that known residuals ask for."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch.distributions import Normal

from mrafno.surrogate.prediction import Prediction
from mrafno.surrogate.uncertainty import balancing_shift, gaussian_nll, marginal_nll


def prediction_of(samples, shape=(2, 3, 4), n=3, seed=0):
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal((samples, n, *shape))
    return Prediction(mean, rng.normal(-1, 0.5, (samples, n))), rng.standard_normal((n, *shape))


@pytest.mark.parametrize("samples", [1, 2, 5, 40])
def test_gaussian_nll_equals_the_dense_one(samples):
    """Also with more samples than values."""
    prediction, truth = prediction_of(samples)
    for i, found in enumerate(gaussian_nll(prediction, truth)):
        flat = prediction.samples[:, i].reshape(samples, -1)
        covariance = prediction.noise[i] * np.eye(flat.shape[1])
        if samples > 1:
            covariance += np.cov(flat.T)
        expected = -multivariate_normal(flat.mean(0), covariance).logpdf(truth[i].ravel())
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("samples", [1, 5])
def test_marginal_nll_equals_torch(samples):
    prediction, truth = prediction_of(samples, shape=(2, 7))
    normal = Normal(torch.as_tensor(prediction.mean), torch.as_tensor(prediction.std))
    expected = -normal.log_prob(torch.as_tensor(truth)).flatten(1).sum(1)
    np.testing.assert_allclose(marginal_nll(prediction, truth), expected.numpy(), rtol=1e-12)


def test_both_agree_where_there_is_no_spread():
    prediction, truth = prediction_of(1)
    np.testing.assert_allclose(gaussian_nll(prediction, truth), marginal_nll(prediction, truth), rtol=1e-12)


@pytest.mark.parametrize("factor", [0.2, 1.0, 30.0])
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_the_shift_recovers_a_known_scale(factor, spread):
    """Residuals of variance spread + factor * noise: the shift is log(factor), to its sampling error."""
    rng = np.random.default_rng(0)
    noise = np.exp(rng.normal(0, 0.5, 100))
    extra = spread * rng.uniform(0, 1, (100, 400))
    residual = rng.standard_normal((100, 400)) * np.sqrt(extra + factor * noise[:, None])
    assert abs(balancing_shift(residual, noise, extra) - np.log(factor)) < 0.1


def test_a_spread_that_is_the_residual_itself_leaves_noise():
    """Four of five networks were trained on the example, the fifth is off by r: the members' variance is r^2 / 5."""
    residual = np.random.default_rng(1).standard_normal((6, 30))
    samples = np.zeros((5, *residual.shape))
    samples[0] = -residual
    spread = 1.8 * samples.var(axis=0, ddof=1)
    np.testing.assert_allclose(spread, 0.36 * residual**2, rtol=1e-12)
    assert balancing_shift(residual, np.ones(6), spread) == pytest.approx(np.log(0.64 * np.mean(residual**2)))


def test_the_shift_stays_in_bounds_and_is_zero_without_data():
    assert balancing_shift(np.zeros((0, 4)), np.zeros(0), np.zeros((0, 4))) == 0.0
    ones, zeros = np.ones(3), np.zeros((3, 4))
    assert balancing_shift(zeros, ones, zeros) == -3.0
    assert balancing_shift(zeros + 1e30, ones, zeros) == 12.0
    # Where the spread alone explains more than all, a part of the residuals counts as noise.
    assert balancing_shift(zeros + 1.0, ones, zeros + 2.0) == pytest.approx(np.log(0.05))
