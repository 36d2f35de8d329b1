"""Compares methods on simulations that exist already: nothing is solved again.

The table has 120 inputs of a rod's problem, all solved on the coarse mesh and a third of them on the fine one. A row is
never asked for on a mesh on which it lacks an output.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from mrafno import Run, TableTask
from mrafno.analysis.curves import at_costs, common_costs

SETTINGS = {"initial": 4, "test": 12, "members": 2, "iterations": 60, "evaluate": 2}


def displacement(f: np.ndarray) -> np.ndarray:
    """A rod under a load, clamped at the left end: two sums along its length."""
    step = 1 / (f.shape[-1] - 1)
    force = np.cumsum(f[..., ::-1], axis=-1)[..., ::-1] * step
    return np.cumsum(force, axis=-1) * step


def write_table(path: Path) -> None:
    """Inputs on the fine mesh, outputs on both, the rows of the fine ones, and what each cost."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 65)
    waves = np.array([np.sin(k * np.pi * x) / k for k in range(1, 5)])
    f = (rng.standard_normal((120, 4)) @ waves)[:, None]
    rows = np.sort(rng.choice(120, 40, replace=False))
    np.savez(
        path,
        inputs=f,
        output_0=displacement(f[..., ::4]),
        output_1=displacement(f[rows]),
        rows_1=rows,
        costs=[1.0, 8.0],
    )


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--picture", help="write the errors of both as a picture, .svg or .png")
picture = parser.parse_args().picture
with tempfile.TemporaryDirectory() as folder:
    write_table(Path(folder, "rods.npz"))  # or: mrafno run rods.npz --out runs/rods
    task = TableTask.load(Path(folder, "rods.npz"))
    curves = {}
    for method in ("mra-auto", "random-mix"):
        with Run.create(Path(folder, method), task, method, **SETTINGS) as run:
            print(method, run.advance(steps=8).reason)
            curves[method] = run.state.error_curve("chosen")
    cost = common_costs(list(curves.values()))[-1:]
    for method, curve in curves.items():
        print(f"{method} at cost {cost[0]:.0f}: relative error {at_costs([curve], cost)[0, 0]:.3f}")
    if picture:
        from mrafno.plot import error_against_cost
        from mrafno.plot.still import write_still

        write_still(error_against_cost(*(Path(folder, method) for method in curves), count="chosen"), picture)
        print(f"wrote {picture}")
