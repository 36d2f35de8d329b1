"""Small domains and examples whose values tell where they are, for tests of training."""

import math

import numpy as np
import torch

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.grids import Domain, Grid
from mrafno.surrogate.operator.fno import MemberFNO, NetworkSettings
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.settings import TrainingSettings

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


def batches_of(data, *, out_of_fold=None, seeds=SEEDS, **settings):
    return Batches(data, UNIT, TrainingSettings(**settings), seeds, out_of_fold=out_of_fold, dtype=torch.float64)


def smooth_data(domain, sizes, seed=0):
    rng = np.random.default_rng(seed)
    pairs = []
    for n, grid in zip(sizes, domain.grids, strict=True):
        angle = 2 * np.pi * (grid.axes[0] + rng.uniform(size=(n, 1, 1)))
        pairs.append((np.sin(angle), np.cos(angle)))
    return Dataset.of(domain, pairs)


def network_and_batches(loss, seeds=(1, 2), **settings):
    domain = domain_of((8,), (12,))
    data = smooth_data(domain, (4, 3))
    batches = Batches(
        data,
        Normaliser.fit(data),
        TrainingSettings(batch=4, loss=loss, **settings),
        SEEDS[: len(seeds)],
        dtype=torch.float64,
    )
    network = MemberFNO(
        NetworkSettings(in_channels=1, out_channels=1, levels=2, dim=1, width=4, modes=(3,), layers=2, hidden=4),
        len(seeds),
        torch.float64,
    )
    return network.initialise(seeds), batches
