"""Small domains and examples whose values tell where they are, for tests of training."""

import math

import numpy as np
import torch

from mrafno.dataset import Dataset, Normaliser
from mrafno.grids import Domain, Grid
from mrafno.surrogate.batches import Batches
from mrafno.surrogate.training import TrainingSettings

SEEDS = [[0, 0], [0, 1], [0, 2]]


def domain_of(*shapes, layout="periodic", inputs=1, outputs=1):
    grids = tuple(Grid(shape, (layout,) * len(shape)) for shape in shapes)
    return Domain(inputs, outputs, grids, ((False, False),) * len(shapes[0]))


def data_of(domain, sizes, seed=0):
    """Every value tells its example and point: ``row + index / 10000``, outputs the negative of it."""
    pairs = []
    for n, grid in zip(sizes, domain.grids, strict=True):
        points = np.arange(math.prod(grid.shape)).reshape(grid.shape) / 10000
        f = np.arange(n).reshape(-1, 1, *[1] * grid.dim) + points[None, None]
        f = np.broadcast_to(f, (n, 1, *grid.shape))
        pairs.append((np.repeat(f, domain.in_channels, 1), -np.repeat(f, domain.out_channels, 1)))
    return Dataset.of(domain, pairs)


UNIT = Normaliser((0.0,), (1.0,), (0.0,), (1.0,))


def batches_of(data, *, held_in=None, seeds=SEEDS, **settings):
    return Batches(data, UNIT, TrainingSettings(**settings), seeds, held_in=held_in, dtype=torch.float64)
