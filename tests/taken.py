"""Surrogates with little in them, to be taken home."""

from functools import cache

import numpy as np

from mrafno.data.dataset import Dataset
from mrafno.grids import Domain, Grid
from mrafno.surrogate import get_surrogate

#: Two channels in, two out, on grids that are not square.
DOMAINS = {
    1: Domain(1, 1, (Grid((6,), ("nodes",)), Grid((11,), ("nodes",))), ((False, False),)),
    2: Domain(
        2, 2, (Grid((4, 5), ("cells", "periodic")), Grid((8, 6), ("cells", "periodic"))),
        ((True, False), (False, False)),
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
    """A surrogate that has learnt a little, from inputs far from zero and outputs of two scales."""
    domain, rng = DOMAINS[dim], np.random.default_rng(0)
    examples = []
    for level, grid in enumerate(domain.grids):
        f = 100 + 3 * rng.standard_normal((6, domain.in_channels, *grid.shape))
        examples.append((f, 20 * np.tanh(f - 100) - 1) if level in levels else None)
    network = {"width": 6, "hidden": 8, "modes": (3,) * dim, "layers": 2}
    made = get_surrogate(name, domain, network=network, training={"iterations": 12}, dtype=dtype, **OWN[name])
    made.fit(Dataset.of(domain, examples))
    return made
