"""The reaction-diffusion equation against manufactured and plainly computed solutions."""

import numpy as np
import pytest

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import relative_l2, resample
from mrafno.tasks.diffusion import Diffusion, solve_reaction_diffusion
from tests.oracles.diffusion import solve_reaction_diffusion as oracle


def nodes(nx, nt):
    return np.meshgrid(np.linspace(0, 1, nx), np.linspace(0, 1, nt), indexing="ij")


def manufactured(nx, nt, diffusivity, reaction):
    """u = sin(2 t) sin(pi x) e^x and the forcing that makes it a solution."""
    x, t = nodes(nx, nt)
    profile = np.sin(np.pi * x) * np.exp(x)
    curvature = (2 * np.pi * np.cos(np.pi * x) + (1 - np.pi**2) * np.sin(np.pi * x)) * np.exp(x)
    u = np.sin(2 * t) * profile
    return u, 2 * np.cos(2 * t) * profile - diffusivity * np.sin(2 * t) * curvature - reaction * u**2


def orders(errors):
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


@pytest.mark.parametrize(("diffusivity", "reaction"), [(0.01, 0.01), (0.2, 0.5), (0.05, -2.0)])
def test_second_order_in_space_and_time_together(diffusivity, reaction):
    errors = []
    for n in (16, 32, 64, 128):
        u, f = manufactured(n + 1, n + 1, diffusivity, reaction)
        errors.append(np.abs(solve_reaction_diffusion(f[None], u.shape, diffusivity, reaction)[0] - u).max())
    assert orders(errors).min() > 1.9
    assert errors[-1] < 1e-3


@pytest.mark.parametrize("axis", [0, 1])
def test_second_order_along_each_axis_alone(axis):
    """The other axis is fine enough not to matter."""
    errors = []
    for n in (8, 16, 32):
        shape = (n + 1, 801) if axis == 0 else (801, n + 1)
        u, f = manufactured(*shape, 0.2, 0.5)
        errors.append(np.abs(solve_reaction_diffusion(f[None], shape, 0.2, 0.5)[0] - u).max())
    assert orders(errors).min() > 1.9


def test_a_sine_has_the_exact_discrete_solution():
    """Without reaction, sin(pi x) grows by the trapezoidal rule's factor of its own eigenvalue."""
    nx, nt, diffusivity = 21, 14, 0.3
    x, _ = nodes(nx, nt)
    rate = 4 * diffusivity * (nx - 1) ** 2 * np.sin(np.pi / (2 * (nx - 1))) ** 2
    tau = 1 / (nt - 1)
    factor = (1 - tau * rate / 2) / (1 + tau * rate / 2)
    expected = (1 - factor ** np.arange(nt)) / rate * np.sin(np.pi * x)
    u = solve_reaction_diffusion(np.sin(np.pi * x[None, :, 0]), (nx, nt), diffusivity, 0.0)
    np.testing.assert_allclose(u[0], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("level", [0, 1])
def test_agrees_with_a_plain_loop(level):
    task = Diffusion(resolutions=((32, 32), (60, 45)))
    f = task.restrict(task.sample(3), level)
    expected = oracle(f[:, 0, :, 0], task.resolutions[level], 0.01, 0.01)
    np.testing.assert_allclose(task.solve(f, level)[:, 0], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", [(2, 5), (3, 2), (3, 4), (5, 3)])
def test_smallest_grids(shape):
    f = np.ones((1, shape[0]))
    u = solve_reaction_diffusion(f, shape, 0.1, 0.5)
    expected = oracle(f, shape, 0.1, 0.5) if shape[0] > 2 else np.zeros((1, *shape))
    np.testing.assert_allclose(u, expected, rtol=0, atol=1e-12)


def test_strong_reaction_agrees_with_a_plain_loop():
    f = 30 * np.abs(Diffusion(resolutions=((40, 40),)).sample(6, seed=1)[:, 0])
    u = solve_reaction_diffusion(f, (40, 40), 0.05, -4.0)
    np.testing.assert_allclose(u, oracle(f, (40, 40), 0.05, -4.0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("reaction", [0.01, -30.0])
def test_a_result_does_not_depend_on_the_batch(reaction):
    """Examples of very different size, so that they need different numbers of iterations: equal to the last bit."""
    scale = np.array([1e-3, 1.0, 10.0, 1e-6, 5.0])[:, None]
    f = np.abs(Diffusion(resolutions=((33, 33),)).sample(5)[:, 0, :, 0]) * scale
    together = solve_reaction_diffusion(f, (33, 40), 0.01, reaction)
    alone = [solve_reaction_diffusion(f[i : i + 1], (33, 40), 0.01, reaction) for i in range(5)]
    np.testing.assert_array_equal(np.concatenate(alone), together)
    np.testing.assert_array_equal(solve_reaction_diffusion(f[::-1], (33, 40), 0.01, reaction)[::-1], together)


def test_steady_forcing_may_be_given_once():
    f = Diffusion(resolutions=((20, 30),)).sample(2)[:, 0]
    once = solve_reaction_diffusion(f[:, :, 0], (20, 30), 0.01, 0.01)
    np.testing.assert_array_equal(once, solve_reaction_diffusion(f, (20, 30), 0.01, 0.01))
    assert solve_reaction_diffusion(f[:0], (20, 30), 0.01, 0.01).shape == (0, 20, 30)


def test_samples_repeat_a_unit_variance_process_along_time():
    f = Diffusion().sample(200, seed=3)
    assert f.shape == (200, 1, 128, 128)
    assert (f == f[..., :1]).all()
    assert abs(f.std() - 1) < 0.1
    # Neighbours at one length scale correlate like exp(-1/2).
    lag = round(0.2 * 127)
    assert abs(np.mean(f[:, 0, lag:, 0] * f[:, 0, :-lag, 0]) - np.exp(-0.5 * (lag / 127 / 0.2) ** 2)) < 0.1


def test_sampling_is_reproducible_for_any_number():
    task = Diffusion()
    many = task.sample(100, seed=7)
    np.testing.assert_array_equal(many[:10], task.sample(10, seed=7))
    np.testing.assert_array_equal(many[[41, 3]], task.sample_at([41, 3], seed=7))
    assert (many[:10] != task.sample(10, seed=8)).any()
    assert task.sample(0).shape == (0, 1, 128, 128)


def test_outputs_vanish_where_zero_boundary_says():
    task = Diffusion(resolutions=((16, 12),))
    u = task.solve(task.sample(3), 0)
    assert u.shape == (3, 1, 16, 12)
    assert not u[:, :, [0, -1]].any()
    assert not u[..., 0].any()
    assert u[..., -1].any()
    assert task.zero_boundary == ((True, True), (True, False))


def test_coarse_solutions_are_biased_but_close():
    task = Diffusion()
    f = task.sample(10)
    coarse, fine = task.solve(task.restrict(f, 0), 0), task.solve(f, 1)
    bias = relative_l2(coarse, resample(fine, *task.grids[::-1]))
    assert bias.min() > 1e-4
    assert bias.mean() < 0.02


def test_default_costs():
    assert Diffusion().costs == (1.0, 17.6)
    assert Diffusion(resolutions=((16, 16), (64, 64))).costs == pytest.approx((1.0, 17.6))
    assert Diffusion(costs=(1, 2)).costs == (1.0, 2.0)


def test_identity_follows_the_parameters():
    assert Diffusion().identity == Diffusion().identity
    assert Diffusion().identity != Diffusion(reaction=0.02).identity


def test_a_blow_up_is_reported():
    """u' = k u^2 + f blows up at pi / (2 sqrt(k f)), here about 0.16 for the second input and never for the first."""
    task = Diffusion(resolutions=((33, 129),), reaction=10.0)
    f = np.stack([np.zeros((1, 33, 129)), np.full((1, 33, 129), 10.0)])
    with pytest.raises(SimulationError, match=r"outgrows the time step at t = 0\.1\d* for input 1; its solution blows"):
        task.solve(f, 0)
    assert not task.solve(f[:1], 0).any()


def test_an_infinite_forcing_is_reported():
    with pytest.raises(SimulationError, match="outgrows"), np.errstate(all="ignore"):
        solve_reaction_diffusion(np.full((1, 9), 1e300), (9, 9), 0.01, 0.01)


def test_bad_input_is_refused():
    task = Diffusion(resolutions=((8, 8), (16, 16)))
    f = task.sample(5)
    f[2, 0, 4, 9] += 1e-3
    with pytest.raises(TaskError, match=r"diffusion: inputs must be constant along t, but input 2 changes"):
        task.solve(f, 1)
    with pytest.raises(TaskError, match="constant along t"):
        task.restrict(f, 0)
    with pytest.raises(TaskError, match="NaN"):
        task.solve(np.full((1, 1, 8, 8), np.nan), 0)
    with pytest.raises(TaskError, match="shape"):
        task.solve(f, 0)
    with pytest.raises(TaskError, match=r"forcing has shape \(2, 7\)"):
        solve_reaction_diffusion(np.ones((2, 7)), (8, 8), 0.01, 0.01)


@pytest.mark.parametrize("setting", ["diffusivity", "reaction", "length_scale"])
def test_bad_settings_are_refused(setting):
    with pytest.raises(TaskError, match=setting):
        Diffusion(**{setting: np.nan})
