r"""A probabilistic multi-resolution Fourier neural operator with a member axis on every tensor.

For an input f with points :math:`x_j` and the resolution's embedding e,

.. math::
    v^0_j &= \mathrm{FFN}(f_j, x_j, e), \qquad
    v^{l+1} = \sigma\left(W_l v^l + b_l + \mathcal F^{-1}(R_l \cdot \mathcal F v^l)\right) \\
    \mu_j &= \mathrm{FFN}(v^L_j) \; \delta(x_j), \qquad
    \eta = \mathrm{FFN}(\text{convolution of } v^L)

where :math:`\delta` vanishes on the boundaries where outputs are known to be zero (and is 1 without such boundaries),
and :math:`\eta` is one log-variance per function. Members are independent networks: their weights are stacked along
the first axis, and one batched product computes all of them. Activations have the shape
``(members, *points, batch, channels)``, which makes both the pointwise maps and the transforms plain matrix products;
see :mod:`mrafno.surrogate.operator.spectral`.

References: Li et al. (2021), Fourier neural operator; Li et al. (2024), section 3.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from mrafno.errors import SurrogateError
from mrafno.surrogate.operator.layers import FourierLayer, Linear, linear_map
from mrafno.surrogate.operator.local_correction import LocalCorrection, interpolate, thin, working_mesh
from mrafno.surrogate.operator.spectral import Mesh, points_first, points_last, product_along, weights

Embedding = Literal["onehot", "positional"]
BoundaryFactor = Literal["saturating", "parabola"]
#: Fourier period of axes that are not periodic, in lengths of the axis.
DEFAULT_PADDING = 1.5
#: Inputs ``(M or 1, B, in_channels, *grid)``, their mesh and the level to predict.
Part = tuple[Tensor, Mesh, int]


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Size and shape of a network: everything that is needed to construct it.

    Attributes:
        modes: Fourier modes per axis.
        periodic: the axes whose coordinate the network sees as sine and cosine, so that it does not jump where the
            period begins again; () for none.
        bins: cells per axis over which the variance branch averages.
        zero_boundary: the (start, end) of each axis where outputs vanish; () for nowhere.
        boundary_factor: the factor that makes outputs vanish there, see :func:`boundary_factor`.
        padding: Fourier period of axes that are not periodic. Functions need not have the same value at both ends of
            a period longer than 1. On burgers and darcy 1.5 had lower errors than 1.25.
        residual: add each layer's input to its output.
        stencil_radius: neighbours to each side that local corrections use; 0 for no corrections. With corrections
            the layers work on points ``spacing`` apart; see :mod:`mrafno.surrogate.operator.local_correction`.
        spacing: distance of the points of the coarsest mesh along each axis.
        correction_width: width of the networks of the local corrections.
    """

    in_channels: int
    out_channels: int
    levels: int
    dim: int
    width: int = 32
    modes: tuple[int, ...] = (16,)
    layers: int = 4
    hidden: int = 128
    periodic: tuple[bool, ...] = ()
    bins: int = 4
    embedding: Embedding = "onehot"
    zero_boundary: tuple[tuple[bool, bool], ...] = ()
    boundary_factor: BoundaryFactor = "saturating"
    padding: float = DEFAULT_PADDING
    residual: bool = False
    stencil_radius: int = 0
    spacing: tuple[float, ...] = ()
    correction_width: int = 64

    def __post_init__(self) -> None:
        if len(self.modes) != self.dim:
            raise SurrogateError(f"network: modes {self.modes} do not fit {self.dim} axes. Give one number per axis.")
        if min(self.modes) < 1:
            raise SurrogateError(f"network: every axis needs 1 mode or more, got {self.modes}.")
        if self.stencil_radius < 0 or (self.stencil_radius and len(self.spacing) != self.dim):
            raise SurrogateError(
                f"network: stencil_radius {self.stencil_radius} with spacing {self.spacing} does not fit {self.dim} "
                "axes. Give a stencil_radius of 0, or 1 or more and one spacing per axis."
            )
        if self.zero_boundary and len(self.zero_boundary) != self.dim:
            raise SurrogateError(
                f"network: zero_boundary {self.zero_boundary} does not fit {self.dim} axes. Give one pair per axis."
            )
        if self.boundary_factor not in get_args(BoundaryFactor):
            raise SurrogateError(
                f"network: unknown boundary_factor {self.boundary_factor!r}. Choose saturating or parabola."
            )
        if self.has_zero_boundary and self.boundary_factor == "saturating" and len(self.spacing) != self.dim:
            raise SurrogateError(
                f"network: spacing {self.spacing} does not fit {self.dim} axes. A saturating boundary_factor needs "
                "the spacing of the coarsest mesh along each axis."
            )
        if self.periodic and len(self.periodic) != self.dim:
            raise SurrogateError(
                f"network: periodic {self.periodic} does not fit {self.dim} axes. Give one value per axis."
            )
        if not self.padding > 1:
            raise SurrogateError(f"network: padding must be more than 1, got {self.padding}. The default is 1.5.")
        if self.embedding not in ("onehot", "positional"):
            raise SurrogateError(f"network: unknown embedding {self.embedding!r}. Choose onehot or positional.")
        for name in ("in_channels", "out_channels", "levels", "width", "layers", "hidden", "bins", "correction_width"):
            if getattr(self, name) < 1:
                raise SurrogateError(f"network: {name} must be 1 or more, got {getattr(self, name)}.")

    @property
    def has_zero_boundary(self) -> bool:
        """Whether outputs vanish at any end of any axis."""
        return any(any(ends) for ends in self.zero_boundary)

    @property
    def coordinates(self) -> int:
        """Numbers that say where a point is."""
        return self.dim + sum(self.periodic)

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> "NetworkSettings":
        """The inverse of :meth:`as_json`."""
        return NetworkSettings(
            **{
                **values,
                "modes": tuple(values["modes"]),
                "zero_boundary": tuple(tuple(pair) for pair in values["zero_boundary"]),
                "spacing": tuple(values.get("spacing", ())),
                "periodic": tuple(values.get("periodic", ())),
            }
        )


class MemberFNO(nn.Module):
    """The network with all weights zero; see :meth:`initialise`."""

    def __init__(self, settings: NetworkSettings, members: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.settings = s = settings
        self.members = members
        #: Scale of the initial level embeddings, from 0, where all are equal, to 1, the scale of any other input.
        self.level_embedding_scale = 1.0

        def linear(inputs: int, outputs: int) -> Linear:
            return Linear(members, inputs, outputs, dtype)

        self.lift_in = linear(s.in_channels + s.coordinates + s.levels, s.width)
        self.lift_out = linear(s.width, s.width)
        self.layers = nn.ModuleList(FourierLayer(members, s.width, s.modes, dtype) for _ in range(s.layers))
        self.mean_in = linear(s.width, s.hidden)
        self.mean_out = linear(s.hidden, s.out_channels)
        self.variance_mix = linear(s.width, 8)
        self.variance_conv = linear(8 * 3**s.dim, 16)
        self.variance_in = linear(16 * s.bins**s.dim, 32)
        self.variance_out = linear(32, 1)
        self.corrections = nn.ModuleList(
            LocalCorrection(members, s.out_channels, s.spacing, s.stencil_radius, s.correction_width, dtype)
            for _ in range(s.levels - 1 if s.stencil_radius else 0)
        )

    def initialise(self, seeds: Sequence[int]) -> "MemberFNO":
        """Random weights; a member depends on its own seed only."""
        for member, seed in enumerate(seeds):
            self.initialise_member(member, seed)
        return self

    def initialise_member(self, member: int, seed: int) -> None:
        """Random weights for one member, the others left as they are."""
        generator = torch.Generator().manual_seed(seed)
        for module in self.modules():
            if isinstance(module, FourierLayer) or (isinstance(module, Linear) and not self._belongs_to_layer(module)):
                module.initialise(member, generator)
        with torch.no_grad():
            self.lift_in.weight[member, :, -self.settings.levels :] *= self.level_embedding_scale
            for correction in self.corrections:
                cast(LocalCorrection, correction).start(member)

    def _belongs_to_layer(self, module: nn.Module) -> bool:
        return any(module is layer.pointwise for layer in self.layers)

    def features(self, f: Tensor, mesh: Mesh, level: int, masks: Sequence[Tensor] | None = None) -> Tensor:
        """Output of the last Fourier layer, ``(M, B, width, *grid)``, for inputs ``(M or 1, B, in_channels, *grid)``.

        ``masks``, one ``(M, B or 1, width)`` per layer, switch channels off (dropout).
        """
        blocks = self._blocks([(f, mesh, level)])
        v = _functions(self._features(blocks, masks), blocks)[0]
        return points_last(interpolate(v, blocks[0].mesh, mesh))

    def _blocks(self, parts: Sequence[Part]) -> list["_Block"]:
        """The parts grouped by the mesh on which the layers work."""
        s = self.settings
        groups: dict[Mesh, list[int]] = {}
        for index, (_, mesh, _) in enumerate(parts):
            worked = working_mesh(mesh, s.spacing)[0] if s.stencil_radius else mesh
            groups.setdefault(worked, []).append(index)
        return [_Block(mesh, indices, [parts[index] for index in indices]) for mesh, indices in groups.items()]

    def _features(self, blocks: Sequence["_Block"], masks: Sequence[Tensor] | None) -> Tensor:
        """Output of the last layer, ``(M, N, width)``, the functions of each block after those of the one before."""
        s = self.settings
        lifted = [self._lifted(block) for block in blocks]
        v: Tensor = self.lift_out(functional.gelu(lifted[0] if len(lifted) == 1 else torch.cat(lifted, dim=1)))
        meshes = [(block.mesh, sum(block.sizes)) for block in blocks]
        for i, layer in enumerate(self.layers):
            update: Tensor = layer(v, meshes)
            if i + 1 < len(self.layers):
                update = functional.gelu(update)
            v = v + update if s.residual else update
            if masks is not None:
                v = _masked(v, masks[i].to(v.dtype), blocks)
        return v

    def _lifted(self, block: "_Block") -> Tensor:
        """The first map of a block's inputs, coordinates and levels, ``(M, N, width)``."""
        s = self.settings
        places = [working_mesh(mesh, s.spacing)[1] if s.stencil_radius else () for _, mesh, _ in block.parts]
        x = points_first(torch.cat([thin(f, at) for (f, _, _), at in zip(block.parts, places, strict=True)], dim=1))
        # Coordinates and level are the same for a whole batch: their part of the first map is computed once.
        values = x.flatten(1, -2).expand(self.members, -1, -1)
        own = linear_map(values, self.lift_in.weight[:, :, : s.in_channels])
        shared = [self._place(block.mesh, level, x).expand(-1, -1, f.shape[1], -1) for f, _, level in block.parts]
        place = shared[0] if len(shared) == 1 else torch.cat(shared, dim=2)
        return (own.view(place.shape) + place).flatten(1, 2)

    def _place(self, mesh: Mesh, level: int, like: Tensor) -> Tensor:
        """The part of the first map due to coordinates and level, ``(M, points, 1, width)``."""
        s, lift = self.settings, self.lift_in
        fixed = []
        for i, (axis, periodic) in enumerate(zip(mesh.axes, s.periodic or (False,) * s.dim, strict=True)):
            x = _along(axis, i, mesh.shape, like)
            fixed += [torch.sin(2 * math.pi * x), torch.cos(2 * math.pi * x)] if periodic else [x]
        fixed += [torch.full_like(fixed[0], value) for value in embed(level, s.levels, s.embedding)]
        place = points_first(torch.stack(fixed)[None, None]).flatten(1, -2).expand(self.members, -1, -1)
        weight = lift.weight[:, :, s.in_channels :].transpose(1, 2)
        return torch.baddbmm(lift.bias.transpose(1, 2), place, weight)[:, :, None]

    def forward(
        self, f: Tensor, mesh: Mesh, level: int, masks: Sequence[Tensor] | None = None, detach_variance: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Mean ``(M, B, out_channels, *grid)`` and log-variance ``(M, B)``; inputs ``(M or 1, B, in_channels, *grid)``.

        With ``detach_variance`` the gradient of the variance branch does not reach the shared layers.
        """
        return self.together([(f, mesh, level)], masks, detach_variance)[0]

    def together(
        self, parts: Sequence[Part], masks: Sequence[Tensor] | None = None, detach_variance: bool = False
    ) -> list[tuple[Tensor, Tensor]]:
        """The same for several batches in one pass of the layers, whatever their meshes."""
        blocks = self._blocks(parts)
        v = self._features(blocks, masks)
        means = _functions(self.mean_out(functional.gelu(self.mean_in(v))), blocks)
        log_vars = self._log_variances(v.detach() if detach_variance else v, blocks)
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for block, mean, log_var in zip(blocks, means, log_vars, strict=True):
            split = zip(_split(mean, block.sizes, -2), _split(log_var, block.sizes, 1), strict=True)
            for index, (_, mesh, level), (one, its_log_var) in zip(block.indices, block.parts, split, strict=True):
                fine = self._refined(interpolate(one, block.mesh, mesh), mesh, level)
                found[index] = points_last(fine), its_log_var
        return [found[index] for index in range(len(parts))]

    def _refined(self, mean: Tensor, mesh: Mesh, level: int) -> Tensor:
        """The mean with zero boundaries, and with the local corrections of each level up to ``level``."""
        s = self.settings
        factor = points_first(boundary_factor(mesh, s, mean)[None, None, None]) if s.has_zero_boundary else None
        mean = mean if factor is None else mean * factor
        for correction in self.corrections[:level]:
            correction = correction(mean, mesh)
            mean = mean + (correction if factor is None else correction * factor)
        return mean

    def _log_variances(self, v: Tensor, blocks: Sequence["_Block"]) -> Sequence[Tensor]:
        """Channels mixed, averaged over ``bins`` cells per axis (so that any grid will do), convolved, and an FFN."""
        s = self.settings
        pooled = []
        for x, block in zip(_functions(self.variance_mix(v), blocks), blocks, strict=True):
            for axis in range(s.dim):
                x = product_along(x, pooling_matrix(block.mesh, axis, s.bins, v.dtype, v.device), axis)
            pooled.append(x)
        x = pooled[0] if len(pooled) == 1 else torch.cat(pooled, dim=-2)
        padded = functional.pad(x, (0, 0, 0, 0, *(1, 1) * s.dim))
        shifts = itertools.product(range(3), repeat=s.dim)
        patches = [_window(padded, shift, s.bins) for shift in shifts]
        x = functional.gelu(self.variance_conv(torch.cat(patches, dim=-1)))  # (M, *bins, B, 16)
        log_var: Tensor = self.variance_out(functional.gelu(self.variance_in(points_last(x).flatten(2))))
        return _split(log_var[..., 0], [sum(block.sizes) for block in blocks], 1)


@dataclass(frozen=True)
class _Block:
    """Batches whose layers work on one mesh: their places in a list of parts, and themselves."""

    mesh: Mesh
    indices: list[int]
    parts: list[Part]

    @property
    def sizes(self) -> list[int]:
        """Inputs of each batch."""
        return [f.shape[1] for f, _, _ in self.parts]


def _functions(values: Tensor, blocks: Sequence[_Block]) -> list[Tensor]:
    """Values ``(M, N, C)`` as the functions ``(M, *points, B, C)`` of each block."""
    shapes = [(*block.mesh.shape[::-1], sum(block.sizes)) for block in blocks]
    parts = _split(values, [math.prod(shape) for shape in shapes], 1)
    return [part.reshape(len(part), *shape, part.shape[-1]) for part, shape in zip(parts, shapes, strict=True)]


def _split(values: Tensor, sizes: list[int], axis: int) -> Sequence[Tensor]:
    """Like ``torch.split``, but all of it as it is: when torch.export traces, its size is symbolic."""
    return [values] if len(sizes) == 1 else torch.split(values, sizes, axis)


def _masked(v: Tensor, mask: Tensor, blocks: Sequence[_Block]) -> Tensor:
    """Values ``(M, N, C)`` times a mask ``(M, B or 1, C)`` of the channels of each function."""
    if mask.shape[1] == 1:
        return v * mask  # of all functions; torch.export would refuse to reshape products of a symbolic size
    masked = [
        (part * one.view(len(one), *[1] * (part.ndim - 3), *one.shape[1:])).flatten(1, -2)
        for part, one in zip(
            _functions(v, blocks), _split(mask, [sum(block.sizes) for block in blocks], 1), strict=True
        )
    ]
    return masked[0] if len(masked) == 1 else torch.cat(masked, dim=1)


def embed(level: int, levels: int, kind: Embedding) -> list[float]:
    """A resolution as ``levels`` numbers: one-hot, or sines and cosines of its position (Vaswani et al., 2017)."""
    if kind == "onehot":
        return [float(i == level) for i in range(levels)]
    return [
        (math.sin if i % 2 == 0 else math.cos)(level / 100 ** ((i // 2 * 2) / max(levels, 1))) for i in range(levels)
    ]


def boundary_factor(mesh: Mesh, settings: NetworkSettings, like: Tensor) -> Tensor:
    r"""A function on the mesh's grid that is zero at every marked end of an axis.

    ``saturating``: the product of :math:`1 - e^{-d/h}` over the marked ends, with d the distance to the end and h the
    spacing of the coarsest mesh, so it is nearly 1 a few coarse cells away and leaves thin layers alone.
    ``parabola``: :math:`4 x (1 - x)` if both ends are marked, else x or 1 - x; what checkpoints before format 3 use.
    """
    factor = torch.ones(mesh.shape, dtype=like.dtype, device=like.device)
    for axis, (start, end) in enumerate(settings.zero_boundary):
        x = _along(mesh.axes[axis], axis, mesh.shape, like)
        distances = [distance for marked, distance in ((start, x), (end, 1 - x)) if marked]
        if settings.boundary_factor == "parabola":
            factor = factor * 4 if len(distances) == 2 else factor
        else:
            distances = [-torch.expm1(-distance / settings.spacing[axis]) for distance in distances]
        for distance in distances:
            factor = factor * distance
    return factor


@lru_cache(maxsize=512)
def pooling_matrix(mesh: Mesh, axis: int, bins: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Matrix ``(bins, points)`` of averages over equal cells of an axis, by the points' quadrature weights."""
    points = torch.tensor(mesh.axes[axis], dtype=torch.float64)
    weight = torch.as_tensor(weights(mesh.axes[axis], mesh.periods[axis]))
    cell = (points * bins).floor().clamp(0, bins - 1).long()
    matrix = functional.one_hot(cell, bins).double().T * weight
    # On a grid with fewer points than cells some cells are empty: their average is zero.
    return (matrix / matrix.sum(1, keepdim=True).clamp_min(1e-12)).to(dtype=dtype, device=device)


def _window(values: Tensor, starts: Sequence[int], size: int) -> Tensor:
    """``size`` points of each axis of functions ``(M, *points, B, C)``, from its start on."""
    for axis, start in enumerate(starts):
        values = values.narrow(values.ndim - 3 - axis, start, size)
    return values


def _along(points: Sequence[float], axis: int, shape: Sequence[int], like: Tensor) -> Tensor:
    """Coordinates of one axis, spread over the grid."""
    view = [1] * len(shape)
    view[axis] = len(points)
    return torch.tensor(points, dtype=like.dtype, device=like.device).view(view).expand(*shape)
