"""Your own simulator in twenty lines: a function, candidate inputs, meshes and costs."""

import numpy as np

from mrafno.tasks import FunctionTask

x = np.linspace(0, 1, 65)
amplitude, phase = np.random.default_rng(0).uniform(0.5, 2.0, (2, 200, 1))
candidates = amplitude * np.sin(2 * np.pi * x + phase)  # (200, 65): functions on the finest mesh


def simulate(f, level):
    """Solve -u'' = f, u = 0 at both ends, by finite differences: (1, n) to (1, n)."""
    n = f.shape[-1]
    matrix = (n - 1) ** 2 * (2 * np.eye(n - 2) - np.eye(n - 2, k=1) - np.eye(n - 2, k=-1))
    return np.pad(np.linalg.solve(matrix, f[0, 1:-1]), 1)[None]


task = FunctionTask(simulate, candidates, resolutions=(17, 65), costs=(1.0, 16.0), zero_boundary=[(True, True)])

f = task.sample(5, seed=0)
coarse, fine = task.solve(task.restrict(f, 0), 0), task.solve(f, 1)
print("coarse and fine differ by", f"{np.abs(coarse - fine[..., ::4]).max() / np.abs(fine).max():.2%}")
