"""Building blocks of networks with a member axis: maps of the channels at every point, and Fourier layers."""

import math

import torch
from torch import Tensor, nn

from mrafno.surrogate.spectral import Mesh, fourier_layer


class Linear(nn.Module):
    """``members`` linear maps of the channel axis at once: ``(M, in, ...)`` to ``(M, out, ...)``."""

    def __init__(self, members: int, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(members, outputs, inputs, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(members, outputs, 1, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Apply to ``(M, in, ...)``."""
        flat = torch.baddbmm(self.bias, self.weight, x.flatten(2))
        return flat.view(*flat.shape[:2], *x.shape[2:])

    def initialise(self, member: int, generator: torch.Generator) -> None:
        """Uniform in 1 / sqrt(in), as torch's own linear maps."""
        bound = 1 / math.sqrt(self.weight.shape[2])
        fill(self.weight, member, bound, generator)
        fill(self.bias, member, bound, generator)


class FourierLayer(nn.Module):
    """W v + b + the product with complex weights of the lowest modes, for all members at once."""

    def __init__(self, members: int, width: int, modes: tuple[int, ...], dtype: torch.dtype) -> None:
        super().__init__()
        self.modes = modes
        #: Whether to transform by a fast transform; None lets the size decide.
        self.fft: bool | None = None
        count = modes[0] if len(modes) == 1 else 2 * modes[0] * modes[1]
        self.pointwise = Linear(members, width, width, dtype)
        # (members, mode, in, real | imaginary part of out)
        self.spectral = nn.Parameter(torch.zeros(members, count, width, 2 * width, dtype=dtype))

    def forward(self, v: Tensor, mesh: Mesh) -> Tensor:
        """Apply to ``(M, C, B, *grid)``."""
        local = self.pointwise
        return fourier_layer(v, self.spectral, local.weight, local.bias, mesh, self.modes, self.fft)

    def initialise(self, member: int, generator: torch.Generator) -> None:
        """Modes keep the size of a function on average."""
        self.pointwise.initialise(member, generator)
        fill(self.spectral, member, 1 / math.sqrt(2 * self.spectral.shape[2]), generator)


def fill(parameter: nn.Parameter, member: int, bound: float, generator: torch.Generator) -> None:
    """Uniform in [-bound, bound]; drawn in float64 so that precisions agree."""
    with torch.no_grad():
        draw = torch.rand(parameter.shape[1:], generator=generator, dtype=torch.float64)
        parameter[member] = (bound * (2 * draw - 1)).to(parameter.dtype)
