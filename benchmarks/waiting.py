"""A task whose simulations wait: a module of its own, so that workers import no more than they need."""

import time

import numpy as np

from mrafno import FunctionTask
from mrafno.grids import Array
from mrafno.tasks import Burgers

SHAPES = ((17,), (65,))


def problem() -> Burgers:
    """A quick one."""
    return Burgers(resolutions=SHAPES, viscosity=0.02)


class Waiting:
    """Solves it after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, f: Array, level: int) -> Array:
        time.sleep(self.seconds)
        return np.asarray(problem().solve(f[None], level)[0])


def task_of(seconds: float) -> FunctionTask:
    """The problem with simulations that wait."""
    return FunctionTask(Waiting(seconds), problem().sample(400, seed=0), SHAPES, problem().costs, name="waiting")
