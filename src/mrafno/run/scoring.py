"""Inputs on the scoring grid: of a large pool in a file of the run's folder, which can be made again at any time."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mrafno.data.pool import RunInputs
from mrafno.grids import Array, Grid, resample
from mrafno.storage.large_arrays import map_scratch, write_scratch
from mrafno.storage.layout import SCORING
from mrafno.tasks.base import Task
from mrafno.tasks.rows import ConstantRows, JoinedRows, MappedRows, Rows, blocks, constant_values

#: Numbers in a pool, on the finest grid, up to which it is resampled in memory: 256 MB.
_MOST_NUMBERS = 32_000_000


def scoring_grid(task: Task, points: int) -> Grid:
    """The coarsest level's grid, with fewer points per axis if the grid has more than ``points`` in all.

    Gram matrices and distances are integrals over the domain, which a few hundred points give well enough.
    """
    shape = task.resolutions[0]
    most = max(2, int(points ** (1 / len(shape)) + 1e-9))
    return task.grids[0].resized(tuple(min(n, most) for n in shape))


def scored_inputs(task: Task, inputs: RunInputs, grid: Grid, folder: Path | None = None) -> Rows:
    """Inputs on the scoring grid: those of the pool, then of initial, then of imported examples.

    Args:
        folder: the run's, where those of a large pool are kept in single precision; None to keep them in memory.
    """
    fine = task.grids[-1]
    every = [(inputs.initial, fine), *zip(inputs.imported, task.grids, strict=False)]  # of all levels or of none
    others = [resample(f, source, grid, task.interpolation) for f, source in every]
    if len(task.parameters) == task.in_channels:
        numbers = constant_values(inputs.pool, task.parameters, task.name)
        return JoinedRows([ConstantRows(numbers, grid.shape), *others])
    if math.prod(inputs.pool.shape) <= _MOST_NUMBERS:
        pool = resample(np.asarray(inputs.pool), fine, grid, task.interpolation)
        return np.concatenate([pool, *others])
    shape = (len(inputs.pool), task.in_channels, *grid.shape)

    def moved() -> Iterator[Array]:
        for _, values in blocks(inputs.pool):
            yield resample(values, fine, grid, task.interpolation)

    if folder is None:
        kept = np.empty(shape, dtype=np.float32)
        start = 0
        for values in moved():
            kept[start : start + len(values)] = values
            start += len(values)
        return JoinedRows([kept, *others])
    name = f"pool-{'x'.join(map(str, shape))}"
    mapped = map_scratch(folder / SCORING, name, shape)
    if mapped is None:
        write_scratch(folder / SCORING, name, shape, moved())
        mapped = map_scratch(folder / SCORING, name, shape)
    assert mapped is not None, "it was just written"
    return JoinedRows([MappedRows(mapped), *others])
