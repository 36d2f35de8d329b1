"""Costs that nobody declares: the run learns what each mesh costs from the seconds that its simulations take."""

import tempfile
import time
from pathlib import Path

import numpy as np

import mrafno


def simulate(f, level):
    """A stand-in for a simulator that is ten times slower on the fine mesh: a running mean, (1, n) to (1, n)."""
    time.sleep((0.005, 0.05)[level])
    return np.cumsum(f, axis=-1) / f.shape[-1]


x, frequencies = np.linspace(0, 1, 33), np.random.default_rng(0).uniform(1, 6, (60, 1))
task = mrafno.FunctionTask(simulate, np.cos(frequencies * x), resolutions=(9, 33), costs="measured", name="mean")

if __name__ == "__main__":
    quick = {"members": 2, "iterations": 20}  # leave out for a useful surrogate
    with mrafno.Run.create(Path(tempfile.mkdtemp()) / "run", task, **quick) as run:
        print(run.plan(steps=4))  # before anything is known, prices are the ratio of the numbers of grid points
        run.advance(steps=4)
        print("seconds of a simulation:", ", ".join(f"{price:.3f}" for price in run.prices))
        print(f"spent: {run.spent}")
