"""The Navier-Stokes problem against exact flows, conservation laws, finer grids and a plain reference."""

import numpy as np
import pytest

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import Grid, relative_l2, resample
from mrafno.tasks.navier_stokes import NavierStokes, integrate
from tests.oracles import navier_stokes as oracle

TAU = 2 * np.pi
PERIODIC = ("periodic", "periodic")


def axes(shape):
    x, y = Grid(shape, PERIODIC).axes
    return x[:, None], y[None, :]


def small(**settings):
    settings = {"resolutions": ((8, 8), (16, 16)), "frames": 2, "final_time": 2.5, **settings}
    return NavierStokes(**settings)


def smooth(shape):
    """Two flows whose spectra fall like exp(-|k|): nothing cancels, and every grid below holds what matters."""
    x, y = axes(shape)
    first = np.sin(TAU * x) * np.exp(np.cos(TAU * y)) + np.cos(TAU * (x - 2 * y))
    second = np.exp(np.sin(TAU * (x + y))) * np.cos(TAU * x) - np.sin(2 * TAU * y)
    w = 2.0 * np.stack([first, second])
    return w - w.mean(axis=(1, 2), keepdims=True)


def forcing(shape, amplitude=0.1):
    x, y = axes(shape)
    return amplitude * (np.sin(TAU * (x + y)) + np.cos(TAU * (x + y)))


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def energy_and_enstrophy(w):
    n, m = w.shape[-2:]
    kx, ky = np.meshgrid(np.fft.fftfreq(n, 1 / n), np.fft.fftfreq(m, 1 / m), indexing="ij")
    square = (TAU**2) * (kx**2 + ky**2)
    square[0, 0] = 1.0
    power = np.abs(np.fft.fft2(w, norm="forward")) ** 2
    return (power / square).sum(axis=(-2, -1)), power.sum(axis=(-2, -1))


@pytest.mark.parametrize("shape", [(8, 8), (9, 16), (16, 11)])
def test_taylor_green_vortices_decay(shape):
    """A single eigenfunction of the Laplacian does not advect itself: it decays, exactly, at any step."""
    x, y = axes(shape)
    w0 = np.sin(TAU * x) * np.cos(TAU * y) + 0.3 * np.cos(TAU * (x + y))
    times = (0.5, 1.25, 2.0)
    w = integrate(w0[None], viscosity=0.01, forcing=np.zeros(shape), times=times)
    exact = np.exp(-0.01 * 2 * TAU**2 * np.array(times))[:, None, None] * w0
    np.testing.assert_allclose(w[0], exact, atol=1e-13)


def test_steady_forcing_of_an_eigenfunction_is_exact():
    """From rest the forcing and viscosity of a shear flow balance: w = g (1 - exp(-nu lambda t)) / (nu lambda)."""
    g = forcing((12, 12), 0.05)
    rate = 0.02 * 2 * TAU**2
    w = integrate(np.zeros((1, 12, 12)), viscosity=0.02, forcing=g, times=(1.0, 4.0))
    for k, t in enumerate((1.0, 4.0)):
        np.testing.assert_allclose(w[0, k], g * (1 - np.exp(-rate * t)) / rate, atol=1e-14)


def test_manufactured_steady_flow_with_advection():
    """With g = u . grad w - nu Laplace w, written out by hand for two waves, the flow w must stand still."""
    x, y = axes((24, 20))
    nu, w = 0.05, np.sin(TAU * x) + 0.5 * np.cos(2 * TAU * y)
    # psi = sin(TAU x) / TAU^2 + cos(2 TAU y) / (8 TAU^2), and u = (psi_y, -psi_x).
    u = -np.sin(2 * TAU * y) / (4 * TAU)
    v = -np.cos(TAU * x) / TAU
    advection = u * TAU * np.cos(TAU * x) - v * TAU * np.sin(2 * TAU * y)
    viscous = -nu * (TAU**2 * np.sin(TAU * x) + 2 * TAU**2 * np.cos(2 * TAU * y))
    assert np.abs(advection).max() > 0.5
    held = integrate(w[None], viscosity=nu, forcing=advection - viscous, times=(0.5, 3.0))
    np.testing.assert_allclose(held[0], np.stack([w, w]), atol=1e-12)


def test_a_moved_initial_state_gives_a_moved_solution():
    """Moving the initial state by whole grid points moves the solution by as many, along either axis."""
    w0 = smooth((18, 24))
    w = integrate(w0, viscosity=0.01, forcing=np.zeros((18, 24)), times=(1.0,))
    moved = integrate(np.roll(w0, (5, -7), (1, 2)), viscosity=0.01, forcing=np.zeros((18, 24)), times=(1.0,))
    np.testing.assert_allclose(moved, np.roll(w, (5, -7), (2, 3)), atol=1e-12)


def test_spectral_accuracy_in_space():
    """Errors against a finer grid fall exponentially with the points per axis, down to 1e-10."""
    settings = {"viscosity": 0.01, "times": (0.5,), "step": 1 / 32}
    fine = integrate(smooth((96, 96)), forcing=forcing((96, 96)), **settings)
    errors = []
    for n in (16, 32, 64):
        coarse = integrate(smooth((n, n)), forcing=forcing((n, n)), **settings)
        errors.append(relative(coarse, resample(fine, Grid((96, 96), PERIODIC), Grid((n, n), PERIODIC))))
    assert errors[1] < 0.05 * errors[0]
    assert errors[2] < 1e-3 * errors[1]
    assert errors[2] < 1e-10


@pytest.mark.parametrize("viscosity", [0.0, 0.01])
def test_order_four_in_time(viscosity):
    """Halving the step divides the error by 16."""
    w0, g = smooth((16, 16)), forcing((16, 16))
    run = [integrate(w0, viscosity=viscosity, forcing=g, times=(2.0,), step=2 / k) for k in (32, 64, 128, 1024)]
    errors = [relative(w, run[-1]) for w in run[:-1]]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < 1e-5
    assert np.all((orders > 3.7) & (orders < 4.6)), (errors, orders)


def test_inviscid_flow_conserves_energy_and_enstrophy():
    """The truncated equation conserves both, so only the integration in time may change them: at its order."""
    w0 = smooth((20, 24))
    zero = np.zeros((20, 24))
    drift = []
    for step in (1 / 40, 1 / 160):
        w = integrate(w0, viscosity=0.0, forcing=zero, times=(1e-9, 4.0), step=step)
        pair = energy_and_enstrophy(w)
        drift.append(max(np.abs(q[:, 1] / q[:, 0] - 1).max() for q in pair))
        assert relative(w[:, 1], w[:, 0]) > 0.1  # it did flow
    assert drift[0] < 1e-4
    assert drift[1] < 1e-7
    assert drift[1] < drift[0] / 4**3.7


@pytest.mark.parametrize("shape", [(16, 16), (15, 22), (21, 12)])
def test_agrees_with_the_plain_reference(shape):
    """The same truncation with another form of the product and another integrator: equal up to the time step."""
    settings = {"viscosity": 2e-3, "forcing": forcing(shape), "times": (0.25, 1.0)}
    ours = integrate(smooth(shape), step=1 / 256, **settings)
    reference = oracle.integrate(smooth(shape), step=1 / 256, **settings)
    assert relative(ours, reference) < 1e-8


def test_a_fast_flow_takes_smaller_steps_alone():
    """A flow 60 times as fast halves its own step until it is stable; its quiet neighbour is not affected."""
    w0 = smooth((16, 16)) * np.array([1.0, 60.0])[:, None, None]
    settings = {"viscosity": 0.01, "forcing": forcing((16, 16)), "times": (0.25, 0.5)}
    both = integrate(w0, **settings)
    for i in range(2):
        np.testing.assert_array_equal(both[i], integrate(w0[i : i + 1], **settings)[0])
    assert relative(both[1], integrate(w0[1:], step=1 / 4096, **settings)[0]) < 1e-2


def test_a_flow_beyond_all_steps_is_an_error_that_names_it():
    w0 = smooth((8, 8))
    w0[1] *= 1e9
    with pytest.raises(SimulationError, match="input 1 still flows too fast"):
        integrate(w0, viscosity=0.01, forcing=np.zeros((8, 8)), times=(1.0,))


def test_batch_does_not_change_an_example():
    """More examples than one chunk holds, one by one and together."""
    task = small()
    f = task.sample(140, seed=3)
    y = task.solve(f, 1)
    for i in (0, 1, 77, 139):
        np.testing.assert_array_equal(task.solve(f[i : i + 1], 1)[0], y[i])
        np.testing.assert_array_equal(task.sample_at([i], seed=3)[0], f[i])


def test_sampling_is_reproducible():
    task = small()
    five = task.sample(5, seed=1)
    np.testing.assert_array_equal(task.sample(3, seed=1), five[:3])
    np.testing.assert_array_equal(task.sample_at([4, 2], seed=1), five[[4, 2]])
    assert not np.allclose(task.sample(3, seed=2), five[:3])
    assert five.shape == (5, 2, 16, 16)
    assert task.sample(0).shape == (0, 2, 16, 16)
    assert task.solve(np.zeros((0, 2, 8, 8)), 0).shape == (0, 2, 8, 8)


def test_solve_continues_the_sampled_trajectory():
    """Input and output are one trajectory on the finest grid, in frames of equal distance."""
    task = small(frames=3, final_time=6.0)
    f = task.sample(2)
    y = task.solve(f, 1)
    whole = integrate(f[:, 0], viscosity=1e-3, forcing=forcing((16, 16)), times=(1.0, 2.0, 3.0, 4.0, 5.0))
    np.testing.assert_allclose(np.concatenate([f, y], axis=1)[:, 1:], whole, atol=1e-12)


def test_mean_vorticity_stays_zero():
    task = small(resolutions=((9, 12), (15, 18)))
    f = task.sample(3)
    assert np.abs(f.mean(axis=(2, 3))).max() < 1e-15
    for level in (0, 1):
        y = task.solve(task.restrict(f, level), level)
        assert np.abs(y.mean(axis=(2, 3))).max() < 1e-15


def test_restrict_is_exact_on_what_both_grids_resolve():
    task = small(resolutions=((9, 12), (15, 18)))

    def flow(shape):
        x, y = axes(shape)
        return np.stack([np.sin(TAU * (4 * x - y)), np.cos(TAU * (2 * x + 5 * y)) + np.sin(TAU * 3 * y)])[None]

    np.testing.assert_allclose(task.restrict(flow((15, 18)), 0), flow((9, 12)), atol=1e-13)


def test_the_published_problem():
    task = NavierStokes()
    assert task.resolutions == ((16, 16), (64, 64))
    assert task.costs == (1.0, 7.0)
    assert (task.in_channels, task.out_channels) == (20, 20)
    assert task.configuration == {"viscosity": 1e-3, "forcing": 0.1, "final_time": 50.0, "frames": 20}
    assert NavierStokes(resolutions=((16, 16), (32, 32), (64, 64))).costs == pytest.approx((1.0, 7**0.5, 7.0))
    assert NavierStokes(costs=(1, 3)).costs == (1.0, 3.0)


def test_coarse_solutions_approximate_fine_ones_and_time_error_is_negligible():
    """The error of the step disappears next to that of the grid."""
    task = NavierStokes(resolutions=((16, 16), (32, 32)), frames=2, final_time=20.0)
    f = task.sample(2)
    f0 = task.restrict(f, 0)
    coarse, fine = (task.solve(g, level) for level, g in enumerate((f0, f)))
    space = relative_l2(coarse, resample(fine, task.grids[1], task.grids[0])).max()
    exact = integrate(f0[:, -1], viscosity=1e-3, forcing=forcing((16, 16)), times=(5.0, 10.0), step=1 / 64)
    time = relative_l2(coarse, exact).max()
    assert time < 1e-6
    assert 100 * time < space < 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[:, :, :-1], "takes"),
        (lambda f: f[0], "takes"),
        (lambda f: f[:, :1], "channels"),
        (lambda f: np.where(f == f[0, 0, 0, 0], np.nan, f), "NaN"),
        (lambda f: f + 0.01, "zero mean"),
        (lambda f: f.astype(complex), "real numbers"),
    ],
)
def test_bad_inputs_are_refused(change, message):
    task = small()
    f = task.sample(2)
    with pytest.raises(TaskError, match=message):
        task.solve(change(f), 1)


def test_an_unknown_level_is_refused():
    task = small()
    with pytest.raises(TaskError, match="unknown level 2"):
        task.solve(np.zeros((1, 2, 16, 16)), 2)


@pytest.mark.parametrize(
    "settings",
    [
        {"frames": 0},
        {"frames": 2.5},
        {"final_time": 0.0},
        {"viscosity": -1.0},
        {"forcing": np.inf},
        {"resolutions": ((3, 3), (16, 16))},
        {"resolutions": (16, 64)},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(TaskError, match="navier-stokes"):
        small(**settings)


@pytest.mark.parametrize("times", [(0.0, 1.0), (1.0, 0.5), (np.nan,)])
def test_bad_times_are_refused(times):
    with pytest.raises(TaskError, match="times must be"):
        integrate(smooth((8, 8)), viscosity=0.01, forcing=np.zeros((8, 8)), times=times)


def test_forcing_on_another_grid_is_refused():
    with pytest.raises(TaskError, match="do not fit"):
        integrate(smooth((8, 8)), viscosity=0.01, forcing=np.zeros((8, 9)), times=(1.0,))
