"""Burgers equation against a Cole-Hopf solution and a plain reference."""

import numpy as np
import pytest

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import relative_l2, resample
from mrafno.tasks import burgers
from mrafno.tasks.burgers import Burgers, solve_burgers
from tests.oracles.burgers import solve_burgers as oracle


def cole_hopf(x, t, nu, a=1.5):
    """u = -2 nu phi_x / phi with phi = a + cos(pi x) exp(-nu pi^2 t), a solution of the heat equation; zero ends."""
    decay = np.exp(-nu * np.pi**2 * t)
    return 2 * nu * np.pi * np.sin(np.pi * x) * decay / (a + np.cos(np.pi * x) * decay)


def orders(errors):
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


@pytest.mark.parametrize(("nu", "a"), [(0.05, 1.5), (0.5, 1.05)])
def test_second_order_in_space_on_a_cole_hopf_solution(nu, a):
    errors = []
    for n in (16, 32, 64, 128):
        x = np.linspace(0, 1, n + 1)
        u = solve_burgers(cole_hopf(x, 0, nu, a)[None], viscosity=nu, final_time=1.0, tolerance=1e-10)
        exact = cole_hopf(x, 1.0, nu, a)
        errors.append(np.abs(u[0] - exact).max() / exact.max())
    assert orders(errors).min() > 1.9, errors
    assert errors[-1] < 1e-3


def test_order_four_in_time():
    """Steps of equal length, against many small ones: halving the step divides the error by 16."""
    u0 = Burgers(resolutions=(33,)).sample(2)[:, 0, 1:-1]

    def march(steps):
        u = u0
        for _ in range(steps):
            u, _ = burgers._rodas_step(u, np.full((2, 1), 0.2 / steps), 1 / 32, 0.02)
        return u

    exact = march(2048)
    errors = [np.abs(march(steps) - exact).max() for steps in (32, 64, 128)]
    assert np.all((orders(errors) > 3.7) & (orders(errors) < 4.6)), errors


def test_the_error_estimate_is_of_order_four():
    """The difference of an order 4 and an order 3 solution falls like the fourth power of the step."""
    u0 = Burgers(resolutions=(33,)).sample(2)[:, 0, 1:-1]
    steps = [np.full((2, 1), h) for h in (1e-3, 5e-4, 2.5e-4)]
    estimates = [np.abs(burgers._rodas_step(u0, step, 1 / 32, 0.02)[1]).max() for step in steps]
    assert np.all((orders(estimates) > 3.5) & (orders(estimates) < 4.5)), estimates


@pytest.mark.parametrize("level", [0, 1])
def test_agrees_with_a_plain_reference(level):
    task = Burgers(resolutions=(33, 65))
    f = task.restrict(task.sample(2, seed=5), level)
    expected = oracle(f[:, 0], viscosity=0.002, final_time=1.0)
    np.testing.assert_allclose(task.solve(f, level)[:, 0], expected, rtol=0, atol=2e-6)


def test_the_tolerance_is_kept():
    """Shock-like solutions of the published problem, against a hundred times the accuracy."""
    f = Burgers().sample(4)
    exact = Burgers(tolerance=1e-10).solve(f, 1)
    assert np.abs(Burgers().solve(f, 1) - exact).max() < 1e-6


def test_coarse_solutions_are_biased_by_about_five_per_cent():
    """129 nodes contain the 33, so the distance is that at shared nodes."""
    task = Burgers()
    f = task.sample(60)
    coarse, fine = task.solve(task.restrict(f, 0), 0), task.solve(f, 1)
    shared = resample(fine, *task.grids[::-1])
    np.testing.assert_array_equal(shared, fine[..., ::4])
    assert 0.04 < relative_l2(coarse, shared).mean() < 0.06


def test_a_result_does_not_depend_on_the_batch():
    """Examples that take different steps and end at different times: equal to the last bit."""
    f = Burgers(resolutions=(40,)).sample(6)[:, 0] * np.array([1e-3, 1.0, 3.0, 0.0, 0.5, 1.0])[:, None]
    settings = {"viscosity": 0.002, "final_time": 0.7}
    together = solve_burgers(f, **settings)
    np.testing.assert_array_equal(np.concatenate([solve_burgers(f[i : i + 1], **settings) for i in range(6)]), together)
    np.testing.assert_array_equal(solve_burgers(f[::-1], **settings)[::-1], together)
    assert solve_burgers(f[:0], **settings).shape == (0, 40)


def test_solutions_have_the_symmetry_of_the_equation():
    """u(x) -> -u(1 - x) maps solutions to solutions, and energy only falls."""
    f = Burgers(resolutions=(65,)).sample(3)[:, 0]
    u = solve_burgers(f, viscosity=0.002, final_time=1.0)
    np.testing.assert_allclose(solve_burgers(-f[:, ::-1], viscosity=0.002, final_time=1.0), -u[:, ::-1], atol=1e-6)
    assert (np.sum(u**2, axis=1) < np.sum(f**2, axis=1)).all()


def test_samples_are_the_published_functions():
    task = Burgers()
    f = task.sample(50)
    x = np.linspace(0, 1, 129)
    a, b = np.random.default_rng([0, 7]).uniform(1, 6, size=2)
    np.testing.assert_allclose(f[7, 0], a * np.exp(-a * x) * np.sin(2 * np.pi * x) * np.cos(b * np.pi * x), atol=1e-14)
    assert np.abs(f[:, :, [0, -1]]).max() < 1e-14


@pytest.mark.parametrize("nodes", [5, 6, 7])
def test_smallest_meshes(nodes):
    f = np.sin(np.pi * np.linspace(0, 1, nodes))[None]
    u = solve_burgers(f, viscosity=0.05, final_time=0.5)
    np.testing.assert_allclose(u, oracle(f, viscosity=0.05, final_time=0.5), rtol=0, atol=1e-6)


def test_the_published_problem():
    task = Burgers()
    assert task.resolutions == ((33,), (129,))
    assert task.costs == (1.0, 41.2)
    assert Burgers(resolutions=(33, 65, 129)).costs[-1] == pytest.approx(41.2)
    assert Burgers(costs=(1, 5)).costs == (1.0, 5.0)
    assert task.configuration == {"viscosity": 0.002, "final_time": 1.0, "tolerance": 5e-8}


def test_a_mesh_too_coarse_for_the_shock_is_reported():
    """On 9 nodes the semi-discrete equation itself blows up (the plain reference does too): no step can follow."""
    task = Burgers(resolutions=(9, 129))
    with pytest.raises(SimulationError, match="on 9 nodes its solution blows up"):
        task.solve(task.restrict(task.sample(2), 0), 0)


def test_a_solution_that_cannot_be_followed_is_reported():
    f = np.zeros((2, 1, 33))
    f[1, 0, 5] = 1e200
    with pytest.raises(SimulationError, match="time step vanished for input 1"), np.errstate(all="ignore"):
        Burgers().solve(f, 0)


@pytest.mark.parametrize(
    "settings", [{"viscosity": 0.0}, {"final_time": -1.0}, {"tolerance": np.nan}, {"resolutions": (4, 9)}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(TaskError, match="burgers: "):
        Burgers(**settings)
