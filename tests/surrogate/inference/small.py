"""Small domains, examples and surrogates for the tests of inference."""

import math

import numpy as np
import torch

from mrafno.data.dataset import Dataset
from mrafno.grids import Domain, Grid
from mrafno.surrogate import SURROGATES, get_surrogate
from mrafno.surrogate.operator.fno import MemberFNO

TAU = 2 * np.pi
KINDS = tuple(SURROGATES)
SAMPLES = {"ensemble": 3, "point": 1, "dropout": 4, "sgld": 4, "svi": 4}
LINE = Domain(1, 1, (Grid((12,), ("nodes",)), Grid((20,), ("nodes",))), ((False, False),))
PLANE = Domain(2, 3, (Grid((6, 5), ("cells", "periodic")), Grid((9, 8), ("cells", "periodic"))), ((False, False),) * 2)
CIRCLE = Domain(1, 1, (Grid((16,), ("periodic",)), Grid((32,), ("periodic",))), ((False, False),))


def waves(domain, sizes, seed=0):
    """Random waves; outputs are their shifted negatives, an operator that can be fitted."""
    rng = np.random.default_rng(seed)
    pairs = []
    for n, grid in zip(sizes, domain.grids, strict=True):
        x = np.meshgrid(*grid.axes, indexing="ij")
        phase, height = rng.uniform(0, TAU, (n, 1, *[1] * grid.dim)), rng.uniform(0.5, 2, (n, 1, *[1] * grid.dim))
        f, y = (height * np.sin(TAU * sum(x) + phase + shift) for shift in (0.0, 2.0))
        pairs.append((np.repeat(f, domain.in_channels, 1), 3 + 2 * np.repeat(y, domain.out_channels, 1)))
    return pairs


def data_of(domain, sizes=(6, 6), seed=0):
    return Dataset.of(domain, waves(domain, sizes, seed))


def made(kind, domain=LINE, *, iterations=12, seed=0, network=None, training=None, **settings):
    own = {} if kind == "point" else {"members" if kind == "ensemble" else "samples": SAMPLES[kind]}
    small = {"width": 6, "modes": (3, 2)[: domain.dim], "layers": 2, "hidden": 8}
    return get_surrogate(
        kind,
        domain,
        seed=seed,
        network={**small, **(network or {})},
        training={"iterations": iterations, "batch": 6, **(training or {})},
        **{**own, **settings},
    )


def equal(a, b):
    return np.array_equal(a.samples, b.samples) and np.array_equal(a.log_var, b.log_var)


def poisoned(monkeypatch, member, fits=1):
    """Initialise a member with NaN in the first ``fits`` fits."""
    begin, left = MemberFNO.initialise, [fits]

    def initialise(self, seeds):
        begin(self, seeds)
        if left[0]:
            left[0] -= 1
            with torch.no_grad():
                self.layers[0].spectral[member] = math.nan
        return self

    monkeypatch.setattr(MemberFNO, "initialise", initialise)
