"""Your own simulator in a run: a function, candidate inputs, meshes and costs are all it takes."""

import argparse
import tempfile

import numpy as np

from mrafno import Run
from mrafno.tasks import FunctionTask

x = np.linspace(0, 1, 33)
amplitude, phase = np.random.default_rng(0).uniform(0.5, 2.0, (2, 100, 1))
candidates = amplitude * np.sin(2 * np.pi * x + phase)  # (100, 33): functions on the finest mesh


def simulate(f, level):
    """Solve -u'' = f, u = 0 at both ends, by finite differences: (1, n) to (1, n)."""
    n = f.shape[-1]
    matrix = (n - 1) ** 2 * (2 * np.eye(n - 2) - np.eye(n - 2, k=1) - np.eye(n - 2, k=-1))
    return np.pad(np.linalg.solve(matrix, f[0, 1:-1]), 1)[None]


task = FunctionTask(simulate, candidates, resolutions=(9, 33), costs=(1.0, 16.0), zero_boundary=[(True, True)])
quick = {"initial": 4, "test": 10, "members": 3, "iterations": 100}  # seconds; leave it out for a useful surrogate

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--picture", help="write a test example as a picture, .svg or .png")
picture = parser.parse_args().picture
with tempfile.TemporaryDirectory() as folder, Run.create(f"{folder}/run", task, method="mra-auto", **quick) as run:
    print(run.advance(steps=5))
    for query in run.state.of_kind("pool"):
        print(f"asked for candidate {query.row} on {task.resolutions[query.level][0]} points, cost {query.cost:g}")
    for e in run.state.evaluations:
        print(f"after step {e.step}, cost {e.cost:g}: relative error {e.metrics['relative_l2']:.3f}")
    if picture:
        from mrafno.plot import example
        from mrafno.plot.still import write_still

        write_still(example(run), picture, width=1180)
        print(f"wrote {picture}")
