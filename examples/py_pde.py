"""A simulator from py-pde: reaction and diffusion on a periodic square, coarse and fine.

py-pde's values are those at the centres of cells, and its axis is periodic: that is the layout ``periodic-cells``.
``make examples-solvers`` installs py-pde and runs this.
"""

import tempfile
from functools import cache

import numpy as np
import pde

from mrafno import FunctionTask, Run

SIZE = 8.0
MESHES = ((8, 8), (32, 32))
QUICK = {"initial": 3, "test": 4, "members": 2, "iterations": 40}  # leave it out for a useful surrogate


def patterns(n, seed):
    """Smooth periodic fields between -1 and 1, on the centres of the fine mesh's cells."""
    x = 2 * np.pi * (np.arange(MESHES[-1][0]) + 0.5) / MESHES[-1][0]
    a, b = np.random.default_rng(seed).uniform(-np.pi, np.pi, (2, n, 1, 1))
    return np.sin(x[:, None] + a) * np.cos(x + b)


@cache
def problem(level):
    """Mesh and equation; made once, because py-pde compiles an equation when it first solves it."""
    grid = pde.CartesianGrid([(0, SIZE)] * 2, MESHES[level], periodic=True)
    return grid, pde.PDE({"c": "0.2 * laplace(c) + c - c**3"})


def simulate(f, level):
    """The Allen-Cahn equation at t = 1 from the field f, (1, n, n) to (1, n, n)."""
    grid, equation = problem(level)
    state = equation.solve(pde.ScalarField(grid, f[0]), t_range=1.0, dt=0.01, backend="numpy", tracker=None)
    return state.data[None]


task = FunctionTask(
    simulate, patterns, MESHES, costs=(1.0, 16.0), layout="periodic-cells", name="allen-cahn", version="1"
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, Run.create(f"{folder}/run", task, pool=40, **QUICK) as run:
        print(run.advance(steps=3))
