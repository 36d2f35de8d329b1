"""A field in three dimensions: diffusion in a periodic box, on 6x6x6 and 12x12x12 points; pictures show slices."""

import argparse
import tempfile

import numpy as np
from scipy.ndimage import gaussian_filter

import mrafno

rng = np.random.default_rng(0)
blobs = np.array([gaussian_filter(rng.normal(size=(12, 12, 12)), 1.5, mode="wrap") for _ in range(80)]) * 10


def simulate(f, level):
    """u_t = 0.005 Laplace u until t = 1 in Fourier space: (1, n, n, n) to (1, n, n, n)."""
    n = f.shape[-1]
    wave = 2 * np.pi * np.fft.fftfreq(n, 1 / n)
    square = wave[:, None, None] ** 2 + wave[:, None] ** 2 + wave**2
    return np.fft.ifftn(np.fft.fftn(f[0]) * np.exp(-0.005 * square)).real[None]


task = mrafno.FunctionTask(
    simulate, blobs, ((6, 6, 6), (12, 12, 12)), (1.0, 10.0), name="box", layout=("periodic",) * 3
)  # fmt: skip
quick = {"initial": 4, "test": 8, "members": 3, "iterations": 40}  # leave it out for a useful surrogate

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", help="write a test example as a picture, .svg or .png")
    picture = parser.parse_args().picture
    with tempfile.TemporaryDirectory() as folder:
        with mrafno.Run.create(f"{folder}/run", task, **quick) as run:
            print(run.advance(steps=4))
        if picture:
            from mrafno.plot import example
            from mrafno.plot.still import write_still

            write_still(example(f"{folder}/run"), picture, width=1180)
            print(f"wrote {picture}")
