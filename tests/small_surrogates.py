"""Surrogates for tests of exports: tiny ones of every kind of inference, and default ones on the grids of tasks."""

from functools import cache

import numpy as np

from mrafno.data.dataset import Dataset
from mrafno.grids import Domain, Grid
from mrafno.surrogate import get_surrogate
from mrafno.tasks import get_task

#: One channel or two in and out, on grids that are not square.
DOMAINS = {
    1: Domain(1, 1, (Grid((6,), ("nodes",)), Grid((11,), ("nodes",))), ((False, False),)),
    2: Domain(
        2, 2, (Grid((4, 5), ("cells", "periodic")), Grid((8, 6), ("cells", "periodic"))),
        ((True, False), (False, False)),
    ),
    3: Domain(
        2, 2, (Grid((3, 4, 4), ("cells", "periodic", "nodes")), Grid((6, 6, 5), ("cells", "periodic", "nodes"))),
        ((True, True), (False, False), (False, True)),
    ),
}  # fmt: skip
OWN = {
    "ensemble": {"members": 3},
    "dropout": {"samples": 4},
    "sgld": {"samples": 3},
    "svi": {"samples": 3},
    "point": {},
}


@cache
def surrogate(name="ensemble", dim=1, dtype="float32", levels=(0, 1)):
    """A tiny surrogate, trained for a few iterations on inputs far from zero and outputs of two scales."""
    domain, rng = DOMAINS[dim], np.random.default_rng(0)
    examples = []
    for level, grid in enumerate(domain.grids):
        f = 100 + 3 * rng.standard_normal((6, domain.in_channels, *grid.shape))
        examples.append((f, 20 * np.tanh(f - 100) - 1) if level in levels else None)
    network = {"width": 6, "hidden": 8, "modes": (3, 2)[dim > 2 :][:1] * dim, "layers": 2}
    made = get_surrogate(name, domain, network=network, training={"iterations": 12}, dtype=dtype, **OWN[name])
    made.fit(Dataset.of(domain, examples))
    return made


@cache
def full_size_surrogate(task_name):
    """The default ensemble on a built-in task's own grids, trained for a few iterations on made-up outputs."""
    task = get_task(task_name)
    inputs = [task.restrict(task.sample(6, seed=0), level) for level in range(task.levels)]
    made = get_surrogate("ensemble", task.domain, training={"iterations": 4})
    made.fit(Dataset.of(task.domain, [(f, 1 + np.cumsum(f, axis=-1) / f.shape[-1]) for f in inputs]))
    return made


def random_inputs(surrogate, level, n, seed=5):
    """Single-precision inputs ``(n, in_channels, *grid)`` with the mean and spread of the training inputs."""
    scale, domain = surrogate.normaliser.as_json(), surrogate.domain
    mean, std = (np.reshape(scale[name], (-1, *[1] * domain.dim)) for name in ("in_mean", "in_std"))
    draws = np.random.default_rng(seed).standard_normal((n, domain.in_channels, *domain.grids[level].shape))
    return (mean + std * draws).astype(np.float32)
