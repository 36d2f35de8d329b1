"""The network: a plain version for one network and one example, written differently, is the oracle."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from mrafno.errors import SurrogateError
from mrafno.grids import Grid
from mrafno.surrogate.operator.fno import MemberFNO, NetworkSettings, boundary_factor, embed, pooling_matrix
from mrafno.surrogate.operator.spectral import Mesh, points_first, points_last, weights
from tests.oracles.fno import plain_member

TAU = 2 * np.pi


def mesh_of(shape, layout):
    grid = Grid(shape, layout)
    return Mesh.of(grid.axes, [1.0 if kind == "periodic" else 1.25 for kind in layout])


def settings_of(dim=1, **changes):
    base = {"in_channels": 2, "out_channels": 3, "levels": 2, "dim": dim, "width": 5, "hidden": 7, "layers": 3}
    return NetworkSettings(**{**base, "modes": (3, 2, 2)[:dim], **changes})


def network_of(settings, seeds, dtype=torch.float64):
    return MemberFNO(settings, len(seeds), dtype).initialise(seeds)


def inputs_of(settings, mesh, batch=3, members=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(members, batch, settings.in_channels, *mesh.shape, generator=generator, dtype=torch.float64)


def plain(network, member, f, mesh, level):
    """One network, one example ``(in_channels, *grid)``: exponentials, a loop over modes, torch's own convolution."""
    s = network.settings
    grid = list(np.ndindex(*mesh.shape))
    points = [[mesh.axes[i][j] for i, j in enumerate(index)] for index in grid]

    def affine(layer, v):
        return v @ layer.weight[member].T + layer.bias[member, :, 0]

    def rows(v):
        return torch.stack([v[(slice(None), *index)] for index in grid])  # (points, channels)

    periodic = s.periodic or (False,) * s.dim
    seen = [
        [
            c
            for x, p in zip(at, periodic, strict=True)
            for c in ([np.sin(2 * np.pi * x), np.cos(2 * np.pi * x)] if p else [x])
        ]
        for at in points
    ]
    fixed = torch.tensor([p + embed(level, s.levels, s.embedding) for p in seen], dtype=torch.float64)
    v = affine(network.lift_out, functional.gelu(affine(network.lift_in, torch.cat([rows(f), fixed], 1))))
    density = torch.tensor(
        [
            math.prod(weights(mesh.axes[i], mesh.periods[i])[j] / mesh.periods[i] for i, j in enumerate(index))
            for index in grid
        ],
        dtype=torch.float64,
    )
    signed = [[(sign * k, 0.5 if k == 0 else 1) for sign in (1, -1) for k in range(count)] for count in s.modes[:-1]]
    last = [(k, 1 if k == 0 else 2) for k in range(s.modes[-1])]
    waves = [
        ([k for k, _ in reversed(wave)], math.prod(factor for _, factor in wave))
        for wave in itertools.product(last, *reversed(signed))
    ]
    for i, layer in enumerate(network.layers):
        total = affine(layer.pointwise, v)
        for q, (wave, factor) in enumerate(waves):
            turns = [sum(k * x / p for k, x, p in zip(wave, at, mesh.periods, strict=True)) for at in points]
            angle = TAU * torch.tensor(turns, dtype=torch.float64)
            exponential = torch.complex(torch.cos(angle), torch.sin(angle))
            coefficient = (v * density[:, None] * exponential.conj()[:, None]).sum(0)
            real, imaginary = layer.spectral[member, q].split(s.width, dim=1)
            total = total + factor * torch.real(
                exponential[:, None] * (coefficient @ torch.complex(real, imaginary))[None]
            )
        update = functional.gelu(total) if i + 1 < s.layers else total
        v = v + update if s.residual else update
    mean = affine(network.mean_out, functional.gelu(affine(network.mean_in, v)))
    for axis, (start, end) in enumerate(s.zero_boundary):
        x = torch.tensor([at[axis] for at in points], dtype=torch.float64)[:, None]
        if s.boundary_factor == "parabola":
            mean = mean * (4 * x * (1 - x) if start and end else x if start else 1 - x if end else 1)
        else:
            mean = mean * (1 - torch.exp(-x / s.spacing[axis]) if start else 1)
            mean = mean * (1 - torch.exp((x - 1) / s.spacing[axis]) if end else 1)

    mixed = affine(network.variance_mix, v)
    cells = torch.zeros(8, *[s.bins] * s.dim, dtype=torch.float64)
    for cell in np.ndindex(*[s.bins] * s.dim):
        inside = [
            i
            for i, at in enumerate(points)
            if all(min(int(x * s.bins), s.bins - 1) == c for x, c in zip(at, cell, strict=True))
        ]
        if inside:
            cells[(slice(None), *cell)] = (mixed[inside] * density[inside, None]).sum(0) / density[inside].sum()
    kernel = network.variance_conv.weight[member].view(16, 3**s.dim, 8).transpose(1, 2).reshape(16, 8, *[3] * s.dim)
    convolution = (functional.conv1d, functional.conv2d, functional.conv3d)[s.dim - 1]
    convolved = convolution(cells[None], kernel, network.variance_conv.bias[member, :, 0], padding=1)
    hidden = functional.gelu(affine(network.variance_in, functional.gelu(convolved).flatten()))
    return mean.T.reshape(s.out_channels, *mesh.shape), affine(network.variance_out, hidden)[0]


PLAIN = {
    "periodic": (settings_of(), mesh_of((9,), ("periodic",))),
    "nodes, zero ends": (settings_of(zero_boundary=((True, False),), spacing=(0.2,)), mesh_of((8,), ("nodes",))),
    "positional": (settings_of(embedding="positional", levels=3), mesh_of((6,), ("cells",))),
    "fewer points than cells": (settings_of(bins=6), mesh_of((4,), ("periodic",))),
    "plain layers": (settings_of(residual=False), mesh_of((7,), ("nodes",))),
    "residual layers": (settings_of(residual=True), mesh_of((7,), ("nodes",))),
    "2d": (
        settings_of(2, bins=3, zero_boundary=((True, True), (False, True)), spacing=(0.2, 0.1)),
        mesh_of((5, 6), ("cells", "nodes")),
    ),
    "2d, parabola": (
        settings_of(2, bins=3, zero_boundary=((True, True), (False, True)), boundary_factor="parabola"),
        mesh_of((5, 6), ("cells", "nodes")),
    ),
    "seen as periodic": (settings_of(periodic=(True,)), mesh_of((9,), ("periodic",))),
    "2d periodic": (settings_of(2, layers=1), mesh_of((6, 4), ("periodic", "periodic"))),
    "3d": (
        settings_of(
            3,
            layers=2,
            bins=2,
            periodic=(False, True, False),
            zero_boundary=((True, True), (False, False), (False, True)),
            spacing=(0.2,) * 3,
        ),
        mesh_of((4, 5, 4), ("cells", "periodic", "nodes")),
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_equals_a_plain_network(name):
    settings, mesh = PLAIN[name]
    network = network_of(settings, [11, 12])
    f = inputs_of(settings, mesh, batch=2, members=2)
    with torch.no_grad():
        for level in range(settings.levels):
            mean, log_var = network(f, mesh, level)
            for member, example in itertools.product(range(2), range(2)):
                expected = plain(network, member, f[member, example], mesh, level)
                torch.testing.assert_close(mean[member, example], expected[0], rtol=0, atol=1e-12)
                torch.testing.assert_close(log_var[member, example], expected[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "layout"), [((17,), "nodes"), ((16,), "periodic"), ((8, 12), "cells"), ((8, 10), "periodic")]
)
def test_equals_the_oracle_with_fast_transforms(shape, layout):
    """The benchmark's contestant computes the same function, so that their times may be compared."""
    settings = settings_of(len(shape), residual=True)
    mesh = mesh_of(shape, (layout,) * len(shape))
    network = network_of(settings, (3, 4))
    f = inputs_of(settings, mesh)
    mean, log_var = network(f, mesh, 1)
    for member in range(2):
        other_mean, other_log_var = plain_member(network, member)(f[0], mesh, 1)
        torch.testing.assert_close(mean[member], other_mean, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(log_var[member], other_log_var, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["nodes, zero ends", "2d", "3d"])
def test_members_together_equal_members_one_by_one(name):
    settings, mesh = PLAIN[name]
    f = inputs_of(settings, mesh, members=3)
    together = network_of(settings, [5, 6, 7])
    mean, log_var = together(f, mesh, 1)
    (mean.square().sum() + log_var.square().sum()).backward()
    for member, seed in enumerate([5, 6, 7]):
        alone = network_of(settings, [seed])
        one, one_var = alone(f[member : member + 1], mesh, 1)
        (one.square().sum() + one_var.square().sum()).backward()
        torch.testing.assert_close(mean[member : member + 1], one, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(log_var[member : member + 1], one_var, rtol=1e-12, atol=1e-13)
        for a, b in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a.grad[member : member + 1], b.grad, rtol=1e-10, atol=1e-12)


def test_one_input_for_all_members_equals_copies_of_it():
    settings, mesh = PLAIN["periodic"]
    network, f = network_of(settings, [1, 2, 3]), inputs_of(settings, mesh)
    for a, b in zip(network(f, mesh, 0), network(f.expand(3, -1, -1, -1), mesh, 0), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-14)


def test_an_example_does_not_depend_on_its_company():
    settings, mesh = PLAIN["2d"]
    network, f = network_of(settings, [1, 2]), inputs_of(settings, mesh, batch=4)
    mean, log_var = network(f, mesh, 0)
    one, one_var = network(f[:, 2:3], mesh, 0)
    torch.testing.assert_close(mean[:, 2:3], one, rtol=0, atol=1e-13)
    torch.testing.assert_close(log_var[:, 2:3], one_var, rtol=0, atol=1e-13)


def test_a_member_depends_on_its_own_seed_only():
    settings = settings_of()
    a, b = network_of(settings, [1, 2]), network_of(settings, [9, 2])
    for x, y in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(x[1], y[1])
        assert not torch.equal(x[0], y[0])
    before = [p.detach().clone() for p in a.parameters()]
    a.initialise_member(0, 9)
    for old, new, other in zip(before, a.parameters(), b.parameters(), strict=True):
        assert torch.equal(old[1], new[1])
        assert torch.equal(new, other)


def test_no_weight_is_left_at_zero_or_drawn_twice():
    """Every parameter is drawn, within its bound; layers of one shape differ."""
    network = network_of(settings_of(width=16), [3])
    for name, parameter in network.named_parameters():
        bound = 1 / math.sqrt(2 * 16) if "spectral" in name else None
        assert parameter.abs().min() > 0, name
        if bound:
            assert 0.9 * bound < parameter.abs().max() <= bound
    firsts = [layer.pointwise.weight[0, 0, 0].item() for layer in network.layers]
    assert len(set(firsts)) == len(firsts)


def test_level_embeddings_start_at_their_scale():
    """The rows of the first map that see the level are scaled, nothing else; at 0 all levels are one."""
    settings = settings_of()
    usual, near = MemberFNO(settings, 1).initialise([3]), MemberFNO(settings, 1)
    near.level_embedding_scale = 0.25
    near.initialise([3])
    first = settings.in_channels + settings.dim
    for (name, a), b in zip(usual.named_parameters(), near.parameters(), strict=True):
        expected = a.detach().clone()
        if name == "lift_in.weight":
            expected[..., first:] *= 0.25
        assert torch.equal(b, expected)
    near.level_embedding_scale = 0.0
    f, mesh = torch.randn(1, 2, settings.in_channels, 16), Mesh.of([np.arange(16) / 16], [1.0])
    with torch.no_grad():
        means = [near.initialise([3])(f, mesh, level)[0] for level in range(settings.levels)]
    assert settings.levels > 1
    assert all(torch.equal(mean, means[0]) for mean in means)


def test_precisions_agree():
    settings, mesh = PLAIN["2d"]
    f = inputs_of(settings, mesh)
    double, single = network_of(settings, [1, 2]), network_of(settings, [1, 2], torch.float32)
    for a, b in zip(double(f, mesh, 1), single(f.float(), mesh, 1), strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(a, b.double(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["nodes, zero ends", "2d", "fewer points than cells"])
def test_gradients_by_differences(name):
    """Along random directions of all weights and inputs together."""
    settings, mesh = PLAIN[name]
    network, f = network_of(settings, [1, 2]), inputs_of(settings, mesh, members=2).requires_grad_()
    generator = torch.Generator().manual_seed(3)
    tensors = [f, *network.parameters()]

    def value():
        mean, log_var = network(f, mesh, 1)
        probe = torch.Generator().manual_seed(4)
        return sum((t * torch.randn(t.shape, generator=probe, dtype=t.dtype)).sum() for t in (mean, log_var))

    gradients = torch.autograd.grad(value(), tensors)
    for _ in range(3):
        direction = [torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in tensors]
        expected = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True))
        ends = []
        with torch.no_grad():
            for step in (1e-5, -2e-5, 1e-5):
                for t, d in zip(tensors, direction, strict=True):
                    t.add_(d, alpha=step)
                ends.append(value())
        torch.testing.assert_close((ends[0] - ends[1]) / 2e-5, expected, rtol=1e-6, atol=1e-6)


def band_limited(mesh):
    x = torch.tensor(mesh.axes[0], dtype=torch.float64)
    return torch.stack([torch.sin(TAU * x) + 0.5 * torch.cos(TAU * 2 * x), torch.cos(TAU * x + 1)])[None, None]


def differences(network, layout, sizes, step, through=None):
    """Largest difference at shared points from one grid to the next finer one."""
    results = []
    with torch.no_grad():
        for n in sizes:
            mesh = mesh_of((n,), (layout,))
            results.append((through or (lambda f, m: network(f, m, 0)[0]))(band_limited(mesh), mesh))
    return [float((a - b[..., ::step]).abs().max()) for a, b in itertools.pairwise(results)]


def test_a_fourier_layer_gives_the_same_function_on_any_periodic_grid():
    """The layer is linear, so a band-limited function stays one: exact from the first grid that resolves it."""
    layer = network_of(settings_of(width=2, modes=(3,)), [1]).layers[0]

    def through(f, mesh):
        v = points_first(f)
        return points_last(layer(v.flatten(1, 2), [(mesh, v.shape[2])]).view_as(v))

    found = differences(None, "periodic", (8, 16, 32, 64), 2, through)
    assert max(found) < 1e-14


def test_prediction_converges_at_once_on_periodic_grids_without_position():
    """Without the coordinate, which jumps from 1 to 0, all is smooth and quadrature spectral: 64 points are exact."""
    network = network_of(settings_of(), [1, 2])
    with torch.no_grad():
        network.lift_in.weight[:, :, 2:3] = 0
    found = differences(network, "periodic", (8, 16, 32, 64, 128), 2)
    assert found[0] > 1e-7
    assert found[-1] < 1e-12
    assert found[1] < found[0] / 10


def test_prediction_converges_at_once_on_periodic_grids_with_a_periodic_position():
    found = differences(network_of(settings_of(periodic=(True,)), [1, 2]), "periodic", (8, 16, 32, 64, 128), 2)
    assert found[0] > 1e-7
    assert found[-1] < 1e-12


def test_prediction_converges_on_node_grids():
    """Smooth functions and the trapezoidal rule: second order."""
    found = differences(network_of(settings_of(), [1, 2]), "nodes", (17, 33, 65, 129), 2)
    orders = [math.log2(a / b) for a, b in itertools.pairwise(found)]
    assert all(1.8 < order < 2.2 for order in orders), orders


def test_prediction_with_position_converges_on_periodic_grids():
    """The coordinate jumps at the period's end, which costs an order: first."""
    found = differences(network_of(settings_of(), [1, 2]), "periodic", (32, 64, 128, 256), 2)
    orders = [math.log2(a / b) for a, b in itertools.pairwise(found)]
    assert all(0.8 < order < 1.2 for order in orders), orders


def test_log_variance_converges_with_the_grid():
    network = network_of(settings_of(), [1, 2])
    values = []
    with torch.no_grad():
        for n in (32, 64, 128, 256):
            mesh = mesh_of((n,), ("cells",))
            values.append(network(band_limited(mesh), mesh, 0)[1])
    found = [float((a - b).abs().max()) for a, b in itertools.pairwise(values)]
    assert found[2] < found[1] / 2 < found[0] / 4


def test_shifting_the_input_shifts_the_features_where_position_is_ignored():
    for dim in (1, 2):
        settings = settings_of(dim)
        network = network_of(settings, [1, 2])
        with torch.no_grad():
            network.lift_in.weight[:, :, 2 : 2 + dim] = 0
        mesh = mesh_of((12, 10)[:dim], ("periodic",) * dim)
        f = inputs_of(settings, mesh)
        shifts, axes = (3, 4)[:dim], tuple(range(-dim, 0))
        a, b = network.features(f.roll(shifts, axes), mesh, 0), network.features(f, mesh, 0).roll(shifts, axes)
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("zero", [((True, True),), ((True, False),), ((False, True),)])
def test_hard_zero_ends_are_zeros(zero):
    settings, mesh = settings_of(zero_boundary=zero, spacing=(0.25,)), mesh_of((9,), ("nodes",))
    mean, _ = network_of(settings, [1, 2])(inputs_of(settings, mesh), mesh, 0)
    start, end = zero[0]
    assert bool((mean[..., 0] == 0).all()) == start
    assert bool((mean[..., -1] == 0).all()) == end
    assert (mean[..., 1:-1] != 0).all()


@pytest.mark.parametrize("kind", ["saturating", "parabola"])
def test_hard_zero_sides_in_two_dimensions(kind):
    mesh = mesh_of((9, 5), ("nodes", "nodes"))
    ends = ((True, True), (False, True))
    settings = settings_of(2, zero_boundary=ends, boundary_factor=kind, spacing=(0.01, 0.02))
    factor = boundary_factor(mesh, settings, torch.zeros((), dtype=torch.float64))
    assert (factor[0] == 0).all()
    assert (factor[-1] == 0).all()
    assert (factor[:, -1] == 0).all()
    assert (factor[1:-1, :-1] > 0).all()
    assert factor.max() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("embedding", ["onehot", "positional"])
def test_any_channels_resolutions_and_grids(embedding):
    """Twenty channels in and out, three resolutions, grids neither nested nor square."""
    settings = NetworkSettings(
        in_channels=20, out_channels=20, levels=3, dim=2, width=4, hidden=4, modes=(3, 2), layers=2, embedding=embedding
    )
    network = network_of(settings, [0, 1])
    answers = []
    for level, shape in enumerate([(6, 9), (11, 7), (16, 10)]):
        mesh = mesh_of(shape, ("periodic", "cells"))
        mean, log_var = network(inputs_of(settings, mesh, batch=2), mesh, level)
        assert mean.shape == (2, 2, 20, *shape)
        assert log_var.shape == (2, 2)
        same = mesh_of((6, 9), ("periodic", "cells"))
        answers.append(network(inputs_of(settings, same, batch=2), same, level)[0])
    assert not torch.allclose(answers[0], answers[1])
    assert not torch.allclose(answers[1], answers[2])


def test_embeddings():
    assert embed(1, 3, "onehot") == [0.0, 1.0, 0.0]
    for levels in range(2, 7):
        codes = np.array([embed(level, levels, "positional") for level in range(levels)])
        assert codes.shape == (levels, levels)
        distances = np.linalg.norm(codes[:, None] - codes[None], axis=-1)
        assert distances[~np.eye(levels, dtype=bool)].min() > 0.3
    np.testing.assert_allclose(
        embed(2, 4, "positional"), [math.sin(2), math.cos(2), math.sin(0.2), math.cos(0.2)], rtol=1e-15
    )


def test_masks_switch_channels_off():
    settings, mesh = settings_of(2), mesh_of((6, 5), ("cells", "cells"))
    network, f = network_of(settings, [1, 2]), inputs_of(settings, mesh)
    ones = [torch.ones(2, 3, settings.width, dtype=torch.float64)] * settings.layers
    for a, b in zip(network(f, mesh, 0, masks=ones), network(f, mesh, 0), strict=True):
        assert torch.equal(a, b)
    generator = torch.Generator().manual_seed(0)
    shape = (2, 1, settings.width)
    masks = [(torch.rand(shape, generator=generator) > 0.5).to(torch.float64) / 0.5 for _ in range(settings.layers)]
    features = network.features(f, mesh, 0, masks)
    off = masks[-1].expand(-1, 3, -1) == 0
    assert off.any()
    assert (features[off] == 0).all()
    assert (features[~off] != 0).any()
    # One mask for the whole batch is the same as that mask for each example.
    each = [m.expand(-1, 3, -1) for m in masks]
    torch.testing.assert_close(features, network.features(f, mesh, 0, each), rtol=0, atol=0)


def test_with_all_channels_off_the_bias_remains():
    settings, mesh = settings_of(), mesh_of((6,), ("periodic",))
    network = network_of(settings, [1])
    nothing = [torch.zeros(1, 1, settings.width, dtype=torch.float64)] * settings.layers
    mean, log_var = network(inputs_of(settings, mesh), mesh, 0, masks=nothing)
    torch.testing.assert_close(mean, mean[:, :1, :, :1].expand_as(mean), rtol=0, atol=1e-14)
    torch.testing.assert_close(log_var, log_var[:, :1].expand_as(log_var), rtol=0, atol=1e-14)


def test_detached_variance_teaches_its_own_branch_only():
    settings, mesh = PLAIN["2d"]
    network, f = network_of(settings, [1, 2]), inputs_of(settings, mesh)
    for detach in (True, False):
        network.zero_grad(set_to_none=True)
        network(f, mesh, 0, detach_variance=detach)[1].sum().backward()
        for name, parameter in network.named_parameters():
            reached = parameter.grad is not None and bool((parameter.grad != 0).any())
            assert reached == (name.startswith("variance") or (not detach and not name.startswith("mean"))), name


def test_pooling_averages_constants_exactly():
    for mesh in (mesh_of((33,), ("nodes",)), mesh_of((32,), ("cells",)), mesh_of((10,), ("periodic",))):
        pool = pooling_matrix(mesh, 0, 4, torch.float64, torch.device("cpu"))
        torch.testing.assert_close(pool.sum(1), torch.ones(4, dtype=torch.float64))
        assert (pool >= 0).all()
    assert (pooling_matrix(mesh_of((2,), ("nodes",)), 0, 4, torch.float64, torch.device("cpu"))[1:3] == 0).all()


def test_settings_survive_json():
    settings = settings_of(
        2, zero_boundary=((True, False), (False, False)), spacing=(0.5, 0.25), embedding="positional",
        periodic=(False, True),
    )  # fmt: skip
    assert NetworkSettings.from_json(settings.as_json()) == settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modes": (2, 2)}, "one number per axis"),
        ({"modes": (0,)}, "1 mode or more"),
        ({"embedding": "one-hot"}, "onehot or positional"),
        ({"width": 0}, "width"),
        ({"bins": 0}, "bins"),
        ({"zero_boundary": ((True, True), (True, True))}, "one pair"),
        ({"zero_boundary": ((True, True),)}, "needs the spacing"),
        ({"boundary_factor": "tent"}, "saturating or parabola"),
        ({"padding": 1.0}, "more than 1"),
        ({"periodic": (True, False)}, "one value per axis"),
    ],
)
def test_impossible_settings_raise_errors(changes, message):
    with pytest.raises(SurrogateError, match=message):
        settings_of(**changes)
