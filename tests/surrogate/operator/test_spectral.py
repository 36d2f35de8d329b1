"""Truncated transforms against their defining sums, numpy's and torch's fast transforms, and exact quadrature."""

import itertools

import numpy as np
import pytest
import torch

from mrafno.grids import Grid
from mrafno.surrogate.operator import spectral
from mrafno.surrogate.operator.spectral import (
    Mesh,
    from_modes,
    matrices,
    multiply,
    points_first,
    points_last,
    product_along,
    to_modes,
    use_fft,
    weights,
)

TAU = 2 * np.pi


def convolve(values, weight, mesh, modes, fft=None):
    """Of functions (M, B, C, *grid), which are easier to read."""
    return points_last(spectral.convolve(points_first(values), weight, mesh, modes, fft=fft))


def mesh_of(shape, layout):
    grid = Grid(shape, layout)
    return Mesh.of(grid.axes, [1.0 if kind == "periodic" else 1.25 for kind in layout])


# Every layout, even and odd numbers of points, non-square, and modes up to the most that a grid holds.
CASES = {
    "periodic": (mesh_of((16,), ("periodic",)), (5,)),
    "periodic odd, all modes": (mesh_of((15,), ("periodic",)), (8,)),
    "nodes": (mesh_of((33,), ("nodes",)), (7,)),
    "cells": (mesh_of((32,), ("cells",)), (16,)),
    "cells odd": (mesh_of((20,), ("cells",)), (6,)),
    "periodic 2d": (mesh_of((12, 9), ("periodic", "periodic")), (4, 3)),
    "cells 2d": (mesh_of((8, 16), ("cells", "cells")), (4, 5)),
    "nodes 2d": (mesh_of((17, 9), ("nodes", "nodes")), (3, 4)),
    "mixed 2d": (mesh_of((8, 9), ("periodic", "nodes")), (4, 1)),
    "one mode 2d": (mesh_of((6, 7), ("periodic", "periodic")), (1, 1)),
    "periodic 3d": (mesh_of((5, 6, 8), ("periodic", "periodic", "periodic")), (2, 3, 4)),
    "mixed 3d": (mesh_of((8, 5, 4), ("cells", "nodes", "periodic")), (3, 2, 1)),
}


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return CASES[request.param]


def randoms(mesh, modes, *, members=2, inputs=3, outputs=4, batch=2, dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    count = 2 ** (len(modes) - 1) * int(np.prod(modes))
    values = torch.randn(members, batch, inputs, *mesh.shape, generator=generator, dtype=torch.float64)
    weight = torch.randn(members, count, inputs, 2 * outputs, generator=generator, dtype=torch.float64)
    return values.to(dtype), weight.to(dtype)


def by_definition(values, weight, mesh, modes):
    """The sums of the module's docstring, mode after mode, with complex exponentials."""
    outputs = weight.shape[-1] // 2
    complex_weight = (weight[..., :outputs] + 1j * weight[..., outputs:]).numpy()
    points = np.meshgrid(*mesh.axes, indexing="ij")
    density = np.ones(mesh.shape)
    for axis, (x, period) in enumerate(zip(mesh.axes, mesh.periods, strict=True)):
        density = density * np.expand_dims(
            weights(x, period) / period, tuple(i for i in range(len(modes)) if i != axis)
        )
    # On all axes but the last the mode zero is there with both signs, so each counts half.
    signed = [[(sign * k, 0.5 if k == 0 else 1) for sign in (1, -1) for k in range(count)] for count in modes[:-1]]
    last = [(k, 1 if k == 0 else 2) for k in range(modes[-1])]
    waves = [
        (tuple(k for k, _ in reversed(wave)), np.prod([factor for _, factor in wave]))
        for wave in itertools.product(last, *reversed(signed))
    ]
    result = 0.0
    for q, (wave, factor) in enumerate(waves):
        angle = sum(TAU * k * x / period for k, x, period in zip(wave, points, mesh.periods, strict=True))
        axes = tuple(range(-len(modes), 0))
        coefficient = np.sum(values.numpy() * density * np.exp(-1j * angle), axis=axes)  # (M, B, C)
        mixed = np.einsum("mbc,mcd->mbd", coefficient, complex_weight[:, q])
        result = result + factor * np.real(np.multiply.outer(mixed, np.exp(1j * angle)))
    return result


@pytest.mark.parametrize("fft", [False, True])
def test_convolution_equals_its_definition(case, fft):
    mesh, modes = case
    values, weight = randoms(mesh, modes)
    found = convolve(values, weight, mesh, modes, fft=fft)
    np.testing.assert_allclose(found.numpy(), by_definition(values, weight, mesh, modes), atol=1e-12)


def test_gradients_of_both_ways_agree(case):
    """The derivative of the matrix products is written by hand, that of torch.fft is torch's own."""
    mesh, modes = case
    gradients = []
    for fft in (False, True):
        values, weight = (t.requires_grad_() for t in randoms(mesh, modes))
        out = convolve(values, weight, mesh, modes, fft=fft)
        probe = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=out.dtype)
        gradients.append(torch.autograd.grad((out * probe).sum(), (values, weight)))
    for by_hand, by_torch in zip(*gradients, strict=True):
        torch.testing.assert_close(by_hand, by_torch, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("mesh", "modes"),
    [
        (mesh_of((7,), ("periodic",)), (3,)),
        (mesh_of((5,), ("nodes",)), (2,)),
        (mesh_of((4, 5), ("cells", "periodic")), (2, 2)),
        (mesh_of((3, 4, 4), ("cells", "nodes", "periodic")), (2, 1, 2)),
        (Mesh(((0.05, 0.3, 0.45, 0.9),), (1.25,)), (2,)),
    ],
)
def test_hand_written_gradient_by_differences(mesh, modes):
    values, weight = randoms(mesh, modes, inputs=2, outputs=2, batch=1)
    assert torch.autograd.gradcheck(
        lambda v, w: convolve(v, w, mesh, modes, fft=False), (values.requires_grad_(), weight.requires_grad_())
    )


def test_gradient_only_where_it_is_wanted():
    mesh, modes = CASES["periodic"]
    values, weight = randoms(mesh, modes)
    convolve(values, weight.requires_grad_(), mesh, modes, fft=False).sum().backward()
    assert weight.grad is not None
    assert values.grad is None


def test_transforms_are_each_others_adjoint_up_to_scaling(case):
    """<from_modes(s), v> = <s, from_modes^T(v)>, with the transposed matrices: what the backward pass rests on."""
    mesh, modes = case
    values, weight = randoms(mesh, modes)
    synthesis = matrices(mesh, modes, True, torch.float64, torch.device("cpu"))
    analysis = matrices(mesh, modes, False, torch.float64, torch.device("cpu"))
    spectrum = multiply(to_modes(points_first(values), analysis), weight)
    out = from_modes(spectrum, synthesis)
    probe = torch.randn(out.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    back = to_modes(probe, tuple(p.T for p in synthesis))
    torch.testing.assert_close((out * probe).sum(), (spectrum * back).sum(), rtol=1e-11, atol=1e-11)


def identity(modes, channels=2):
    count = 2 ** (len(modes) - 1) * int(np.prod(modes))
    eye = torch.cat([torch.eye(channels), torch.zeros(channels, channels)], dim=1).double()
    return eye.expand(1, count, channels, 2 * channels).contiguous()


@pytest.mark.parametrize(
    ("shape", "modes"),
    [((16,), (5,)), ((15,), (4,)), ((12, 9), (3, 4)), ((8, 16), (4, 2)), ((9, 9), (5, 5)), ((5, 6, 8), (2, 3, 4))],
)
def test_unit_weights_are_numpys_low_pass_filter(shape, modes):
    mesh = mesh_of(shape, ("periodic",) * len(shape))
    values = np.random.default_rng(0).standard_normal((1, 3, 2, *shape))
    frequencies = np.meshgrid(*(np.fft.fftfreq(n, 1 / n) for n in shape), indexing="ij")
    kept = np.all([np.abs(k) < m for k, m in zip(frequencies, modes, strict=True)], axis=0)
    axes = tuple(range(-len(shape), 0))
    expected = np.fft.ifftn(np.fft.fftn(values, axes=axes) * kept, axes=axes).real
    for fft in (False, True):
        found = convolve(torch.as_tensor(values), identity(modes), mesh, modes, fft=fft)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-13)


@pytest.mark.parametrize("name", [name for name, (mesh, _) in CASES.items() if set(mesh.periods) == {1.0}])
def test_the_filter_keeps_what_it_is_made_of(name):
    """On a periodic grid the filter is a projection: twice is once."""
    mesh, modes = CASES[name]
    values, _ = randoms(mesh, modes, members=1, inputs=2)
    once = convolve(values, identity(modes), mesh, modes, fft=False)
    torch.testing.assert_close(convolve(once, identity(modes), mesh, modes, fft=False), once, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_band_limited_function_has_one_convolution_whatever_the_grid(dim):
    """Exact, since quadrature on a periodic grid is exact for all waves that it resolves."""
    modes = (4,) * dim
    _, weight = randoms(mesh_of((16,) * dim, ("periodic",) * dim), modes, members=1, inputs=1, outputs=1)

    def on(shape):
        mesh = mesh_of(shape, ("periodic",) * dim)
        x = np.meshgrid(*mesh.axes, indexing="ij")
        f = 0.3 + sum(np.sin(TAU * 3 * a + i) * np.cos(TAU * 2 * x[0]) for i, a in enumerate(x))
        return convolve(torch.as_tensor(f)[None, None, None], weight, mesh, modes)[0, 0, 0]

    coarse, fine = on((16,) * dim), on((32, 48, 16)[:dim])
    torch.testing.assert_close(
        coarse, fine[(slice(None, None, 2), slice(None, None, 3), slice(None))[:dim]], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("dim", [1, 2])
def test_a_strided_grid_gives_the_strided_result(dim):
    """The points themselves go into the matrices, so an offset shifts nothing."""
    modes = (3,) * dim
    mesh = mesh_of((24, 32)[:dim], ("periodic",) * dim)
    _, weight = randoms(mesh, modes, members=1, inputs=1, outputs=1)
    x = np.meshgrid(*mesh.axes, indexing="ij")
    f = torch.as_tensor(np.cos(TAU * 2 * x[0] + 1) * np.sin(TAU * x[-1]))[None, None, None]
    whole = convolve(f, weight, mesh, modes)
    offsets = (1, 3)[:dim]
    part = (..., *(slice(o, None, 4) for o in offsets))
    strided = mesh.strided(4, offsets)
    assert strided.shape == tuple(whole[part].shape[3:])
    assert strided.axes[0] == mesh.axes[0][1::4]
    torch.testing.assert_close(convolve(f[part], weight, strided, modes), whole[part], rtol=0, atol=1e-12)


def test_shifting_the_input_shifts_the_output():
    for case in ("periodic", "periodic 2d"):
        mesh, modes = CASES[case]
        values, weight = randoms(mesh, modes)
        shifts, axes = tuple(range(3, 3 + len(modes))), tuple(range(-len(modes), 0))
        torch.testing.assert_close(
            convolve(values.roll(shifts, axes), weight, mesh, modes),
            convolve(values, weight, mesh, modes).roll(shifts, axes),
            rtol=0,
            atol=1e-12,
        )


@pytest.mark.parametrize("n", [2, 5, 33])
def test_weights_on_nodes_are_the_trapezoidal_rule(n):
    x = np.linspace(0, 1, n)
    found = weights(tuple(x), 1.25)
    expected = np.full(n, 1 / (n - 1))
    expected[[0, -1]] /= 2
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(found @ (3 * x - 1), 0.5, atol=1e-14)


@pytest.mark.parametrize("n", [2, 5, 32])
def test_weights_on_cells_are_the_midpoint_rule(n):
    x = Grid((n,), ("cells",)).axes[0]
    np.testing.assert_allclose(weights(tuple(x), 1.25), 1 / n, rtol=1e-12)
    np.testing.assert_allclose(weights(tuple(x), 1.25) @ (3 * x - 1), 0.5, atol=1e-14)


@pytest.mark.parametrize(("n", "stride"), [(100, 3), (129, 4), (30, 4), (7, 2)])
@pytest.mark.parametrize("layout", ["nodes", "cells", "periodic"])
def test_weights_of_strided_points_still_sum_to_one(n, stride, layout):
    mesh = mesh_of((n,), (layout,))
    for offset in range(stride):
        part = mesh.strided(stride, [offset])
        found = weights(part.axes[0], part.periods[0])
        assert (found > 0).all()
        np.testing.assert_allclose(found.sum(), 1, rtol=1e-12)


def test_a_stride_that_does_not_divide_a_periodic_axis_is_weighed_by_its_gaps():
    """Counted alike, the crowded points would put a wave's energy into the constant."""
    part = mesh_of((100,), ("periodic",)).strided(3, [1])
    x, w = np.array(part.axes[0]), weights(part.axes[0], 1.0)
    uneven = np.full(len(x), 1 / len(x))
    wave = np.cos(TAU * 2 * x)
    assert abs(w @ wave) < 0.1 * abs(uneven @ wave)


def test_nodes_on_a_periodic_axis_count_the_shared_end_once():
    """The last node is the first again, so the filter has to be that of the grid without it."""
    n, modes = 16, (5,)
    nodes = Mesh.of([np.linspace(0, 1, n + 1)], [1.0])
    values = np.random.default_rng(0).standard_normal((1, 3, 2, n))
    closed = np.concatenate([values, values[..., :1]], axis=-1)
    found = convolve(torch.as_tensor(closed), identity(modes), nodes, modes)
    expected = convolve(torch.as_tensor(values), identity(modes), mesh_of((n,), ("periodic",)), modes)
    torch.testing.assert_close(found[..., :n], expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(found[..., n], expected[..., 0], rtol=0, atol=1e-13)


def test_size_decides_between_products_and_fast_transforms():
    assert not use_fft(mesh_of((129,), ("nodes",)), (16,))
    assert not use_fft(mesh_of((64, 64), ("periodic", "periodic")), (12, 12))
    assert use_fft(mesh_of((4096,), ("periodic",)), (1024,))
    uneven = Mesh((tuple(np.linspace(0, 1, 4096) ** 2),), (1.25,))
    assert not use_fft(uneven, (1024,))
    with pytest.raises(ValueError, match="uniform"):
        convolve(torch.zeros(1, 1, 1, 4096), torch.zeros(1, 4, 1, 2), uneven, (4,), fft=True)


def test_more_modes_than_a_grid_holds():
    """Asking a network on a very coarse grid folds its high modes over; it must not fail, whichever way is quicker."""
    mesh, modes = mesh_of((8,), ("periodic",)), (100,)
    values, weight = randoms(mesh, modes, members=1, inputs=1, outputs=1, batch=1)
    found = convolve(values, weight, mesh, modes)
    np.testing.assert_allclose(found.numpy(), by_definition(values, weight, mesh, modes), atol=1e-11)


def test_float32_is_the_same_to_its_rounding(case):
    mesh, modes = case
    values, weight = randoms(mesh, modes)
    exact = convolve(values, weight, mesh, modes, fft=False)
    for fft in (False, True):
        found = convolve(values.float(), weight.float(), mesh, modes, fft=fft)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5 * float(exact.abs().max()))


@pytest.mark.parametrize("grid", [(5,), (5, 4)])
def test_functions_points_first_and_back(grid):
    values = torch.randn(2, 3, 7, *grid)
    first = points_first(values)
    assert first.shape == (2, *reversed(grid), 3, 7)
    assert first[(1, *reversed([4, 2][: len(grid)]), 2, 6)] == values[(1, 2, 6, *[4, 2][: len(grid)])]
    assert torch.equal(points_last(first), values)


@pytest.mark.parametrize(("axis", "subscripts"), [(0, "mbcxy,zx->mbczy"), (1, "mbcxy,zy->mbcxz")])
def test_products_along_an_axis(axis, subscripts):
    values = torch.randn(2, 3, 2, 5, 4, dtype=torch.float64)
    matrix = torch.randn(6, values.shape[3 + axis], dtype=torch.float64)
    found = points_last(product_along(points_first(values), matrix, axis))
    torch.testing.assert_close(found, torch.einsum(subscripts, values, matrix))
