"""A simulator of parameters only: three numbers in, a temperature profile along a cooling fin out."""

import tempfile

import numpy as np

from mrafno import FunctionTask, Run

rng = np.random.default_rng(0)
parameters = {
    "conductivity": 10 ** rng.uniform(-1, 2, 120),  # over three decades: the surrogate sees its logarithm
    "convection": 10 ** rng.uniform(-1, 1, 120),
    "base": rng.uniform(60, 100, 120),
}


def simulate(parameters, level):
    """Solve k T'' = h T, T = base at one end and no flux at the other, by finite differences: (3,) to (n,)."""
    conductivity, convection, base = parameters
    n = (9, 65)[level]
    step = 1 / (n - 1)
    matrix = np.diag(np.full(n, 2 + step**2 * convection / conductivity)) - np.eye(n, k=1) - np.eye(n, k=-1)
    matrix[-1, -2] = -2  # the same temperature on both sides of the end
    matrix[0], right = np.eye(n)[0], np.zeros(n)
    right[0] = base
    return np.linalg.solve(matrix, right)


task = FunctionTask(
    simulate, parameters=parameters, resolutions=(9, 65), costs=(1.0, 20.0), axis_names=("s",), axis_units=("m",),
    output_name="temperature",
)  # fmt: skip
quick = {"initial": 6, "test": 20, "members": 3, "iterations": 300}  # seconds; leave it out for a useful surrogate

with tempfile.TemporaryDirectory() as folder, Run.create(f"{folder}/run", task, **quick) as run:
    print(run.advance(steps=5))
    for query in run.state.of_kind("pool"):
        values = run.query(query).parameters
        print(f"{query.id} on level {query.level}:", ", ".join(f"{name} {value:.3g}" for name, value in values.items()))
    fin = {"conductivity": [0.5, 5.0, 50.0], "convection": 2.0, "base": 80.0}
    prediction = run.surrogate.predict(parameters=fin)
    for mean, std in zip(prediction.mean, prediction.std, strict=True):
        print(f"temperature at the end: {mean[0, -1]:.1f} +- {std[0, -1]:.1f}")
