"""A person's own task, as it was when the run beside it was made."""

import numpy as np

from mrafno.tasks import FunctionTask

x = np.linspace(0, 1, 33)
a, b = np.random.default_rng(5).uniform(1, 4, (2, 40, 1))
inputs = a * np.sin(b * np.pi * x)


def simulate(f, level):
    """Solve -u'' = f with u = 0 at both ends, by finite differences."""
    if level == 0 and 2.25 < f[0, 8] < 2.35:
        raise ArithmeticError("no convergence")
    n = f.shape[-1]
    matrix = (n - 1) ** 2 * (2 * np.eye(n - 2) - np.eye(n - 2, k=1) - np.eye(n - 2, k=-1))
    return np.pad(np.linalg.solve(matrix, f[0, 1:-1]), 1)[None]


task = FunctionTask(simulate, inputs, (9, 33), (1.0, 8.0), name="rod", zero_boundary=[(True, True)])
