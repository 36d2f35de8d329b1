"""A simulator on three-dimensional grids: nothing but the shapes of arrays differs from one or two dimensions."""

import tempfile

import numpy as np
import scipy.fft

from mrafno import FunctionTask, Run

COARSE, FINE = (6, 6, 6), (12, 12, 12)  # a useful surrogate needs finer ones, 8 and 32 for instance


def simulate(f, level):
    """Solve -div grad u = f in a box with u = 0 on its boundary: (1, *grid) to (1, *grid), at cell centres."""
    waves = [4 * n**2 * np.sin(np.pi * np.arange(1, n + 1) / (2 * n)) ** 2 for n in f.shape[1:]]
    spectrum = scipy.fft.dstn(f[0], type=2, norm="ortho") / sum(np.ix_(*waves))
    return scipy.fft.idstn(spectrum, type=2, norm="ortho")


rng = np.random.default_rng(0)
x, y, z = np.meshgrid(*((np.arange(n) + 0.5) / n for n in FINE), indexing="ij")
centres = rng.uniform(0.2, 0.8, (60, 3, 1, 1, 1))
candidates = np.exp(-20 * ((x - centres[:, 0]) ** 2 + (y - centres[:, 1]) ** 2 + (z - centres[:, 2]) ** 2))

task = FunctionTask(
    simulate, candidates, (COARSE, FINE), costs=(1.0, 8.0), layout="cells", zero_boundary=[(True, True)] * 3,
    extent=[(0, 20)] * 3, axis_names=("x", "y", "z"), axis_units=("mm",) * 3,
)  # fmt: skip
quick = {"initial": 4, "test": 5, "members": 2, "iterations": 100}  # seconds; leave it out for a useful surrogate

with tempfile.TemporaryDirectory() as folder, Run.create(f"{folder}/run", task, **quick) as run:
    print(run.advance(steps=4))
    prediction = run.surrogate.predict(candidates[:2, None])
    print(prediction.mean.shape, "mean and std on", task.grids[-1].lengths[0], task.axis_units[0])
