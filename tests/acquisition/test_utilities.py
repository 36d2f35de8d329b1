"""Utilities against dense covariances and plain loops; conditioning and blocks change nothing else."""

import numpy as np
import pytest
import torch

from mrafno.acquisition import PoolGrams, draw_targets, pool_grams, predictive_variance, u, u_hat
from mrafno.errors import AcquisitionError
from mrafno.surrogate.prediction import Prediction
from tests.acquisition.gaussians import DenseGaussian, random_predictions

SHAPES = ((1, 2), (1, 4), (2, 3))


def make(samples=5, n=6, shapes=SHAPES, seed=0):
    means, log_vars = random_predictions(samples, n, shapes, seed)
    chunk = [Prediction(mean, log_var) for mean, log_var in zip(means, log_vars, strict=True)]
    return pool_grams([chunk]), DenseGaussian(means, log_vars)


@pytest.mark.parametrize("samples", [2, 5, 20])
@pytest.mark.parametrize("known", [[], [(0, 0), (4, 2)]])
def test_utilities_equal_the_dense_gaussian(samples, known):
    """Three levels, the finest with two channels."""
    pool, dense = make(samples)
    n, top = len(pool), len(SHAPES) - 1
    given = pool.given(known) if known else None
    pairs = [[(i, r) for r in range(top + 1)] for i in range(n)]
    own = [[dense.information((i, r), (i, top), known) for i, r in row] for row in pairs]
    np.testing.assert_allclose(u(pool.gram, given), own, rtol=1e-9)
    every = [[np.mean([dense.information(p, (j, top), known) for j in range(n)]) for p in row] for row in pairs]
    np.testing.assert_allclose(u_hat(pool.gram, given=given), every, rtol=1e-9)
    two = [[np.mean([dense.information(p, (j, top), known) for j in (1, 5)]) for p in row] for row in pairs]
    np.testing.assert_allclose(u_hat(pool.gram, pool.gram[[1, 5], -1], given), two, rtol=1e-9)
    variance = [[dense.variance(p, known) for p in row] for row in pairs]
    np.testing.assert_allclose(predictive_variance(pool.gram, pool.log_noise, pool.sizes, given), variance, rtol=1e-11)


def test_predictive_variance_is_that_of_the_prediction():
    means, log_vars = random_predictions(5, 7, ((2, 3, 4),))
    prediction = Prediction(means[0], log_vars[0])
    pool = pool_grams([[prediction]])
    expected = (prediction.std**2).reshape(7, -1).mean(1)
    np.testing.assert_allclose(predictive_variance(pool.gram, pool.log_noise, pool.sizes)[:, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 4, 9])
def test_chunks_change_nothing(size):
    means, log_vars = random_predictions(5, 9, SHAPES)

    def chunks(size):
        for i in range(0, 9, size):
            yield (Prediction(m[:, i : i + size], v[:, i : i + size]) for m, v in zip(means, log_vars, strict=True))

    found, whole = pool_grams(chunks(size)), pool_grams(chunks(9))
    assert found.sizes == whole.sizes == (2, 4, 6)
    torch.testing.assert_close(found.gram, whole.gram, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(found.log_noise, whole.log_noise, rtol=1e-13, atol=1e-13)
    for numbers in (1, 200, 10**8):
        torch.testing.assert_close(u_hat(found.gram, numbers=numbers), u_hat(whole.gram), rtol=1e-11, atol=0.0)


def test_one_prediction_is_in_memory_at_a_time():
    alive, most = 0, 0

    class Counted(Prediction):
        def __del__(self):
            nonlocal alive
            alive -= 1

    def level():
        nonlocal alive, most
        for d in (3, 7):
            alive += 1
            most = max(most, alive)
            yield Counted(np.random.default_rng(d).standard_normal((4, 2, 1, d)), np.zeros((4, 2)))

    pool_grams(level() for _ in range(5))
    assert alive == 0
    assert most <= 2  # the next is made while the loop still holds the last


def test_drawn_targets():
    remaining = np.array([3, 8, 9, 20, 31, 40])
    found = draw_targets(remaining, 4, seed=1, step=7)
    assert set(found) < set(remaining)
    assert len(set(found)) == 4
    np.testing.assert_array_equal(found, draw_targets(remaining, 4, seed=1, step=7))
    assert len({tuple(draw_targets(remaining, 4, seed=1, step=step)) for step in range(20)}) > 5
    np.testing.assert_array_equal(draw_targets(remaining, 100, seed=0, step=0), remaining)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: u(p.gram[0]), r"\(P, R, S, S\)"),
        (lambda p: PoolGrams(p.gram, p.log_noise[:2], p.sizes), "do not fit"),
        (lambda p: PoolGrams(p.gram, p.log_noise, p.sizes[:1]), "do not fit"),
        (lambda p: pool_grams([]), "no candidates"),
        (lambda p: draw_targets([1, 2], 0, seed=0, step=0), "at least one"),
        (
            lambda p: pool_grams([[Prediction(np.ones((3, n, 1, 4)), np.ones((3, n))) for n in (2, 3)]]),
            r"chunk 0 has \[2, 3\]",
        ),
        (
            lambda p: pool_grams([[Prediction(np.ones((3, 2, 1, d)), np.ones((3, 2)))] for d in (4, 5)]),
            r"chunk 1 .* \[5\]",
        ),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(AcquisitionError, match=words):
        call(make()[0])
