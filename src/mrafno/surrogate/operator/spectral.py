r"""Truncated Fourier transforms of functions sampled on a rectangular grid.

Along one axis with points :math:`x_j`, quadrature weights :math:`w_j` and period :math:`L`, the K lowest modes are

.. math:: c_k = \sum_j \frac{w_j}{L} f(x_j) e^{-2 \pi i k x_j / L}, \qquad
    f(x) = \sum_{k < K} s_k \operatorname{Re}\left(c_k e^{2 \pi i k x / L}\right), \quad s_0 = 1, \; s_k = 2

Only K of many modes are kept, so a product with a fixed real matrix of 2K columns is faster on a CPU than a fast
transform unless K is a large part of the grid. It also needs no uniform spacing, so strided training grids need no
resampling. :func:`use_fft` chooses between the two; both give the same numbers.

On several axes the modes are (+-k1, +-k2, ..., kd), all from 0 on, so that Q = 2 K1 2 K2 ... Kd: the last axis has no
negative modes, because functions are real, and on the others zero occurs with both signs, each counting half. The order
of the modes is that of the axes backwards, (kd, ..., sign of k2, k2, sign of k1, k1). A spectrum has the shape
``(members, Q, 2, batch, channels)`` with real and imaginary parts on the axis of two, which is the layout for the
product with the weights of each mode.

Functions are held points first, ``(members, *points, batch, channels)``, and the last axis of a grid comes first of
the points. So the products from the left that make up a transform leave the modes in the order of a spectrum, and
nothing is ever permuted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

Points = tuple[float, ...]


@dataclass(frozen=True)
class Mesh:
    """Where functions are sampled: the points along each axis, and the Fourier period of each axis.

    A period of 1 means that the functions are periodic on the unit box; with a longer one their values at the two ends
    may differ.
    """

    axes: tuple[Points, ...]
    periods: tuple[float, ...]

    @staticmethod
    def of(axes: Sequence[NDArray[np.float64]], periods: Sequence[float]) -> "Mesh":
        """A mesh from coordinate arrays."""
        return Mesh(tuple(tuple(float(x) for x in axis) for axis in axes), tuple(float(p) for p in periods))

    @property
    def shape(self) -> tuple[int, ...]:
        """Points per axis."""
        return tuple(len(axis) for axis in self.axes)

    def strided(self, stride: int, offsets: Sequence[int]) -> "Mesh":
        """Every ``stride``-th point of each axis, from its offset on."""
        axes = tuple(axis[offset::stride] for axis, offset in zip(self.axes, offsets, strict=True))
        return Mesh(axes, self.periods)


def weights(points: Points, period: float) -> NDArray[np.float64]:
    """Quadrature weights on [0, 1]: the length nearest to each point (the trapezoidal rule on nodes)."""
    x = np.asarray(points)
    if period == 1.0:
        gaps = np.diff(x, append=x[0] + 1.0)
        if np.ptp(gaps) < 1e-9:
            return np.full(len(x), 1.0 / len(x))
        # A stride that does not divide the axis, or nodes whose last point is the periodic image of the first.
        return np.asarray((gaps + np.roll(gaps, 1)) / 2)
    edges = np.concatenate([[0.0], (x[1:] + x[:-1]) / 2, [1.0]])
    return np.diff(edges)


def points_first(values: Tensor) -> Tensor:
    """A view of functions ``(M, B, C, *grid)`` with the layout of the layers, ``(M, *points, B, C)``."""
    return values.permute(0, *range(values.ndim - 1, 2, -1), 1, 2)


def points_last(values: Tensor) -> Tensor:
    """The inverse of :func:`points_first`."""
    return values.permute(0, -2, -1, *range(values.ndim - 3, 0, -1))


def product_along(values: Tensor, matrix: Tensor, axis: int) -> Tensor:
    """The product of ``(new, old)`` with functions ``(M, *points, B, C)`` along an axis of their grid."""
    place = values.ndim - 3 - axis
    before, n, after = values.shape[:place], values.shape[place], values.shape[place + 1 :]
    flat = values.reshape(math.prod(before), n, -1)
    columns = flat.shape[2]
    # When torch.export traces, the number of inputs is symbolic: comparing it would limit the program to one side.
    if not isinstance(columns, int) or columns >= NARROW:
        return _left(matrix, flat).view(*before, -1, *after)
    together = torch.mm(flat.transpose(1, 2).reshape(-1, n), matrix.T)
    return together.view(len(flat), -1, len(matrix)).transpose(1, 2).reshape(*before, -1, *after)


#: Libraries are slow at products with fewer columns: these are computed transposed.
NARROW = 16


def _left(matrix: Tensor, values: Tensor) -> Tensor:
    return torch.bmm(matrix.expand(len(values), -1, -1), values)


@lru_cache(maxsize=1024)
def matrices(
    mesh: Mesh, modes: tuple[int, ...], inverse: bool, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, ...]:
    """The products that make up a transform, one per axis from the last to the first, to be applied from the left.

    The last axis is real: ``(2K, N)`` with rows (k, part). The others take real and imaginary parts together,
    ``(4K, 2N)`` with rows (sign of k, k, part) and columns (part, point). The inverse's are of the transposed shapes.
    """
    *others, last = zip(mesh.axes, mesh.periods, modes, strict=True)
    made = [_last_axis(*last, inverse), *(_other_axis(*axis, inverse) for axis in reversed(others))]
    return tuple(torch.tensor(matrix.copy(), dtype=dtype, device=device) for matrix in made)


def _last_axis(points: Points, period: float, modes: int, inverse: bool) -> NDArray[np.float64]:
    angle = 2 * np.pi / period * np.outer(np.arange(modes), points)
    both = np.stack([np.cos(angle), -np.sin(angle)], axis=1).reshape(2 * modes, len(points))
    if inverse:
        # Modes above zero represent themselves and their conjugates.
        return np.asarray((both * np.repeat(np.where(np.arange(modes) == 0, 1.0, 2.0), 2)[:, None]).T)
    return np.asarray(both * (weights(points, period) / period))


def _other_axis(points: Points, period: float, modes: int, inverse: bool) -> NDArray[np.float64]:
    angle = 2 * np.pi / period * np.outer(np.arange(modes), points)
    out = np.zeros((2, modes, 2, 2, len(points)))  # (sign, k, part out, part in, point)
    for i, sign in enumerate((1, -1)):
        # (a + ib) (cos - i sign sin)
        out[i, :, 0, 0] = np.cos(angle)
        out[i, :, 1, 0] = -sign * np.sin(angle)
        out[i, :, 0, 1] = sign * np.sin(angle)
        out[i, :, 1, 1] = np.cos(angle)
    if inverse:
        # The transposed matrix turns the angle back. The mode k = 0 occurs twice.
        out[:, 0] *= 0.5
    else:
        out *= weights(points, period) / period
    flat = out.reshape(4 * modes, 2 * len(points))
    return flat.T if inverse else flat


def mode_count(modes: Sequence[int]) -> int:
    """Number of modes, Q."""
    return math.prod(modes) << (len(modes) - 1)


def to_modes(values: Tensor, products: tuple[Tensor, ...]) -> Tensor:
    """Functions ``(M, *points, B, C)`` to their spectrum ``(M, Q, 2, B, C)``."""
    m, *points, b, c = values.shape
    found = values.reshape(m, points[0], -1)
    for i, product in enumerate(products):
        rest = (
            math.prod(points[i + 1 :]) * b * c
        )  # the axes that are still to be transformed, and what is carried along
        found = _left(product, found.view(-1 if i else m, product.shape[1], rest))
    return found.view(m, -1, 2, b, c)


def from_modes(spectrum: Tensor, products: tuple[Tensor, ...], onto: Tensor | None = None) -> Tensor:
    """A spectrum ``(M, Q, 2, B, C)`` to functions ``(M, *points, B, C)``; added to those of ``onto``, in place."""
    m, _, _, b, c = spectrum.shape
    # The product of the last axis, which is real, has as many rows as points, the others twice as many.
    points = [product.shape[0] // (2 if i else 1) for i, product in enumerate(products)]
    found = spectrum
    for i in reversed(range(len(products))):
        done = math.prod(points[i + 1 :]) * b * c
        rows = found.reshape(-1 if i else m, products[i].shape[1], done)
        if i or onto is None:
            found = _left(products[i], rows)
        else:
            found = onto.view(m, points[0], done).baddbmm_(products[i].expand(m, -1, -1), rows)
    return found.view(m, *points, b, c)


def multiply(spectrum: Tensor, weight: Tensor) -> Tensor:
    """Each mode times its complex weights: ``(M, Q, 2, B, C)`` and ``(M, Q, C, 2 C')`` give ``(M, Q, 2, B, C')``.

    The weights hold the real, then the imaginary part of each mode's matrix.
    """
    m, q, _, b, c = spectrum.shape
    product = torch.bmm(spectrum.reshape(m * q, 2 * b, c), weight.flatten(0, 1)).view(m, q, 2, b, 2, -1)
    real, imaginary = product.unbind(2)
    rr, ri = real.unbind(3)
    ir, ii = imaginary.unbind(3)
    if product.requires_grad:
        return torch.stack([rr - ii, ri + ir], dim=2)
    mixed = product.new_empty(m, q, 2, b, product.shape[-1])
    torch.sub(rr, ii, out=mixed[:, :, 0])
    torch.add(ri, ir, out=mixed[:, :, 1])
    return mixed


class _FourierLayer(torch.autograd.Function):
    """Transform, product, inverse and pointwise map with a hand-written derivative, which saves passes over the grid.

    Functions on several meshes, ``(M, N, C)``, are transformed one mesh after another and share all other products. The
    bias is added to the mean of each function, which is the mode zero, where it costs nothing.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        weight: Tensor,
        local: Tensor,
        bias: Tensor,
        batches: tuple[int, ...],
        analysis: tuple[tuple[Tensor, ...], ...],
        synthesis: tuple[tuple[Tensor, ...], ...],
    ) -> Tensor:
        spectrum = _spectra(values, batches, synthesis, analysis)
        ctx.save_for_backward(values, spectrum, weight, local)
        ctx.products = batches, analysis, synthesis
        mixed = multiply(spectrum, weight)
        for mode in _zero_modes(synthesis[0]):
            mixed[:, mode, 0] += bias.transpose(1, 2)
        out = torch.bmm(values, local.transpose(1, 2))
        _add_functions(mixed, batches, synthesis, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        values, spectrum, weight, local = ctx.saved_tensors
        batches, analysis, synthesis = ctx.products
        gradient = gradients[0].contiguous()
        m, q, _, b, c = spectrum.shape
        turned = _spectra(gradient, batches, synthesis, _transposed(synthesis))
        for_bias: Any = sum(turned[:, mode, 0].sum(1)[..., None] for mode in _zero_modes(synthesis[0]))
        real, imaginary = turned.unbind(2)
        both = real.new_empty(m, q, 2, b, 2, real.shape[-1])
        both[:, :, 0, :, 0] = real
        both[:, :, 0, :, 1] = both[:, :, 1, :, 0] = imaginary
        torch.neg(real, out=both[:, :, 1, :, 1])
        outer = both.view(m * q, 2 * b, -1)
        for_weight = torch.bmm(spectrum.reshape(m * q, 2 * b, c).transpose(1, 2), outer).view(weight.shape)
        for_local = torch.bmm(gradient.transpose(1, 2), values)
        for_values = None
        if ctx.needs_input_grad[0]:
            through = torch.bmm(outer, weight.flatten(0, 1).transpose(1, 2)).view(m, q, 2, b, c)
            for_values = torch.bmm(gradient, local)
            _add_functions(through, batches, _transposed(analysis), for_values)
        return for_values, for_weight, for_local, for_bias, None, None, None


def _transposed(products: tuple[tuple[Tensor, ...], ...]) -> tuple[tuple[Tensor, ...], ...]:
    return tuple(tuple(product.T for product in one) for one in products)


def _blocks(values: Tensor, batches: tuple[int, ...], synthesis: tuple[tuple[Tensor, ...], ...]) -> list[Tensor]:
    """Views of functions on several meshes ``(M, N, C)``, each ``(M, *points, B, C)``."""
    shapes = [
        (*(product.shape[0] // (2 if i else 1) for i, product in enumerate(products)), batch)
        for batch, products in zip(batches, synthesis, strict=True)
    ]
    parts = [values] if len(shapes) == 1 else torch.split(values, [math.prod(shape) for shape in shapes], dim=1)
    return [part.view(len(part), *shape, part.shape[-1]) for part, shape in zip(parts, shapes, strict=True)]


def _spectra(
    values: Tensor,
    batches: tuple[int, ...],
    synthesis: tuple[tuple[Tensor, ...], ...],
    analysis: tuple[tuple[Tensor, ...], ...],
) -> Tensor:
    """The spectra of functions on several meshes, ``(M, Q, 2, sum of B, C)``."""
    blocks = _blocks(values, batches, synthesis)
    found = [to_modes(block, products) for block, products in zip(blocks, analysis, strict=True)]
    return found[0] if len(found) == 1 else torch.cat(found, dim=3)


def _add_functions(
    spectra: Tensor, batches: tuple[int, ...], synthesis: tuple[tuple[Tensor, ...], ...], out: Tensor
) -> None:
    """Add the functions of these spectra ``(M, Q, 2, sum of B, C)`` to functions on several meshes ``(M, N, C)``."""
    parts = [spectra] if len(batches) == 1 else torch.split(spectra, list(batches), dim=3)
    for block, part, products in zip(_blocks(out, batches, synthesis), parts, synthesis, strict=True):
        from_modes(part, products, block)


def _zero_modes(synthesis: tuple[Tensor, ...]) -> tuple[int, ...]:
    """Indices of the constant mode, which occurs with both signs on every axis but the last."""
    found = [0]
    for product in synthesis[1:]:
        modes = product.shape[1] // 4
        found = [2 * modes * index + sign * modes for index in found for sign in (0, 1)]
    return tuple(found)


def fourier_layer(
    values: Tensor,
    weight: Tensor,
    local: Tensor,
    bias: Tensor,
    meshes: Sequence[tuple[Mesh, int]],
    modes: tuple[int, ...],
    fft: bool | None = None,
) -> Tensor:
    """W v + b + the lowest modes of v times their weights, for functions ``v`` on one or several meshes.

    Args:
        values: ``(M, N, C)``, the functions of one mesh ``(M, *points, B, C)`` after those of another.
        weight, local, bias: ``(M, Q, C, 2 C')``, ``(M, C', C)`` and ``(M, C', 1)``.
        meshes: each mesh and its number B of functions.
        fft: forces one of the two transforms; None chooses by size.
    """
    # Fast transforms know no bfloat16.
    if values.dtype != torch.bfloat16 and (fft if fft is not None else all(use_fft(mesh, modes) for mesh, _ in meshes)):
        sizes = [math.prod(mesh.shape) * batch for mesh, batch in meshes]
        parts = [values] if len(meshes) == 1 else torch.split(values, sizes, dim=1)
        found = [
            _convolve_fft(part.view(len(part), *mesh.shape[::-1], batch, -1), weight, mesh, modes).flatten(1, -2)
            for part, (mesh, batch) in zip(parts, meshes, strict=True)
        ]
        through_modes = found[0] if len(found) == 1 else torch.cat(found, dim=1)
        return torch.baddbmm(through_modes, values, local.transpose(1, 2)) + bias.transpose(1, 2)
    analysis, synthesis = (
        tuple(matrices(mesh, modes, inverse, values.dtype, values.device) for mesh, _ in meshes)
        for inverse in (False, True)
    )
    batches = tuple(batch for _, batch in meshes)
    return _FourierLayer.apply(values, weight, local, bias, batches, analysis, synthesis)  # type: ignore[no-any-return, no-untyped-call]


def convolve(values: Tensor, weight: Tensor, mesh: Mesh, modes: tuple[int, ...], fft: bool | None = None) -> Tensor:
    """The convolution of :func:`fourier_layer` alone: the lowest modes times ``weight``, all others dropped."""
    m, *grid, batch, c = values.shape
    nothing = values.new_zeros(m, weight.shape[-1] // 2, c), values.new_zeros(m, weight.shape[-1] // 2, 1)
    found = fourier_layer(values.flatten(1, -2), weight, *nothing, [(mesh, batch)], modes, fft)
    return found.view(m, *grid, batch, -1)


@lru_cache(maxsize=1024)
def use_fft(mesh: Mesh, modes: tuple[int, ...]) -> bool:
    """Whether a fast transform is the better choice: uniform axes, whole numbers of points in a period, many modes.

    A product costs 4 N K operations near a core's peak, a fast transform of P points about 5 P log2 P far from it; the
    factor between them is what ``benchmarks/bench_surrogate.py`` measures.
    """
    lengths = [_padded_length(points, period) for points, period in zip(mesh.axes, mesh.periods, strict=True)]
    return all(
        length is not None and length + 1 >= 2 * k > FFT_FACTOR * math.log2(length) * length / n
        for length, k, n in zip(lengths, modes, mesh.shape, strict=True)
    )


#: How many columns of a product cost as much as one butterfly level of a fast transform.
FFT_FACTOR = 28.0


def _padded_length(points: Points, period: float) -> int | None:
    """Points in one period of a uniform axis, or None if they do not fit it evenly."""
    x = np.asarray(points)
    if len(x) < 2:
        return None
    spacing = x[1] - x[0]
    length = round(float(period / spacing))
    if abs(length * spacing - period) > 1e-9 or np.abs(np.diff(x) - spacing).max() > 1e-9 or length < len(x):
        return None
    return length


def _convolve_fft(values: Tensor, weight: Tensor, mesh: Mesh, modes: tuple[int, ...]) -> Tensor:
    """The same by torch.fft: zero-padded to the period, with the phase of the first point, which need not be at 0."""
    values = points_last(values)
    lengths = [_padded_length(points, period) for points, period in zip(mesh.axes, mesh.periods, strict=True)]
    if None in lengths:
        raise ValueError("a fast transform needs uniform axes that fit their periods evenly")
    dims = tuple(range(-len(modes), 0))
    for axis, (points, period) in enumerate(zip(mesh.axes, mesh.periods, strict=True)):
        scale = torch.as_tensor(weights(points, period) / period, dtype=values.dtype, device=values.device)
        values = values * scale.view(-1, *[1] * (len(modes) - 1 - axis))
    spectrum = torch.fft.rfftn(values, s=lengths, dim=dims)
    rows = [*(np.r_[0:k, -np.arange(k)] for k in modes[:-1]), np.arange(modes[-1])]
    kept = spectrum[(..., *np.ix_(*rows))]
    angle = sum(
        np.reshape(2 * np.pi / period * points[0] * k, (-1, *[1] * (len(modes) - 1 - axis)))
        for axis, (points, period, k) in enumerate(zip(mesh.axes, mesh.periods, rows, strict=True))
    )
    phase = torch.as_tensor(np.exp(-1j * np.asarray(angle)), device=values.device).to(kept.dtype)
    # Into the common order of modes, from the last axis to the first, and back.
    backwards = (0, 1, 2, *range(kept.ndim - 1, 2, -1))
    ordered = (kept * phase).permute(backwards)
    mixed = multiply(torch.view_as_real(ordered.flatten(3)).permute(0, 3, 4, 1, 2).contiguous(), weight)
    result = torch.view_as_complex(mixed.permute(0, 3, 4, 1, 2).contiguous())
    full = result.view(*result.shape[:3], *ordered.shape[3:]).permute(backwards) * phase.conj()
    for axis, k in enumerate(modes[:-1]):
        # Both zeros are added up, each with half of its value.
        half = torch.ones(2 * k, *[1] * (len(modes) - 1 - axis), dtype=values.dtype, device=values.device)
        half[0] = half[k] = 0.5
        shape = [*full.shape[: 3 + axis], spectrum.shape[3 + axis], *full.shape[4 + axis :]]
        index = torch.as_tensor(rows[axis] % spectrum.shape[3 + axis], device=values.device)
        full = full.new_zeros(shape).index_add(3 + axis, index, full * half)
    full = _pad(full, spectrum.shape[-1])
    out: Tensor = torch.fft.irfftn(full, s=lengths, dim=dims, norm="forward")
    for axis, n in enumerate(mesh.shape):
        out = out.narrow(axis - len(modes), 0, n)
    return points_first(out).contiguous()


def _pad(values: Tensor, length: int) -> Tensor:
    """Zeros after the last axis up to ``length``."""
    return torch.nn.functional.pad(values, (0, length - values.shape[-1]))
