"""A field in two dimensions: the steady temperature of a plate with random sources, on 16x16 and 32x32 cells."""

import argparse
import tempfile

import numpy as np
from scipy.fft import dctn, idctn
from scipy.ndimage import gaussian_filter

import mrafno

rng = np.random.default_rng(0)
sources = np.array([gaussian_filter(rng.normal(size=(32, 32)), 3, mode="reflect") for _ in range(120)]) * 30


def simulate(f, level):
    """Solve u - 0.1 (u_xx + u_yy) = f with no flux through the boundary, by cosines: (1, n, n) to (1, n, n)."""
    n = f.shape[-1]
    wave = 2 * n * np.sin(np.pi * np.arange(n) / (2 * n))
    return idctn(dctn(f[0], norm="ortho") / (1 + 0.1 * (wave[:, None] ** 2 + wave**2)), norm="ortho")[None]


task = mrafno.FunctionTask(simulate, sources, ((16, 16), (32, 32)), (1.0, 6.0), name="plate", layout=("cells", "cells"))
quick = {"initial": 4, "test": 10, "members": 3, "iterations": 60}  # leave it out for a useful surrogate

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", help="write a test example as a picture, .svg or .png")
    picture = parser.parse_args().picture
    with tempfile.TemporaryDirectory() as folder:
        with mrafno.Run.create(f"{folder}/run", task, **quick) as run:
            print(run.advance(steps=5))
        if picture:
            from mrafno.plot import example
            from mrafno.plot.still import write_still

            write_still(example(f"{folder}/run"), picture, width=1180)
            print(f"wrote {picture}")
