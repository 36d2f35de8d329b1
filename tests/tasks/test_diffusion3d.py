"""Diffusion in a cube against exact solutions and a plain reference."""

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.grids import Grid, relative_l2, resample
from mrafno.tasks.diffusion3d import Diffusion3D, solve_diffusion
from tests.oracles.diffusion3d import solve_diffusion as oracle


def centres(*shape):
    return np.meshgrid(*Grid(shape, ("cells",) * len(shape)).axes, indexing="ij")


def orders(errors):
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


def test_without_sink_a_sine_has_the_exact_discrete_solution():
    """It grows to f (1 - exp(-rate t)) / rate with its own eigenvalue, whatever the number of steps."""
    shape, waves = (6, 5, 9), (1, 2, 3)
    f = np.prod([np.sin(k * np.pi * x) for k, x in zip(waves, centres(*shape), strict=True)], axis=0)
    rate = 0.1 * sum(4 * n**2 * np.sin(np.pi * k / (2 * n)) ** 2 for k, n in zip(waves, shape, strict=True))
    for steps in (1, 7):
        u = solve_diffusion(f[None], 0.1, 0.0, 0.8, steps)
        np.testing.assert_allclose(u[0], f * (1 - np.exp(-0.8 * rate)) / rate, rtol=0, atol=1e-15)


def test_second_order_towards_the_exact_solution_of_the_equation():
    """Of the sine with its true eigenvalue."""
    errors = []
    for n in (8, 16, 32):
        f = np.prod([np.sin(np.pi * x) for x in centres(n, n, n)], axis=0)
        rate = 0.3 * 3 * np.pi**2
        errors.append(
            np.abs(solve_diffusion(f[None], 0.3, 0.0, 0.1, n)[0] - f * (1 - np.exp(-0.1 * rate)) / rate).max()
        )
    assert orders(errors).min() > 1.9
    assert errors[-1] < 1e-4


def test_second_order_in_space_and_time_together_with_the_sink():
    """Towards the steady state sin(pi x) sin(pi y) sin(2 pi z), whose source is known."""
    errors = []
    for n in (8, 16, 32):
        x, y, z = centres(n, n, n)
        steady = np.sin(np.pi * x) * np.sin(np.pi * y) * np.sin(2 * np.pi * z)
        f = 0.5 * 6 * np.pi**2 * steady + 4.0 * steady**3
        errors.append(np.abs(solve_diffusion(f[None], 0.5, 4.0, 1.5, 8 * n)[0] - steady).max())
    assert orders(errors).min() > 1.85


@pytest.mark.parametrize("shape", [(5, 4, 6), (7, 8), (12,)])
def test_agrees_with_a_general_integrator_of_any_dimension(shape):
    f = 3 * np.random.default_rng(0).standard_normal((2, *shape))
    exact = oracle(f, 0.05, 4.0, 1.0)
    errors = [np.abs(solve_diffusion(f, 0.05, 4.0, 1.0, steps) - exact).max() for steps in (40, 80, 160)]
    assert errors[-1] < 3e-4
    assert orders(errors).min() > 1.9


def test_a_result_does_not_depend_on_the_batch():
    task = Diffusion3D(resolutions=((6, 7, 8),))
    f = task.sample(5)
    together = task.solve(f, 0)
    np.testing.assert_array_equal(np.concatenate([task.solve(f[i : i + 1], 0) for i in range(5)]), together)
    np.testing.assert_array_equal(task.solve(f[::-1], 0)[::-1], together)


def test_sources_have_the_strength_that_is_asked_for():
    assert abs(Diffusion3D(strength=3.0).sample(60, seed=1).std() - 3.0) < 0.3


def test_coarse_solutions_are_biased_but_related():
    task = Diffusion3D()
    f = task.sample(4)
    coarse, fine = task.solve(task.restrict(f, 0), 0), task.solve(f, 1)
    bias = relative_l2(coarse, resample(fine, *task.grids[::-1]))
    assert 0.02 < bias.mean() < 0.2


@pytest.mark.parametrize("setting", ["diffusivity", "sink", "final_time", "strength", "shift", "power"])
def test_bad_settings_are_refused(setting):
    for bad in (-1.0, np.nan):
        with pytest.raises(TaskError, match=f"diffusion3d: {setting} must be"):
            Diffusion3D(**{setting: bad})
