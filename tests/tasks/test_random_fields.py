"""Random fields: the covariance of many samples is the specified one.

The bounds are statistical: entry (i, j) of a sample covariance of n Gaussian vectors has variance
(C_ii C_jj + C_ij^2) / n, so the largest deviation in units of its standard deviation is around 3 to 4.5 over the few
hundred entries compared here. A covariance that is wrong by a tenth is ten or more of them away.
"""

import numpy as np
import pytest

from mrafno.tasks.base import generators
from mrafno.tasks.random_fields import neumann_field, periodic_field, rbf_process

N = 20_000


def assert_covariance(samples, covariance):
    """``samples`` (n, m) against ``covariance`` (m, m); the mean is known to be zero."""
    n = len(samples)
    measured = samples.T @ samples / n
    diagonal = np.diag(covariance)
    deviation = np.sqrt((np.outer(diagonal, diagonal) + covariance**2) / n)
    assert (np.abs(measured - covariance) / deviation).max() < 5.5
    assert (np.abs(samples.mean(axis=0)) / np.sqrt(diagonal / n)).max() < 5.5


def rngs(n):
    return generators(range(n), 0)


def test_the_bound_can_fail():
    """The same samples with a tenth more variance are refused."""
    x = np.linspace(0, 1, 8)
    samples = rbf_process(rngs(N), x, length_scale=0.2)
    covariance = np.exp(-0.5 * ((x[:, None] - x) / 0.2) ** 2)
    with pytest.raises(AssertionError):
        assert_covariance(samples * np.sqrt(1.1), covariance)


@pytest.mark.parametrize("length_scale", [0.2, 0.5])
def test_rbf_process(length_scale):
    x = np.linspace(0, 1, 16)
    covariance = np.exp(-0.5 * ((x[:, None] - x) / length_scale) ** 2)
    assert_covariance(rbf_process(rngs(N), x, length_scale=length_scale), covariance)


def test_rbf_process_on_a_fine_grid_is_finite_and_smooth():
    """The kernel is singular there to machine precision."""
    f = rbf_process(rngs(20), np.linspace(0, 1, 128), length_scale=0.2)
    assert np.isfinite(f).all()
    assert np.abs(np.diff(f, 2, axis=1)).max() < 0.05


@pytest.mark.parametrize(("shape", "shift", "power"), [((12,), 9.0, 2.0), ((6, 8), 9.0, 2.0), ((7, 4), 3.0, 1.5)])
def test_neumann_field(shape, shift, power):
    """Summed from the eigenfunctions one by one: 1 and sqrt(2) cos(pi k x) at cell centres."""
    covariance = 0.0
    for k in np.ndindex(shape):
        phi = np.ones(())
        for k_i, n in zip(k, shape, strict=True):
            x = (np.arange(n) + 0.5) / n
            phi = np.multiply.outer(phi, np.ones(n) if k_i == 0 else np.sqrt(2) * np.cos(np.pi * k_i * x))
        value = (np.pi**2 * sum(k_i**2 for k_i in k) + shift) ** -power
        covariance = covariance + value * np.outer(phi.ravel(), phi.ravel())
    samples = neumann_field(rngs(N), shape, shift=shift, power=power)
    assert samples.shape == (N, *shape)
    assert_covariance(samples.reshape(N, -1), covariance)


@pytest.mark.parametrize("shape", [(16,), (6, 8), (7, 5)])
def test_periodic_field(shape):
    """Summed over the paired modes: lambda_k cos(2 pi k (x - x'))."""
    scale, shift, power = 7.0**1.5, 49.0, 2.5
    points = np.stack(np.meshgrid(*[np.arange(n) / n for n in shape], indexing="ij"), axis=-1).reshape(-1, len(shape))
    difference = points[:, None] - points[None]
    covariance = np.zeros((len(points),) * 2)
    for k in np.ndindex(*[2 * ((n - 1) // 2) + 1 for n in shape]):
        wave = np.array([k_i - (n - 1) // 2 for k_i, n in zip(k, shape, strict=True)])
        if wave.any():
            value = scale * (4 * np.pi**2 * (wave**2).sum() + shift) ** -power
            covariance += value * np.cos(2 * np.pi * difference @ wave)
    samples = periodic_field(rngs(N), shape, scale=scale, shift=shift, power=power)
    assert_covariance(samples.reshape(N, -1), covariance)
    axes = tuple(range(1, samples.ndim))
    assert np.abs(samples.mean(axis=axes)).max() < 1e-14


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: neumann_field(r, (8, 6), shift=9.0, power=2.0),
        lambda r: periodic_field(r, (8, 6), scale=1.0, shift=49.0, power=2.5),
        lambda r: rbf_process(r, np.linspace(0, 1, 128), length_scale=0.2),
    ],
)
def test_a_field_does_not_depend_on_how_many_are_drawn(draw):
    many = draw(rngs(40))
    np.testing.assert_array_equal(draw(rngs(7)), many[:7])
    np.testing.assert_array_equal(draw(rngs(1)), many[:1])
    assert len(draw([])) == 0
