"""Corrections from level to level: a plain version, point by point, is the oracle."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline
from scipy.special import erf

from mrafno.data.dataset import Dataset
from mrafno.errors import SurrogateError
from mrafno.grids import Domain, Grid
from mrafno.surrogate import get_surrogate
from mrafno.surrogate.operator.fno import MemberFNO, NetworkSettings
from mrafno.surrogate.operator.local_correction import interpolate, neighbourhood, resolves, thin, working_mesh
from mrafno.surrogate.operator.spectral import Mesh, points_first, points_last
from mrafno.surrogate.presets import network_preset
from mrafno.tasks import get_task


def mesh_of(*shape, layout="nodes"):
    grid = Grid(shape, (layout,) * len(shape))
    return Mesh.of(grid.axes, [1.0 if layout == "periodic" else 1.5] * len(shape))


def network_of(dim=1, levels=3, **changes):
    """A network with random corrections; initial ones are zero."""
    settings = NetworkSettings(
        in_channels=1,
        out_channels=2,
        levels=levels,
        dim=dim,
        width=4,
        hidden=6,
        layers=2,
        modes=(3, 2)[:dim],
        stencil_radius=2,
        spacing=(1 / 8, 1 / 6)[:dim],
        correction_width=5,
        **changes,
    )
    network = MemberFNO(settings, 2, torch.float64).initialise([1, 2])
    with torch.no_grad():
        for correction in network.corrections:
            for values in correction.last.parameters():
                values.copy_(torch.randn(values.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    return network


def inputs_of(mesh, batch=2):
    return torch.randn(2, batch, 1, *mesh.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def on_mesh(function, coarse, mesh):
    """One function, ``(*grid)``, on another mesh."""
    return points_last(interpolate(points_first(function[None, None, None]), coarse, mesh))[0, 0, 0]


def without(network):
    """The same layers without corrections."""
    base = MemberFNO(dataclasses.replace(network.settings, stencil_radius=0), network.members, torch.float64)
    base.load_state_dict({k: v for k, v in network.state_dict().items() if not k.startswith("corrections")})
    return base


@pytest.mark.parametrize(
    ("layout", "n", "spacing", "expected"),
    [
        ("nodes", 129, 1 / 32, (0, 4, 33)),
        ("nodes", 33, 1 / 32, (0, 1, 33)),
        ("nodes", 100, 1 / 32, (0, 3, 34)),
        ("nodes", 102, 1 / 32, (1, 3, 34)),
        ("cells", 128, 1 / 32, (1, 4, 32)),
        ("periodic", 64, 1 / 16, (0, 4, 16)),
        ("nodes", 9, 1 / 32, (0, 1, 9)),
    ],
)
def test_layers_work_at_the_spacing_of_the_coarsest_mesh(layout, n, spacing, expected):
    mesh = mesh_of(n, layout=layout)
    coarse, ((start, stride),) = working_mesh(mesh, (spacing,))
    assert (start, stride, len(coarse.axes[0])) == expected
    assert coarse.axes[0] == mesh.axes[0][start::stride]
    values = torch.arange(n)[None]
    assert thin(values, ((start, stride),)).tolist() == [list(range(start, n, stride))]


def test_cubics_are_interpolated_exactly_and_known_points_copied():
    mesh = mesh_of(17, 25)
    coarse, slices = working_mesh(mesh, (1 / 8, 1 / 6))
    x, y = torch.meshgrid(*(torch.tensor(axis, dtype=torch.float64) for axis in mesh.axes), indexing="ij")
    exact = (x**3 - 2 * x) * (1 + y - 3 * y**3)
    found = on_mesh(thin(exact, slices), coarse, mesh)
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-13)
    assert interpolate(exact, mesh, mesh) is exact


def test_periodic_functions_are_interpolated_across_the_seam():
    mesh = mesh_of(64, layout="periodic")
    coarse, slices = working_mesh(mesh, (1 / 16,))
    exact = torch.cos(2 * torch.pi * torch.tensor(mesh.axes[0], dtype=torch.float64))
    found = on_mesh(thin(exact, slices), coarse, mesh)
    assert (found - exact).abs().max() < 2e-4


def test_neighbours_of_a_line_and_at_its_ends():
    mesh = mesh_of(9)
    line = torch.tensor(mesh.axes[0], dtype=torch.float64).view(1, 1, 1, -1)
    value, left2, left1, right1, right2 = points_last(neighbourhood(points_first(line), mesh, (1 / 16,), 2))[0, 0]
    assert torch.equal(value, line[0, 0, 0])
    torch.testing.assert_close(left1[1:], torch.full((8,), -1 / 16, dtype=torch.float64))
    torch.testing.assert_close(right2[:-1], torch.full((8,), 2 / 16, dtype=torch.float64))
    assert (left1[0], left2[0], right1[-1], right2[-1]) == (0, 0, 0, 0)


def test_neighbours_on_a_torus():
    mesh = mesh_of(8, 6, layout="periodic")
    values = torch.randn(1, 1, 1, 8, 6, dtype=torch.float64)
    seen = points_last(neighbourhood(points_first(values), mesh, (1 / 8, 1 / 6), 1))[0, 0]
    shifted = [values, *(values.roll(shift, dims=3 + axis) - values for axis in (0, 1) for shift in (1, -1))]
    torch.testing.assert_close(seen, torch.stack([v[0, 0, 0] for v in shifted]))


@pytest.mark.parametrize("layout", ["nodes", "periodic"])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_equals_a_plain_version(layout, level):
    network, mesh = network_of(), mesh_of(25 if layout == "nodes" else 24, layout=layout)
    coarse, slices = working_mesh(mesh, network.settings.spacing)
    f = inputs_of(mesh)
    x, z = np.array(coarse.axes[0]), np.array(mesh.axes[0])
    with torch.no_grad():
        mean, log_var = network(f, mesh, level)
        base, same = without(network)(thin(f, slices), coarse, level)
    torch.testing.assert_close(log_var, same, rtol=0, atol=1e-13)
    for member, example in np.ndindex(2, 2):
        v = base[member, example].numpy()
        if layout == "periodic":
            closed = np.concatenate([v, v[:, :1]], axis=1)
            v = CubicSpline(np.append(x, 1.0), closed, axis=1, bc_type="periodic")(z)
        else:
            v = CubicSpline(x, v, axis=1)(z)
        for correction in network.corrections[:level]:
            v = v + plain_correction(correction, member, v, z, layout == "periodic")
        np.testing.assert_allclose(mean[member, example].numpy(), v, rtol=0, atol=1e-12)


def plain_correction(correction, member, v, z, periodic):
    out = np.zeros_like(v)
    for j, at in enumerate(z):
        seen = list(v[:, j])
        for channel in v:
            for k in (-2, -1, 1, 2):
                there = at + k / 8
                known = np.interp(there % 1, np.append(z, 1.0), np.append(channel, channel[0]))
                seen.append((known if periodic else np.interp(there, z, channel)) - channel[j])
        h = np.array(seen)
        for layer in (correction.first, correction.second):
            h = layer.weight[member].detach().numpy() @ h + layer.bias[member, :, 0].detach().numpy()
            h = 0.5 * h * (1 + erf(h / np.sqrt(2)))
        out[:, j] = (
            correction.last.weight[member].detach().numpy() @ h + correction.last.bias[member, :, 0].detach().numpy()
        )
    return out


def test_hard_zero_boundaries_stay_zero():
    network = network_of(dim=2, zero_boundary=((True, True), (False, True)))
    mesh = mesh_of(17, 13)
    with torch.no_grad():
        mean, _ = network(inputs_of(mesh), mesh, 2)
    assert mean[..., 0, :].abs().max() == mean[..., -1, :].abs().max() == mean[..., -1].abs().max() == 0
    assert mean[..., 0].abs().max() > 0


def test_gradients_by_differences():
    network, mesh = network_of(levels=2), mesh_of(25)
    f = inputs_of(mesh, batch=1)
    network(f, mesh, 1)[0].square().sum().backward()
    step = 1e-6
    for name, values in network.named_parameters():
        if not name.startswith(("corrections", "mean_in")):
            continue
        index = (1,) + (0,) * (values.ndim - 1)
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                values[index] += sign * step
                ends.append(float(network(f, mesh, 1)[0].square().sum()))
                values[index] -= sign * step
        assert float(values.grad[index]) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-7), name


@pytest.mark.parametrize("sizes", [(9, 17, 25), (9, 26, 17)], ids=["one working mesh", "two"])
def test_levels_together_equal_levels_one_by_one(sizes):
    network, meshes = network_of(), [mesh_of(n) for n in sizes]
    spacing = network.settings.spacing
    assert len({working_mesh(mesh, spacing)[0] for mesh in meshes}) == (2 if 26 in sizes else 1)
    parts = [(inputs_of(mesh, batch=level + 1), mesh, level) for level, mesh in enumerate(meshes)]
    with torch.no_grad():
        for found, (f, mesh, level) in zip(network.together(parts), parts, strict=True):
            for ours, alone in zip(found, network(f, mesh, level), strict=True):
                torch.testing.assert_close(ours, alone, rtol=0, atol=1e-12)


def test_a_new_network_interpolates():
    settings = dataclasses.replace(network_of().settings, levels=2)
    network = MemberFNO(settings, 1, torch.float64).initialise([1])
    mesh, f = mesh_of(25), torch.randn(1, 2, 1, 25, dtype=torch.float64)
    coarse, slices = working_mesh(mesh, settings.spacing)
    with torch.no_grad():
        base, _ = without(network)(thin(f, slices), coarse, 1)
        torch.testing.assert_close(network(f, mesh, 1)[0], points_last(interpolate(points_first(base), coarse, mesh)))
        assert network.features(f, mesh, 1).shape == (1, 2, 4, 25)


def test_the_fast_preset_corrects_in_one_dimension_and_finds_the_spacing():
    burgers, darcy = get_task("burgers").domain, get_task("darcy").domain
    assert (network_preset("fast", burgers).stencil_radius, network_preset("fast", burgers).spacing) == (2, (1 / 32,))
    assert network_preset("fast", darcy).stencil_radius == network_preset("paper", burgers).stencil_radius == 0
    chosen = network_preset("fast", darcy, stencil_radius=1).spacing
    assert chosen == pytest.approx((1 / 32, 1 / 32))
    single = Domain(1, 1, (Grid((33,), ("nodes",)),), ((False, False),))
    assert network_preset("fast", single).stencil_radius == 0


@pytest.mark.parametrize(
    "changes", [{"stencil_radius": -1}, {"stencil_radius": 1, "spacing": ()}, {"correction_width": 0}]
)
def test_impossible_settings_raise_errors(changes):
    with pytest.raises(SurrogateError, match=r"network: (stencil_radius|correction_width)"):
        network_preset("fast", get_task("burgers").domain, **changes)


def test_ten_fine_examples_teach_a_local_difference():
    """Fine outputs are tanh 2v of the coarse ones: every point is an example of this map, whatever the input."""
    domain = Domain(1, 1, (Grid((17,), ("periodic",)), Grid((68,), ("periodic",))), ((False, False),))
    rng = np.random.default_rng(0)

    def examples(n, grid, bent):
        a, b, phase = rng.normal(size=(3, n, 1))
        x = 2 * np.pi * grid.axes[0]
        f, v = a * np.sin(x + phase) + b * np.cos(2 * x), a * np.cos(x + phase) - b * np.sin(2 * x)
        return f[:, None], (np.tanh(2 * v) if bent else v)[:, None]

    coarse, fine = examples(60, domain.grids[0], False), examples(10, domain.grids[1], True)
    data = Dataset(domain, [coarse[0], fine[0]], [coarse[1], fine[1]])
    test = examples(50, domain.grids[1], True)
    errors = []
    for stencil_radius in (0, 1):
        surrogate = get_surrogate(
            "point", domain, seed=1, network={"width": 16, "layers": 2, "modes": (4,), "stencil_radius": stencil_radius}
        )
        surrogate.fit(data, iterations=200)
        error = np.linalg.norm(surrogate.predict(test[0]).mean - test[1]) / np.linalg.norm(test[1])
        errors.append(error)
    assert errors[1] < 0.3 * errors[0], errors


@pytest.mark.parametrize(("width", "expected"), [(0.3, True), (0.1, True), (0.02, False)])
def test_points_resolve_functions_wider_than_their_spacing(width, expected):
    mesh = mesh_of(65)
    x = torch.linspace(0, 1, 65, dtype=torch.float64)
    places = torch.linspace(0.2, 0.8, 20, dtype=torch.float64)[:, None]
    bumps = torch.exp(-(((x - places) / width) ** 2))[:, None]
    assert resolves(mesh, (1 / 16,), bumps) is expected
    assert resolves(mesh, (1 / 16,), bumps + 1e6) is expected  # a constant varies nowhere
    assert resolves(mesh, (1 / 64,), bumps)
    assert resolves(mesh, (1 / 16,), torch.full((3, 2, 65), 7.0, dtype=torch.float64))
    assert resolves(mesh, (1 / 16,), torch.cat([bumps, 1e3 * (bumps + x)], 1)) is expected  # each channel counts
    assert resolves(mesh, (1 / 16,), torch.cat([bumps, 1e3 * x.expand_as(bumps)], 1)) is expected


def heated(n, width, seed):
    """Sources of some width, and -u'' = f with u = 0 at both ends by differences on 17 and on 65 nodes."""
    domain = Domain(1, 1, (Grid((17,), ("nodes",)), Grid((65,), ("nodes",))), ((True, True),))
    rng = np.random.default_rng(seed)
    places, heights = rng.uniform(0.2, 0.8, (3, n, 1)), rng.uniform(0.5, 2, (3, n, 1))

    def solved(level):
        x = domain.grids[level].axes[0]
        f = (heights * np.exp(-(((x - places) / width) ** 2))).sum(0)
        inner = len(x) - 2
        matrix = (2 * np.eye(inner) - np.eye(inner, k=1) - np.eye(inner, k=-1)) * (len(x) - 1) ** 2
        return f[:, None], np.pad(np.linalg.solve(matrix, f[:, 1:-1].T).T, ((0, 0), (1, 1)))[:, None]

    return domain, solved(0), solved(1)


def test_inputs_between_the_coarse_points_are_seen():
    """Narrow sources lie mostly between the coarse nodes, and fine solutions depend on all of them."""
    domain, coarse, fine = heated(60, 0.02, 0)
    data = Dataset(domain, [coarse[0][:40], fine[0][40:]], [coarse[1][:40], fine[1][40:]])
    test = heated(40, 0.02, 1)[2]
    errors = {}
    for stencil_radius in (None, 2):
        chosen = {} if stencil_radius is None else {"stencil_radius": stencil_radius}
        network = {"width": 16, "layers": 2, "modes": (6,), **chosen}
        surrogate = get_surrogate("point", domain, seed=1, network=network)
        surrogate.fit(data, iterations=150)
        errors[surrogate.network_settings.stencil_radius] = np.linalg.norm(
            surrogate.predict(test[0]).mean - test[1]
        ) / np.linalg.norm(test[1])
    assert errors[0] < 0.5 * errors[2], errors


def test_whether_corrections_suit_is_decided_once_and_kept(tmp_path):
    domain, *narrow = heated(8, 0.02, 0)
    _, *wide = heated(8, 0.3, 0)

    def fitted(first, second):
        surrogate = get_surrogate("point", domain, network={"width": 4, "layers": 1, "modes": (2,)})
        for examples, warm in ((first, False), (second, True), (second, False)):
            coarse, fine = examples
            surrogate.fit(
                Dataset(domain, [coarse[0], fine[0]], [coarse[1], fine[1]]),
                kind="refit" if warm else "scratch",
                iterations=2,
            )
        return surrogate

    assert fitted(wide, narrow).network_settings.stencil_radius == 2
    without = fitted(narrow, wide)
    assert without.network_settings.stencil_radius == 0
    without.save(tmp_path / "kept")
    again = type(without).load(tmp_path / "kept")
    assert again.network_settings == without.network_settings
    assert np.array_equal(again.predict(narrow[1][0]).samples, without.predict(narrow[1][0]).samples)
