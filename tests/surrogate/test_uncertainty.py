"""Likelihoods of a matched Gaussian against dense ones, and the shift that known residuals ask for."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch.distributions import Normal

from mrafno.surrogate.prediction import Prediction
from mrafno.surrogate.uncertainty import best_shift, gaussian_nll, marginal_nll


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
def test_best_shift_recovers_a_known_scale(factor, spread):
    """Residuals of variance spread + factor * noise on two grids: the shift is log(factor), to its sampling error."""
    rng = np.random.default_rng(0)
    residuals, noises, spreads = [], [], []
    for n, d in ((60, 40), (40, 160)):
        noise = np.exp(rng.normal(0, 0.5, n))
        extra = spread * rng.uniform(0, 1, (n, d))
        residuals.append(rng.standard_normal((n, d)) * np.sqrt(extra + factor * noise[:, None]))
        noises.append(noise)
        spreads.append(extra)
    assert abs(best_shift(residuals, noises, spreads) - np.log(factor)) < 0.1


def test_best_shift_has_a_closed_form_without_spread():
    """The mean over examples of their mean squared residual over noise."""
    rng = np.random.default_rng(1)
    residual, noise = rng.standard_normal((9, 20)), np.exp(rng.standard_normal(9))
    expected = np.log(np.mean(np.mean(residual**2, axis=1) / noise))
    assert abs(best_shift([residual], [noise], [np.zeros_like(residual)]) - expected) < 2e-3


def test_every_example_counts_the_same_whatever_its_grid():
    rng = np.random.default_rng(2)
    one, noise = rng.standard_normal((5, 8)), np.ones(5)
    zeros = np.zeros_like(one)
    wide = np.repeat(one, 16, axis=1)
    other = 3 * rng.standard_normal((5, 8))
    a = best_shift([one, other], [noise, noise], [zeros, zeros])
    b = best_shift([wide, other], [noise, noise], [np.zeros_like(wide), zeros])
    assert abs(a - b) < 2e-3


def test_a_weight_counts_as_repetition_does():
    rng = np.random.default_rng(3)
    one, other = rng.standard_normal((4, 8)), 3 * rng.standard_normal((12, 8))
    noises, zeros = [np.ones(4), np.ones(12)], [np.zeros_like(one), np.zeros_like(other)]
    repeated = [np.tile(one, (3, 1)), other], [np.ones(12), np.ones(12)], [np.tile(zeros[0], (3, 1)), zeros[1]]
    assert abs(best_shift([one, other], noises, zeros, [3.0, 1.0]) - best_shift(*repeated)) < 2e-3


def test_best_shift_stays_in_bounds_and_is_zero_without_data():
    nothing = np.zeros((0, 4))
    assert best_shift([], [], []) == 0.0
    assert best_shift([nothing], [np.zeros(0)], [nothing]) == 0.0
    ones, zeros = np.ones(3), np.zeros((3, 4))
    assert -3.01 < best_shift([zeros], [ones], [zeros]) < -2.99
    assert 11.99 < best_shift([zeros + 1e30], [ones], [zeros]) < 12.01
    # With the spread alone explaining all, more noise is never better.
    assert best_shift([zeros + 1.0], [ones], [zeros + 1.0]) < -2.9
