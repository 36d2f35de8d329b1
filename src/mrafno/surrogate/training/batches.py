"""Minibatches of every level, in a random order per member, and the fold that each member is not trained on."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.errors import SurrogateError
from mrafno.grids import Domain
from mrafno.surrogate.operator.fno import DEFAULT_PADDING
from mrafno.surrogate.operator.spectral import Mesh
from mrafno.surrogate.training.policy import LEAST_FOLD, LEAST_OWN

if TYPE_CHECKING:
    from mrafno.surrogate.training.settings import TrainingSettings

#: The first row of each level is in no fold, so that no member is without examples.
_ALWAYS = 1
#: The same of levels below the finest one, whose first inputs are simulated on the finest one, too: the difference is
#: learnt where both are.
_ALWAYS_COARSE = 2
#: Up to this row, folds of the finest level are every fifth row: the error there is to be known from few examples.
_LARGE_FOLDS, _LARGE_FOLD_BLOCK = 20, 5


def domain_mesh(domain: Domain, level: int, padding: float = DEFAULT_PADDING) -> Mesh:
    """A level's grid with the Fourier period of each axis."""
    return Mesh.of(domain.grids[level].axes, periods(domain, padding))


def periods(domain: Domain, padding: float) -> list[float]:
    """The Fourier period of each axis: 1 if it is periodic, ``padding`` if not."""
    return [1.0 if periodic else padding for periodic in domain.grids[0].periodic]


def taught_levels(sizes: Sequence[int]) -> list[int]:
    """The level as which the examples of each level are learnt.

    One example of a level does not tell the difference of the level from the one below apart from the error of the
    surrogate. It is learnt as one of the nearest coarser level that has examples.
    """
    taught: list[int] = []
    for level, n in enumerate(sizes):
        below = [coarser for coarser in range(level) if sizes[coarser]]
        taught.append(taught[below[-1]] if n < LEAST_OWN and below else level)
    return taught


class Batches:
    """Minibatches of every level; each member draws the examples in its own order and repeats when all are drawn."""

    def __init__(
        self,
        data: Dataset,
        normaliser: Normaliser,
        settings: "TrainingSettings",
        seeds: Sequence[Sequence[int]],
        *,
        padding: float = DEFAULT_PADDING,
        out_of_fold: "OutOfFoldRows | None" = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if not len(data):
            raise SurrogateError("training: there are no examples. Give at least one.")
        self.meshes = [domain_mesh(data.domain, level, padding) for level in range(data.domain.levels)]
        self.strides, self.early_strides = (
            [stride_of(mesh.shape, points) for mesh in self.meshes]
            for points in (settings.points, settings.early_points)
        )
        self.inputs = [torch.as_tensor(normaliser.inputs(f), dtype=dtype, device=device) for f in data.inputs]
        self.outputs = [torch.as_tensor(normaliser.outputs(y), dtype=dtype, device=device) for y in data.outputs]
        #: The level as which those of each level are learnt.
        self.sizes = data.sizes
        self.taught = taught_levels(data.sizes)
        self.levels = [level for level, n in enumerate(data.sizes) if n]
        self.counts = _shares([data.sizes[level] for level in self.levels], settings.batch)
        self.shares = [n / len(data) for n in data.sizes]
        self.values = values_per_example(data)
        self.total_values = float(data.domain.out_channels) * sum(
            n * math.prod(grid.shape) for n, grid in zip(data.sizes, data.domain.grids, strict=True)
        )
        self.orders = [
            [
                _Order(_without(data.sizes[level], out_of_fold[member][level] if out_of_fold else ()), [*seed, level])
                for member, seed in enumerate(seeds)
            ]
            for level in self.levels
        ]
        self.offsets = np.random.default_rng([*seeds[0], len(self.meshes)])

    def points(self, early: bool = False) -> int:
        """Points of all examples of one step of a member."""
        strides = self.early_strides if early else self.strides
        return sum(
            count * math.prod(-(-n // strides[level]) for n in self.meshes[level].shape)
            for level, count in zip(self.levels, self.counts, strict=True)
        )

    def draw(self, early: bool = False) -> Iterator[tuple[int, Mesh, Tensor, Tensor]]:
        """Level, mesh, inputs ``(M, B, in_channels, *grid)`` and outputs of one step, an early one of a fit or not."""
        for level, count, orders in zip(self.levels, self.counts, self.orders, strict=True):
            rows = torch.as_tensor(np.stack([order.take(count) for order in orders]))
            mesh, stride = self.meshes[level], (self.early_strides if early else self.strides)[level]
            f, y = self.inputs[level], self.outputs[level]
            if stride > 1:
                offsets = [int(o) for o in self.offsets.integers(0, stride, size=len(mesh.shape))]
                mesh = mesh.strided(stride, offsets)
                f, y = _strided(f, stride, offsets), _strided(y, stride, offsets)
            yield level, mesh, f[rows], y[rows]


def _strided(values: Tensor, stride: int, offsets: Sequence[int]) -> Tensor:
    for axis, offset in enumerate(offsets):
        values = values.movedim(axis - len(offsets), 0)[offset::stride].movedim(0, axis - len(offsets))
    return values


#: Rows that a network is not trained on, by member and level.
OutOfFoldRows = Sequence[Sequence[NDArray[np.int64]]]


def folds(sizes: Sequence[int], share: float, members: int, seed: int) -> OutOfFoldRows:
    """For each member the rows of each level that it is not trained on; disjoint if 1 / share is at least ``members``.

    Rows are distributed in blocks of 1 / share, each in its own random order, so that rows added later change nothing
    for earlier ones: in warm fits a member is never trained on its out-of-fold rows. The finest level begins with
    shorter blocks.
    """
    result: list[list[NDArray[np.int64]]] = [[np.zeros(0, dtype=np.int64) for _ in sizes] for _ in range(members)]
    if not share:
        return result
    for level, n in enumerate(sizes):
        if n < LEAST_FOLD:
            continue  # a member would be left with one example of the level
        orders = list(_block_orders(n, round(1 / share), level == len(sizes) - 1, [seed, level]))
        for member in range(members):
            rows = np.array([order[member % len(order)] for order in orders], dtype=np.int64)
            first = _ALWAYS if level == len(sizes) - 1 else _ALWAYS_COARSE
            result[member][level] = rows[(rows < n) & (rows >= first)]
    return result


def _block_orders(n: int, block: int, finest: bool, seed: Sequence[int]) -> Iterator[NDArray[np.int64]]:
    """The rows of each block of a level, in random order."""
    start = 0
    while start < n:
        size = min(block, _LARGE_FOLD_BLOCK) if finest and start < _LARGE_FOLDS else block
        yield start + np.random.default_rng([*seed, start]).permutation(size)
        start += size


def _without(size: int, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(size), np.asarray(rows, dtype=np.int64))


class _Order:
    """Rows in random order, reshuffled whenever all have been taken."""

    def __init__(self, rows: NDArray[np.int64], seed: Sequence[int]) -> None:
        self.rows, self.rng = rows, np.random.default_rng(seed)
        self.left: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def take(self, count: int) -> NDArray[np.int64]:
        while len(self.left) < count:
            self.left = np.concatenate([self.left, self.rng.permutation(self.rows)])
        taken, self.left = self.left[:count], self.left[count:]
        return taken


def _shares(sizes: Sequence[int], batch: int) -> list[int]:
    """A batch divided over levels in proportion to their examples, at least one each."""
    return [min(size, max(1, round(batch * size / sum(sizes)))) for size in sizes]


def points_per_step(shapes: Sequence[Sequence[int]], sizes: Sequence[int], settings: "TrainingSettings") -> float:
    """Points of all examples of a step of a member, on average over a fit, whose time they determine.

    Args:
        shapes: of the levels' grids.
        sizes: examples of each level.
    """
    levels = [level for level, n in enumerate(sizes) if n]
    counts = _shares([sizes[level] for level in levels], settings.batch)

    def seen(points: int) -> int:
        strides = [stride_of(shapes[level], points) for level in levels]
        return sum(
            count * math.prod(-(-n // stride) for n in shapes[level])
            for level, count, stride in zip(levels, counts, strides, strict=True)
        )

    early = settings.early_share
    return early * seen(settings.early_points) + (1 - early) * seen(settings.points)


def stride_of(shape: Sequence[int], points: int) -> int:
    """The largest stride that leaves ``points`` points per axis or more; 1 if there are not twice as many."""
    return max(1, min(shape) // points) if points else 1


def values_per_example(data: Dataset) -> list[float]:
    """Output values of an example of each level, divided by the average over all examples."""
    values = [data.domain.out_channels * math.prod(grid.shape) for grid in data.domain.grids]
    average = sum(v * n for v, n in zip(values, data.sizes, strict=True)) / max(len(data), 1)
    return [v / average for v in values]
