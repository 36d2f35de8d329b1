"""Building blocks with a member axis, beside torch's own and a plain Fourier transform."""

import math

import numpy as np
import pytest
import torch

from mrafno.surrogate.operator.layers import FourierLayer, Linear, fill, linear_map
from mrafno.surrogate.operator.spectral import Mesh

MEMBERS = 3


def drawn(layer, seed=0):
    for member in range(MEMBERS):
        layer.initialise(member, torch.Generator().manual_seed(seed + member))
    return layer


@pytest.mark.parametrize("grid", [(7,), (4, 5)])
def test_linear_maps_are_torchs_own_for_each_member(grid):
    layer = drawn(Linear(MEMBERS, 4, 6, torch.float64))
    x = torch.randn(MEMBERS, *grid, 2, 4, dtype=torch.float64)
    found = layer(x)
    for member in range(MEMBERS):
        plain = torch.nn.Linear(4, 6, dtype=torch.float64)
        plain.weight.data, plain.bias.data = layer.weight[member].data, layer.bias[member, :, 0].data
        torch.testing.assert_close(found[member], plain(x[member]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 20), (20, 1), (20, 18), (3, 20), (20, 3), (1, 1)])
def test_derivatives_of_linear_maps_are_torchs_own(inputs, outputs):
    """Narrow ones go another way."""
    x = torch.randn(MEMBERS, 6, inputs, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(MEMBERS, outputs, inputs, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(MEMBERS, outputs, 1, dtype=torch.float64, requires_grad=True)
    probe = torch.randn(MEMBERS, 6, outputs, dtype=torch.float64)
    for given in ((x, weight, bias), (x, weight)):
        plain = torch.einsum("mni,moi->mno", x, weight) + (bias.transpose(1, 2) if len(given) == 3 else 0)
        found = linear_map(*given)
        torch.testing.assert_close(found, plain)
        gradients = (torch.autograd.grad((out * probe).sum(), given) for out in (found, plain))
        for ours, theirs in zip(*gradients, strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("fft", [True, False])
def test_a_fourier_layer_is_a_product_of_modes_and_a_linear_map(fft):
    points, modes, width = 16, 5, 3
    layer = drawn(FourierLayer(MEMBERS, width, (modes,), torch.float64))
    layer.fft = fft
    v = torch.randn(MEMBERS, points, 2, width, dtype=torch.float64)
    found = layer(v.flatten(1, 2), [(Mesh.of([np.arange(points) / points], [1.0]), 2)]).view_as(v)
    for member in range(MEMBERS):
        spectrum = torch.fft.rfft(v[member], dim=0)
        product = torch.zeros_like(spectrum)
        for k in range(modes):
            real, imaginary = layer.spectral[member, k].detach().split(width, dim=1)
            product[k] = spectrum[k] @ torch.complex(real, imaginary)
        plain = torch.fft.irfft(product, n=points, dim=0) + layer.pointwise(v)[member].detach()
        torch.testing.assert_close(found[member].detach(), plain, rtol=1e-12, atol=1e-12)


def test_weights_fill_the_bounds_of_torchs_own_maps():
    weight = drawn(Linear(MEMBERS, 400, 50, torch.float64)).weight.detach()
    bound = 1 / math.sqrt(400)
    assert 0.99 * bound < float(weight.abs().max()) <= bound
    assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)  # of a uniform distribution


def test_filling_one_member_leaves_the_others_and_precisions_agree():
    single, double = (torch.nn.Parameter(torch.zeros(2, 5, dtype=dtype)) for dtype in (torch.float32, torch.float64))
    for parameter in (single, double):
        fill(parameter, 1, 0.5, torch.Generator().manual_seed(4))
    assert not double[0].any()
    assert double[1].all()
    torch.testing.assert_close(single.double(), double, rtol=1e-7, atol=0)
