"""Inputs that are a function and two parameters: a rod with a source, its conductivity and its heat loss."""

import argparse
import tempfile

import numpy as np

import mrafno

rng = np.random.default_rng(0)
x = np.linspace(0, 1, 65)
place = rng.uniform(0.2, 0.8, (200, 1))
sources = np.exp(-(((x - place) / 0.1) ** 2))
parameters = {"conductivity": rng.uniform(0.05, 1.0, 200), "loss": rng.uniform(0.0, 5.0, 200)}


def simulate(f, level, p):
    """Solve -k u'' + c u = f with u = 0 at both ends; p are the parameters in the order of their names."""
    n = f.shape[-1]
    matrix = p[0] * (n - 1) ** 2 * (2 * np.eye(n - 2) - np.eye(n - 2, k=1) - np.eye(n - 2, k=-1)) + p[1] * np.eye(n - 2)
    return np.pad(np.linalg.solve(matrix, f[0, 1:-1]), 1)[None]


task = mrafno.FunctionTask(simulate, sources, ((17,), (65,)), (1.0, 8.0), name="rod", parameters=parameters)
quick = {"initial": 6, "test": 20, "members": 3, "iterations": 150}  # leave it out for a useful surrogate

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", help="write the map of the inputs as a picture, .svg or .png")
    picture = parser.parse_args().picture
    with tempfile.TemporaryDirectory() as folder:
        with mrafno.Run.create(f"{folder}/run", task, **quick) as run:
            print(run.advance(steps=8))
        if picture:
            from mrafno.plot import input_map
            from mrafno.plot.still import write_still

            write_still(input_map(f"{folder}/run"), picture)
            print(f"wrote {picture}")
