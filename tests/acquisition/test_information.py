"""The low-rank formulas are exact, so compare with dense covariances, and with many digits where these run out."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from mrafno.acquisition import entropy, gram, log_det_identity_plus, mean_information, mutual_information
from mrafno.acquisition.information import log_noise
from mrafno.errors import AcquisitionError
from tests.acquisition.gaussians import DenseGaussian, random_predictions


def log_det_many_digits(matrices):
    """log det(I + sum of matrices) in 80 digits, by elimination."""
    with localcontext() as context:
        context.prec = 80
        n = len(matrices[0])
        a = [
            [sum((Decimal(float(m[i][j])) for m in matrices), Decimal(int(i == j))) for j in range(n)] for i in range(n)
        ]
        total = Decimal(0)
        for k in range(n):
            total += a[k][k].ln()
            for i in range(k + 1, n):
                for j in range(k + 1, n):
                    a[i][j] -= a[i][k] * a[k][j] / a[k][k]
        return total


def information_many_digits(g1, g2):
    with localcontext() as context:
        context.prec = 80
        parts = log_det_many_digits([g1]) + log_det_many_digits([g2]) - log_det_many_digits([g1, g2])
        return float(parts / 2)


def random_grams(samples, n, seed=0, rank=None):
    rng = np.random.default_rng(seed)
    b = rng.standard_normal((n, samples, rank or samples + 3))
    return b @ b.transpose(0, 2, 1)


@pytest.mark.parametrize("samples", [2, 5, 20])
def test_entropy_equals_the_dense_gaussian(samples):
    means, log_vars = random_predictions(samples, 3)
    dense = DenseGaussian(means, log_vars)
    for level, (mean, log_var) in enumerate(zip(means, log_vars, strict=True)):
        d = int(np.prod(mean.shape[2:]))
        found = entropy(gram(mean, log_var), log_noise(log_var), d)
        expected = [multivariate_normal(cov=dense.covariance((i, level))).entropy() for i in range(3)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("samples", [2, 5, 20])
def test_mutual_information_equals_the_dense_gaussian(samples):
    means, log_vars = random_predictions(samples, 4)
    dense = DenseGaussian(means, log_vars)
    coarse, fine = (gram(mean, log_var) for mean, log_var in zip(means, log_vars, strict=True))
    found = mutual_information(coarse[:, None], fine)
    expected = [[dense.information((i, 0), (j, 1)) for j in range(4)] for i in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(mutual_information(fine, coarse[:, None]), expected, rtol=1e-10)


@pytest.mark.parametrize("samples", [2, 5, 20])
def test_conditioning_is_exact(samples):
    """Information and entropy given three outputs equal those of the Schur complement."""
    means, log_vars = random_predictions(samples, 5)
    dense = DenseGaussian(means, log_vars)
    coarse, fine = (gram(mean, log_var) for mean, log_var in zip(means, log_vars, strict=True))
    known, given = [(0, 0), (0, 1), (3, 1)], coarse[0] + fine[0] + fine[3]
    found = mutual_information(coarse[1], fine[2], given)
    np.testing.assert_allclose(found, dense.information((1, 0), (2, 1), given=known), rtol=1e-9)
    d = int(np.prod(means[1].shape[2:]))
    np.testing.assert_allclose(
        entropy(fine, log_noise(log_vars[1]), d, given)[4], dense.entropy((4, 1), given=known), rtol=1e-11
    )


@pytest.mark.parametrize("scale1", [1e-12, 1e-6, 1e-2, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("scale2", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("rank", [1, 3, None])
def test_precision_over_twenty_orders_of_magnitude(scale1, scale2, rank):
    """Also with matrices of low rank. Rounding a matrix of 1e8 moves its small eigenvalues by 1e-8: this is allowed."""
    g1, g2 = scale1 * random_grams(4, 1, 1, rank)[0], scale2 * random_grams(4, 1, 2, rank)[0]
    expected = information_many_digits(g1, g2)
    rounding = 2e-15 * max(scale1, scale2)
    close = pytest.approx(expected, rel=1e-12, abs=rounding * min(1.0, scale1, scale2))
    assert mutual_information(g1, g2) == close
    assert mutual_information(g2, g1) == close
    mean = mean_information(g1[None], g2[None])[0]
    assert mean == pytest.approx(expected, rel=1e-8, abs=rounding * min(1.0, 100 * scale1))
    assert log_det_identity_plus(g1) == pytest.approx(float(log_det_many_digits([g1])), rel=1e-13, abs=2e-15 * scale1)


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e8, 1e16, 1e30])
def test_extremes_stay_finite_and_not_negative(scale):
    g = torch.as_tensor(scale * random_grams(5, 6, rank=4))
    for found in (
        mutual_information(g[:, None], g),
        mutual_information(g[:, None], g, given=g.sum(0)),
        mean_information(g, g),
        log_det_identity_plus(g),
    ):
        assert torch.isfinite(found).all()
        assert (found >= 0).all()


def test_information_is_symmetric_and_bounded():
    """No output says more of another than of the weights, and more matrices in ``given`` say it already."""
    g = torch.as_tensor(random_grams(5, 30) * np.logspace(-4, 4, 30)[:, None, None])
    information = mutual_information(g[:, None], g)
    torch.testing.assert_close(information, information.T, rtol=1e-10, atol=0.0)
    most = 0.5 * log_det_identity_plus(g)
    assert (information <= torch.minimum(most[:, None], most) * (1 + 1e-12)).all()
    assert (log_det_identity_plus(g, given=g[3]) < log_det_identity_plus(g)).all()
    assert (mutual_information(g, 0 * g) == 0).all()


@pytest.mark.parametrize("numbers", [1, 100, 5000, 10**9])
@pytest.mark.parametrize("given", [False, True])
def test_mean_information_is_the_mean_in_blocks_of_any_size(numbers, given):
    g = random_grams(5, 24) * np.logspace(-9, 3, 24)[:, None, None]
    known = g[-4] if given else None
    found = mean_information(g[:17], g[15:], known, numbers=numbers)
    expected = mutual_information(g[:17, None], g[15:], known).mean(-1)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=0.0)


@pytest.mark.parametrize("samples", [2, 5])
@pytest.mark.parametrize("given", [False, True])
def test_mean_information_of_predictions(samples, given):
    """Gram matrices of predictions have a direction without information, which is left out."""
    means, log_vars = random_predictions(samples, 9, spread=1e-3)
    coarse, fine = (gram(1e3 + mean, log_var - 10) for mean, log_var in zip(means, log_vars, strict=True))
    assert fine.sum(-1).abs().max() < 1e-13 * fine.diagonal(dim1=-2, dim2=-1).sum(-1).min()
    known = coarse[2] + fine[5] if given else None
    found = mean_information(coarse, fine, known)
    torch.testing.assert_close(found, mutual_information(coarse[:, None], fine, known).mean(-1), rtol=1e-9, atol=0.0)


def test_gram_takes_tensors_and_arrays_and_any_grid():
    rng = np.random.default_rng(0)
    mean, log_var = rng.standard_normal((5, 3, 2, 4, 6)), rng.standard_normal((5, 3))
    found = gram(mean, log_var)
    assert found.dtype == torch.float64
    assert found.shape == (3, 5, 5)
    torch.testing.assert_close(gram(torch.tensor(mean), torch.tensor(log_var)), found)
    torch.testing.assert_close(gram(mean.reshape(5, 3, -1), log_var), found)
    single = gram(torch.tensor(mean).float(), torch.tensor(log_var).float())
    torch.testing.assert_close(single, found, rtol=1e-5, atol=1e-5)
    b = (mean[:, 1] - mean[:, 1].mean(0)).reshape(5, -1).T / 2
    np.testing.assert_allclose(found[1], b.T @ b / np.exp(log_var[:, 1]).mean(), rtol=1e-12)


def test_a_single_sample_says_nothing():
    g = gram(np.ones((1, 2, 1, 3)), np.zeros((1, 2)))
    assert (g == 0).all()
    assert (mutual_information(g, g) == 0).all()


def test_tiny_noise_does_not_overflow():
    """Only the ratio of spread and noise counts."""
    rng = np.random.default_rng(0)
    mean, log_var = rng.standard_normal((3, 2, 1, 5)), np.zeros((3, 2))
    torch.testing.assert_close(gram(1e-170 * mean, log_var - 2 * 170 * np.log(10)), gram(mean, log_var))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gram(np.ones((3, 2, 1, 4)), np.zeros((2, 3))), "do not fit"),
        (lambda: gram(np.full((3, 2, 1, 4), np.nan), np.zeros((3, 2))), "input 0 has NaN"),
        (lambda: mutual_information(np.eye(3), np.eye(4)), "3 and 4 samples"),
        (lambda: mutual_information(np.eye(3), np.eye(3), given=np.eye(2)), "given"),
        (lambda: log_det_identity_plus(np.ones((2, 3))), r"\(\.\.\., S, S\)"),
        (lambda: mean_information(np.ones((2, 3, 3)), np.ones((0, 3, 3))), "mean_information"),
        (lambda: mean_information(np.ones((2, 3, 3)), np.ones((4, 3, 3)), np.eye(2)), "given"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(AcquisitionError, match=words):
        call()
