"""Darcy flow against manufactured, layered and plainly computed solutions."""

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.grids import relative_l2, resample
from mrafno.tasks import darcy
from mrafno.tasks.darcy import Darcy, solve_darcy
from tests.oracles.darcy import solve_darcy as oracle


def centres(nx, ny):
    return np.meshgrid((np.arange(nx) + 0.5) / nx, (np.arange(ny) + 0.5) / ny, indexing="ij")


def orders(errors):
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


def test_smooth_coefficient_converges_with_second_order():
    """u = sin(pi x) sin(2 pi y) with c = 2 + sin(3 x) cos(2 y), on cells that are not square."""
    errors = []
    for n in (16, 32, 64, 128):
        x, y = centres(n, n // 2 * 3)
        c = 2 + np.sin(3 * x) * np.cos(2 * y)
        c_x, c_y = 3 * np.cos(3 * x) * np.cos(2 * y), -2 * np.sin(3 * x) * np.sin(2 * y)
        u = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
        u_x = np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
        u_y = 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
        source = -(c_x * u_x + c_y * u_y) + 5 * np.pi**2 * c * u
        errors.append(np.abs(solve_darcy(c[None], source)[0] - u).max())
    assert orders(errors).min() > 1.9
    assert errors[-1] < 2e-3


def test_layers_have_the_exact_discrete_solution():
    """u = sin(2 pi x) sin(pi y) / c solves the layered problem; harmonic faces keep it up to a factor."""
    nx, ny = 32, 20
    x, y = centres(nx, ny)
    c = np.where(x < 0.5, 4.0, 12.0)
    shape = np.sin(2 * np.pi * x) * np.sin(np.pi * y)
    exact, discrete = 5 * np.pi**2, 4 * nx**2 * np.sin(np.pi / nx) ** 2 + 4 * ny**2 * np.sin(np.pi / (2 * ny)) ** 2
    u = solve_darcy(c[None], exact * shape)[0]
    np.testing.assert_allclose(u, exact / discrete * shape / c, rtol=0, atol=1e-9)


def test_flux_across_a_jump_converges_to_the_exact_one():
    """u = X(x) sin(pi y), X = 5x - 8x^2 left and 1 - x right: u and c u_x are continuous for c = 4 | 12."""
    values, fluxes = [], []
    for n in (16, 32, 64):
        x, y = centres(n, n)
        left = x < 0.5
        c = np.where(left, 4.0, 12.0)
        profile, curvature = np.where(left, 5 * x - 8 * x**2, 1 - x), np.where(left, -16.0, 0.0)
        source = -c * (curvature - np.pi**2 * profile) * np.sin(np.pi * y)
        u = solve_darcy(c[None], source)[0]
        values.append(np.abs(u - profile * np.sin(np.pi * y)).max())
        flux = 6.0 * n * (u[n // 2] - u[n // 2 - 1])
        fluxes.append(np.abs(flux + 12.0 * np.sin(np.pi * y[0])).max())
    assert orders(values).min() > 1.9
    assert orders(fluxes).min() > 1.9
    assert fluxes[-1] < 0.02


@pytest.mark.parametrize("shape", [(32, 32), (24, 40), (7, 5), (2, 3)])
def test_agrees_with_sparse_elimination(shape):
    rng = np.random.default_rng(0)
    c = np.exp(rng.standard_normal((3, *shape)))
    source = rng.standard_normal(shape)
    u = solve_darcy(c, source)
    np.testing.assert_allclose(u, oracle(c, source), rtol=0, atol=1e-9 * np.abs(u).max())


def test_solutions_have_the_symmetry_of_the_problem():
    """Transposing or turning the medium transposes or turns the pressure, which is positive."""
    c = Darcy(resolutions=((40, 40),)).sample(3)[:, 0]
    u = solve_darcy(c)
    assert u.min() > 0
    np.testing.assert_allclose(solve_darcy(c.transpose(0, 2, 1)), u.transpose(0, 2, 1), rtol=1e-8)
    np.testing.assert_allclose(solve_darcy(c[:, ::-1, ::-1]), u[:, ::-1, ::-1], rtol=1e-8)


@pytest.mark.parametrize("shape", [(64, 64), (13, 11), (129, 65)])
def test_a_result_does_not_depend_on_the_batch(shape):
    """Easy and hard media together, so that they leave the iteration at different times: equal to the last bit."""
    rng = np.random.default_rng(1)
    c = np.exp(np.array([0.0, 2.0, 0.3, 1.0, 0.1, 0.0, 1.5])[:, None, None] * rng.standard_normal((7, *shape)))
    together = solve_darcy(c)
    np.testing.assert_array_equal(np.concatenate([solve_darcy(c[i : i + 1]) for i in range(7)]), together)
    np.testing.assert_array_equal(solve_darcy(c[::-1])[::-1], together)


def test_high_contrast_falls_back_on_elimination():
    """A contrast that conjugate gradients cannot take beside one that they can."""
    rng = np.random.default_rng(2)
    c = np.stack([np.exp(4 * rng.standard_normal((30, 20))), np.ones((30, 20))])
    u = solve_darcy(c)
    np.testing.assert_allclose(u, oracle(c), rtol=1e-7)


def test_every_example_can_be_solved_by_elimination(monkeypatch):
    monkeypatch.setattr(darcy, "_MAX_ITERATIONS", 2)
    c = Darcy(resolutions=((16, 24),)).sample(4)[:, 0]
    np.testing.assert_allclose(solve_darcy(c), oracle(c), rtol=1e-10)


def test_no_source_no_pressure():
    assert not solve_darcy(np.ones((2, 4, 4)), 0.0).any()
    assert solve_darcy(np.ones((0, 4, 4))).shape == (0, 4, 4)


def test_samples_have_two_values_in_equal_parts():
    c = Darcy(resolutions=((32, 32),)).sample(300, seed=4)
    assert c.shape == (300, 1, 32, 32)
    assert set(np.unique(c)) == {4.0, 12.0}
    # The share of one sample has a standard deviation of about 0.35.
    assert abs((c == 12.0).mean() - 0.5) < 0.06


def test_sampling_is_reproducible_for_any_number():
    task = Darcy()
    many = task.sample(100, seed=7)
    np.testing.assert_array_equal(many[:10], task.sample(10, seed=7))
    np.testing.assert_array_equal(many[[41, 3]], task.sample_at([41, 3], seed=7))
    assert (many[:10] != task.sample(10, seed=8)).any()
    assert task.sample(0).shape == (0, 1, 128, 128)


def test_restriction_samples_the_coefficient():
    task = Darcy(resolutions=((32, 32), (128, 128)))
    assert set(np.unique(task.restrict(task.sample(5), 0))) == {4.0, 12.0}
    coarse = np.random.default_rng(0).uniform(1, 2, (2, 1, 32, 32))
    np.testing.assert_array_equal(task.restrict(coarse.repeat(4, axis=2).repeat(4, axis=3), 0), coarse)


def test_coarse_solutions_are_biased_but_close():
    task = Darcy(resolutions=((16, 16), (64, 64)))
    f = task.sample(10)
    coarse, fine = task.solve(task.restrict(f, 0), 0), task.solve(f, 1)
    assert coarse.shape == (10, 1, 16, 16)
    assert 0.01 < relative_l2(coarse, resample(fine, *task.grids[::-1])).mean() < 0.2


def test_source_and_permeability_scale_the_pressure():
    f = Darcy(resolutions=((16, 16),)).sample(2)
    base = Darcy(resolutions=((16, 16),)).solve(f, 0)
    np.testing.assert_allclose(Darcy(resolutions=((16, 16),), source=3.0).solve(2 * f, 0), 1.5 * base, rtol=1e-9)


def test_default_costs():
    assert Darcy().costs == (1.0, 38.3)
    assert Darcy(resolutions=((32, 32), (64, 64), (128, 128)), name="darcy3").costs == (1.0, 21.3, 38.3)
    assert Darcy(resolutions=((16, 16), (64, 64))).costs == pytest.approx((1.0, 38.3))
    assert Darcy(costs=(1, 2)).costs == (1.0, 2.0)


def test_identity_follows_the_parameters():
    assert Darcy().identity == Darcy().identity
    assert len({Darcy().identity, Darcy(high=3.0).identity, Darcy(name="darcy3").identity}) == 3


def test_bad_input_is_refused():
    task = Darcy(resolutions=((8, 8), (16, 16)))
    f = task.sample(5)
    f[3, 0, 2, 2] = -1.0
    with pytest.raises(TaskError, match=r"darcy: the coefficient must be positive, got min -1 in input 3\. Sample"):
        task.solve(f, 1)
    with pytest.raises(TaskError, match="positive"):
        task.restrict(f, 0)
    with pytest.raises(TaskError, match="must be positive, got min 0 in input 0"):
        solve_darcy(np.zeros((1, 4, 4)))
    with pytest.raises(TaskError, match="NaN"):
        task.solve(np.full((1, 1, 8, 8), np.nan), 0)
    with pytest.raises(TaskError, match="shape"):
        task.solve(f, 0)
    with pytest.raises(TaskError, match="level"):
        task.solve(f, 2)


@pytest.mark.parametrize("setting", ["high", "low", "shift", "power", "source"])
def test_bad_settings_are_refused(setting):
    with pytest.raises(TaskError, match=setting):
        Darcy(**{setting: np.nan})
