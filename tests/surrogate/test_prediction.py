"""A prediction's moments against those of the mixture it stands for."""

import numpy as np
import pytest

from mrafno.errors import SurrogateError
from mrafno.surrogate.prediction import Prediction


def test_moments():
    rng = np.random.default_rng(0)
    mean, log_var = rng.standard_normal((4, 3, 2, 5, 6)), rng.standard_normal((4, 3))
    prediction = Prediction(mean, log_var)
    assert prediction.sample_count == 4
    np.testing.assert_allclose(prediction.mean, sum(mean) / 4)
    np.testing.assert_allclose(prediction.noise, sum(np.exp(log_var)) / 4)
    variance = sum((m - prediction.mean) ** 2 for m in mean) / 3
    np.testing.assert_allclose(prediction.spread, variance)
    np.testing.assert_allclose(prediction.std**2, variance + prediction.noise[:, None, None, None])
    assert prediction.mean.shape == prediction.spread.shape == prediction.std.shape == (3, 2, 5, 6)
    assert prediction.noise.shape == (3,)


def test_std_is_that_of_draws_from_the_mixture():
    """Up to the unbiased factor: each sample plus its noise, drawn often."""
    rng = np.random.default_rng(1)
    mean, log_var = rng.standard_normal((50, 1, 1, 3)), rng.normal(-1, 0.3, (50, 1))
    draws = mean[:, None] + np.exp(log_var / 2)[:, None, :, None, None] * rng.standard_normal((50, 4000, 1, 1, 3))
    np.testing.assert_allclose(Prediction(mean, log_var).std, draws.std(axis=(0, 1)), rtol=0.03)


def test_one_sample_has_no_spread():
    prediction = Prediction(np.ones((1, 2, 1, 4)), np.zeros((1, 2)))
    assert (prediction.spread == 0).all()
    assert (prediction.std == 1).all()


@pytest.mark.parametrize(
    ("mean", "log_var"), [((3, 2, 8), (3, 2)), ((3, 2, 1, 8), (2, 3)), ((3, 2, 1, 8), (3,)), ((3, 2, 1, 8), (3, 2, 1))]
)
def test_shapes_that_do_not_fit_raise_an_error(mean, log_var):
    with pytest.raises(SurrogateError, match="do not fit"):
        Prediction(np.zeros(mean), np.zeros(log_var))


def test_a_record_is_frozen():
    with pytest.raises(AttributeError):
        Prediction(np.zeros((1, 1, 1, 2)), np.zeros((1, 1))).samples = np.zeros(3)
