"""Trajectories: time is an axis of the outputs. The input, a load, has no time and is repeated along it."""

import tempfile
from pathlib import Path

import numpy as np

from mrafno import FunctionTask, Run
from mrafno.plot.axes import Axes
from mrafno.plot.fields import prediction_figure

SHAPES = ((9, 11), (17, 41))  # points in space, and in time: the coarse simulation takes coarse steps too

x = np.linspace(0, 1, SHAPES[-1][0])
weights = np.random.default_rng(0).normal(size=(80, 3, 1))
loads = np.sum(weights * np.sin(np.pi * np.arange(1, 4)[:, None] * x), axis=1)  # (80, 17)


def simulate(f, level):
    """A damped string that is pulled by f: (1, nx) to (1, nx, nt), leapfrog steps."""
    nx, nt = SHAPES[level]
    parts = 4 * nx  # small steps between the recorded ones
    step = 1.0 / ((nt - 1) * parts)
    before, now, recorded = np.zeros(nx), np.zeros(nx), [np.zeros(nx)]
    for number in range((nt - 1) * parts):
        force = np.zeros(nx)
        force[1:-1] = (nx - 1) ** 2 * np.diff(now, 2) + 10 * f[0, 1:-1] - 3 * (now - before)[1:-1] / step
        before, now = now, 2 * now - before + step**2 * force
        if (number + 1) % parts == 0:
            recorded.append(now)
    return np.stack(recorded, axis=-1)[None]


task = FunctionTask(
    simulate, loads, SHAPES, costs=(1.0, 12.0), input_axes=(0,), axis_names=("x", "t"), axis_units=("m", "s"),
    input_name="load", output_name="displacement", zero_boundary=[(True, True), (True, False)],
)  # fmt: skip
quick = {"initial": 5, "test": 5, "members": 2, "iterations": 150}  # seconds; leave it out for a useful surrogate

with tempfile.TemporaryDirectory() as folder, Run.create(f"{folder}/run", task, **quick) as run:
    print(run.advance(steps=4))
    f = task.sample(1, seed=5)  # (1, 1, 17, 41): the load at all times
    truth, prediction = task.solve(f, 1), run.surrogate.predict(f)
    page = Path(folder, "trajectory.html")
    prediction_figure(Axes.of_task(task), f[0], truth[0], prediction.mean[0], prediction.std[0]).write_html(page)
    middle = [values[0, 0, 8, ::10] for values in (truth, prediction.mean)]
    for name, values in zip(("simulated", "predicted"), middle, strict=True):
        print(f"{name} displacement of the middle at 0, 0.25, ... s:", " ".join(f"{value:.2f}" for value in values))
    print(f"a page of {page.stat().st_size >> 10} kB shows input, truth, prediction and error over x (m) and t (s)")
