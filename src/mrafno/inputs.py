"""The input functions of a run: those of its initial examples, its pool of candidates, and its test examples."""

from dataclasses import dataclass

import numpy as np

from mrafno.errors import RunError
from mrafno.examples import make_inputs
from mrafno.grids import Array
from mrafno.settings import RunSettings
from mrafno.tasks.base import Task
from mrafno.tasks.own import CandidateTask


@dataclass(frozen=True)
class RunInputs:
    """Inputs on the finest grid, each ``(n, in_channels, *finest grid)``.

    ``initial`` has the same number for every level, the coarsest level's first.
    """

    initial: Array
    pool: Array
    test: Array

    def of(self, kind: str, row: int) -> Array:
        """One input, ``(in_channels, *finest grid)``."""
        return np.asarray(getattr(self, kind)[row])


def draw(task: Task, settings: RunSettings, seed: int) -> RunInputs:
    """A run's inputs from its task: the same seed gives the same ones, whatever the method."""
    initial = settings.initial * task.levels
    if not isinstance(task, CandidateTask):
        f = make_inputs(task, initial + settings.pool, seed)
        if seed == settings.test_seed:
            raise RunError(f"run: with seed {seed} the test examples would be the initial ones. Choose another seed.")
        test = make_inputs(task, settings.test, settings.test_seed)
        return RunInputs(f[:initial], f[initial:], test)
    have = len(task.inputs)
    if have < initial + settings.test + 1:
        raise RunError(
            f"{task.name}: {have} candidates are too few for {initial} initial examples ({settings.initial} on each of "
            f"{task.levels} meshes), {settings.test} test examples and a pool. Give more inputs, or lower initial or "
            "test."
        )
    f = task.sample(have, seed)
    test_from = have - settings.test
    return RunInputs(f[:initial], f[initial:test_from][: settings.pool], f[test_from:])


def stacked(inputs: RunInputs) -> Array:
    """All of them in one array, to be stored."""
    return np.concatenate([inputs.initial, inputs.pool, inputs.test])


def unstacked(values: Array, task: Task, settings: RunSettings) -> RunInputs:
    """The inverse of :func:`stacked`."""
    initial, test_from = settings.initial * task.levels, len(values) - settings.test
    return RunInputs(values[:initial], values[initial:test_from], values[test_from:])
