"""Building blocks of networks with a member axis: maps of the channels at every point, and Fourier layers."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from mrafno.surrogate.operator.spectral import NARROW, Mesh, fourier_layer, mode_count


class Linear(nn.Module):
    """``members`` linear maps of the channel axis at once: ``(M, ..., in)`` to ``(M, ..., out)``."""

    def __init__(self, members: int, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(members, outputs, inputs, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(members, outputs, 1, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Apply to ``(M, ..., in)``."""
        return linear_map(x.flatten(1, -2), self.weight, self.bias).view(*x.shape[:-1], -1)

    def initialise(self, member: int, generator: torch.Generator) -> None:
        """Uniform in 1 / sqrt(in), as torch's own linear maps."""
        bound = 1 / math.sqrt(self.weight.shape[2])
        fill(self.weight, member, bound, generator)
        fill(self.bias, member, bound, generator)


def linear_map(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``(M, N, in)`` to ``(M, N, out)`` by weights ``(M, out, in)`` and a bias ``(M, out, 1)``, if there is one."""
    return _LinearMap.apply(x, weight, bias)  # type: ignore[no-any-return, no-untyped-call]


class _LinearMap(torch.autograd.Function):
    """With a hand-written derivative, because libraries are slow at products of long and very narrow matrices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        if bias is not None and weight.shape[1] >= NARROW:
            return torch.baddbmm(bias.transpose(1, 2), x, weight.transpose(1, 2))
        out = _product(x, weight.transpose(1, 2))
        return out if bias is None else (out + bias.transpose(1, 2)).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0]
        for_x = _product(gradient, weight) if ctx.needs_input_grad[0] else None
        for_weight = _product(x.transpose(1, 2), gradient).transpose(1, 2)
        for_bias = gradient.sum(1)[..., None] if ctx.needs_input_grad[2] else None
        return for_x, for_weight, for_bias


def _product(a: Tensor, b: Tensor) -> Tensor:
    if b.shape[1] == 1 and a.dtype != torch.bfloat16:  # in bfloat16 products are quicker than broadcasting
        return a * b
    if b.shape[2] < NARROW:
        return torch.bmm(b.transpose(1, 2), a.transpose(1, 2)).transpose(1, 2)
    return torch.bmm(a, b)


class FourierLayer(nn.Module):
    """W v + b + the product with complex weights of the lowest modes, for all members at once."""

    def __init__(self, members: int, width: int, modes: tuple[int, ...], dtype: torch.dtype) -> None:
        super().__init__()
        self.modes = modes
        #: Whether to use a fast transform; None chooses by size.
        self.fft: bool | None = None
        count = mode_count(modes)
        self.pointwise = Linear(members, width, width, dtype)
        # (members, mode, in, real | imaginary part of out)
        self.spectral = nn.Parameter(torch.zeros(members, count, width, 2 * width, dtype=dtype))

    def forward(self, v: Tensor, meshes: Sequence[tuple[Mesh, int]]) -> Tensor:
        """Apply to functions ``(M, N, C)`` on meshes with so many functions each."""
        local = self.pointwise
        return fourier_layer(v, self.spectral, local.weight, local.bias, meshes, self.modes, self.fft)

    def initialise(self, member: int, generator: torch.Generator) -> None:
        """Modes keep the size of a function on average."""
        self.pointwise.initialise(member, generator)
        fill(self.spectral, member, 1 / math.sqrt(2 * self.spectral.shape[2]), generator)


def fill(parameter: nn.Parameter, member: int, bound: float, generator: torch.Generator) -> None:
    """Uniform in [-bound, bound]; drawn in float64 so that precisions agree."""
    with torch.no_grad():
        draw = torch.rand(parameter.shape[1:], generator=generator, dtype=torch.float64)
        parameter[member] = (bound * (2 * draw - 1)).to(parameter.dtype)
