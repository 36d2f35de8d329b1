"""Plain reference for the network: one member, torch.fft, 1x1 convolutions, written as in the first FNO publications.

It computes what ``mrafno.surrogate.operator.fno.MemberFNO`` computes on uniform grids that fit their Fourier period.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class SpectralConv(nn.Module):
    """The lowest modes of a zero-padded function times complex weights, cropped again."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        rows = [2 * k - 1 for k in modes[:-1]]  # -(k - 1) to k - 1
        self.weight = nn.Parameter(torch.zeros(width, width, *rows, modes[-1], dtype=torch.complex64))

    def forward(self, v, lengths, density):
        grid, dims = v.shape[2:], tuple(range(2, v.ndim))
        spectrum = torch.fft.rfftn(v if density is None else v * density, s=lengths, dim=dims)
        out = torch.zeros_like(spectrum)
        k = self.modes
        if len(k) == 1:
            out[..., : k[0]] = torch.einsum("bix,iox->box", spectrum[..., : k[0]], self.weight)
        else:
            first, last = self.weight[:, :, : k[0]], self.weight[:, :, k[0] :]
            out[:, :, : k[0], : k[1]] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, : k[0], : k[1]], first)
            if k[0] > 1:
                low = slice(1 - k[0], None)
                out[:, :, low, : k[1]] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, low, : k[1]], last)
        full = torch.fft.irfftn(out, s=lengths, dim=dims)
        return full[(..., *[slice(n) for n in grid])]


class PlainFNO(nn.Module):
    """Mean ``(B, out_channels, *grid)`` and log-variance ``(B,)`` of inputs ``(B, in_channels, *grid)``."""

    def __init__(self, settings):
        super().__init__()
        self.settings = s = settings
        conv = nn.Conv1d if s.dim == 1 else nn.Conv2d
        self.lift_in = conv(s.in_channels + s.dim + s.levels, s.width, 1)
        self.lift_out = conv(s.width, s.width, 1)
        self.spectral = nn.ModuleList(SpectralConv(s.width, s.modes) for _ in range(s.layers))
        self.pointwise = nn.ModuleList(conv(s.width, s.width, 1) for _ in range(s.layers))
        self.mean_in = conv(s.width, s.hidden, 1)
        self.mean_out = conv(s.hidden, s.out_channels, 1)
        self.variance_mix = conv(s.width, 8, 1)
        self.variance_conv = conv(8, 16, 3, padding=1)
        self.variance_in = nn.Linear(16 * s.bins**s.dim, 32)
        self.variance_out = nn.Linear(32, 1)
        self.tables = {}

    def forward(self, f, mesh, level, detach_variance=False):
        s = self.settings
        if (mesh, level) not in self.tables:
            self.tables[mesh, level] = self._table(mesh, level, f.dtype)
        place, lengths, density, boundary, pools = self.tables[mesh, level]
        v = torch.cat([f, place.expand(len(f), *place.shape)], dim=1)
        v = self.lift_out(functional.gelu(self.lift_in(v)))
        for i, (spectral, pointwise) in enumerate(zip(self.spectral, self.pointwise, strict=True)):
            update = spectral(v, lengths, density) + pointwise(v)
            if i + 1 < s.layers:
                update = functional.gelu(update)
            v = v + update if s.residual else update
        mean = self.mean_out(functional.gelu(self.mean_in(v)))
        if boundary is not None:
            mean = mean * boundary
        x = self.variance_mix(v.detach() if detach_variance else v)
        x = torch.einsum("bcx,xp->bcp" if s.dim == 1 else "bcxy,xp,yq->bcpq", x, *pools)
        x = functional.gelu(self.variance_conv(x)).flatten(1)
        return mean, self.variance_out(functional.gelu(self.variance_in(x)))[:, 0]

    def _table(self, mesh, level, dtype):
        """What depends on the grid only: positions and resolution, padded lengths, quadrature, boundary, cells."""
        s = self.settings
        axes = [np.asarray(axis) for axis in mesh.axes]
        place = [*np.meshgrid(*axes, indexing="ij")]
        place += [np.full(mesh.shape, float(level == r)) for r in range(s.levels)]
        lengths = [round(p / (x[1] - x[0])) for x, p in zip(axes, mesh.periods, strict=True)]
        # The trapezoidal rule on nodes: points at both ends count half. Elsewhere all points count the same.
        halves = [np.where(np.isin(x, (0.0, 1.0)) & (p > 1), 0.5, 1.0) for x, p in zip(axes, mesh.periods, strict=True)]
        density = _outer(halves)
        tents = [
            _vanishing(x, ends, s, axis) for axis, (x, ends) in enumerate(zip(axes, s.zero_boundary, strict=False))
        ]
        pools = []
        for x, h in zip(axes, halves, strict=True):
            cells = np.minimum(np.floor(x * s.bins), s.bins - 1)[:, None] == np.arange(s.bins)
            pools.append(cells * h[:, None] / (cells * h[:, None]).sum(0))

        def tensor(values):
            return torch.tensor(np.asarray(values), dtype=dtype)

        return (
            tensor(place),
            lengths,
            tensor(density) if (density != 1).any() else None,
            tensor(_outer(tents)) if any(map(any, s.zero_boundary)) else None,
            [tensor(pool) for pool in pools],
        )


def _vanishing(x, ends, s, axis):
    """What makes outputs vanish at the marked ends of an axis."""
    start, end = ends
    if s.boundary_factor == "parabola":
        return 4 * x * (1 - x) if start and end else x if start else 1 - x if end else np.ones_like(x)
    at_start = 1 - np.exp(-x / s.spacing[axis]) if start else np.ones_like(x)
    at_end = 1 - np.exp(-(1 - x) / s.spacing[axis]) if end else np.ones_like(x)
    return at_start * at_end


def plain_member(network, member):
    """One member of a MemberFNO with one-hot resolutions, as a PlainFNO."""
    s = network.settings
    plain = PlainFNO(s)
    if network.lift_in.weight.dtype == torch.float64:
        plain.double()
    with torch.no_grad():
        for name in ("lift_in", "lift_out", "mean_in", "mean_out", "variance_mix", "variance_in", "variance_out"):
            _copy(getattr(plain, name), getattr(network, name), member)
        conv = network.variance_conv.weight[member].view(16, *[3] * s.dim, 8)
        plain.variance_conv.weight.copy_(conv.movedim(-1, 1))
        plain.variance_conv.bias.copy_(network.variance_conv.bias[member, :, 0])
        for i, layer in enumerate(network.layers):
            _copy(plain.pointwise[i], layer.pointwise, member)
            real, imaginary = layer.spectral[member].chunk(2, dim=-1)
            weight = torch.complex(real, imaginary)  # (mode, in, out), modes (k2, sign, k1) if there are two axes
            if s.dim == 2:
                positive, negative = weight.view(s.modes[1], 2, s.modes[0], s.width, s.width).unbind(1)
                # Modes with k1 = 0 are there twice and count half each.
                zero = (positive[:, :1] + negative[:, :1]) / 2
                weight = torch.cat([zero, positive[:, 1:], negative[:, 1:].flip(1)], dim=1).transpose(0, 1)
            plain.spectral[i].weight = nn.Parameter(weight.movedim((-2, -1), (0, 1)).contiguous())
    return plain


def _copy(target, source, member):
    weight = source.weight[member]
    target.weight.copy_(weight.view(target.weight.shape))
    target.bias.copy_(source.bias[member, :, 0])


def _outer(vectors):
    product = vectors[0]
    for vector in vectors[1:]:
        product = product[:, None] * vector
    return product
