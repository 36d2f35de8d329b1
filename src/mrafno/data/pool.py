"""The input functions of a run: those of its initial examples, its pool of candidates, and its test examples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrafno.data.cache import make_inputs
from mrafno.errors import RunError
from mrafno.grids import Array
from mrafno.run.settings import RunSettings
from mrafno.tasks.base import Task
from mrafno.tasks.candidates import CandidateTask

#: Inputs are the same if they differ by less than this share of their largest value; points that are compared first.
_SAME, _PROBES = 1e-6, 16


@dataclass(frozen=True)
class RunInputs:
    """Inputs on the finest grid, each ``(n, in_channels, *finest grid)``.

    ``initial`` are those to be simulated, the coarsest level's first, see :func:`initial_levels`. ``given`` are those
    that somebody has simulated already, one array ``(n, in_channels, *level's grid)`` per level, or nothing at all.
    """

    initial: Array
    pool: Array
    test: Array
    given: tuple[Array, ...] = ()

    def of(self, kind: str, row: int) -> Array:
        """One input, ``(in_channels, *finest grid)``."""
        return np.asarray(getattr(self, kind)[row])


def initial_levels(settings: RunSettings, levels: int, given: Sequence[int] = ()) -> list[int]:
    """The level of each initial example that is to be simulated; given ones, so many of each level, count as such."""
    return [level for level in range(levels) for _ in range(settings.initial - (given[level] if given else 0))]


def draw(task: Task, settings: RunSettings, seed: int, given: Sequence[Array] = ()) -> RunInputs:
    """A run's inputs from its task: the same seed gives the same ones, whatever the method.

    Args:
        given: inputs of examples that are there already, ``(n, in_channels, *level's grid)`` of each level. None of
            them is drawn again, whatever for.
    """
    counts = [len(f) for f in given]
    initial = len(initial_levels(settings, task.levels, counts))
    if not isinstance(task, CandidateTask):
        f = make_inputs(task, initial + settings.pool + sum(counts), seed)
        f = f[~_among(f, given, task)][: initial + settings.pool]
        if seed == settings.test_seed:
            raise RunError(f"run: with seed {seed} the test examples would be the initial ones. Choose another seed.")
        test = make_inputs(task, settings.test, settings.test_seed)
        if same := int(_among(test, given, task).sum()):
            raise RunError(
                f"run: {same} of the test inputs are among the given examples. Choose another test_seed (now "
                f"{settings.test_seed}), so that what is measured on was not learnt from."
            )
        return RunInputs(f[:initial], f[initial:], test, tuple(given))
    f = task.sample(len(task.inputs), seed)
    f = f[~_among(f, given, task)]
    have = len(f)
    if have < initial + settings.test + 1:
        known = f" that are not among the given examples ({len(task.inputs) - have} are)" if any(counts) else ""
        raise RunError(
            f"{task.name}: {have} candidates{known} are too few for {initial} initial examples ({settings.initial} on "
            f"each of {task.levels} meshes), {settings.test} test examples and a pool. Give more inputs, or lower "
            "initial or test."
        )
    test_from = have - settings.test
    return RunInputs(f[:initial], f[initial:test_from][: settings.pool], f[test_from:], tuple(given))


def _among(f: Array, given: Sequence[Array], task: Task) -> NDArray[np.bool_]:
    """Which of the inputs, on the finest grid, are among the given ones, up to single precision: ``(n,)``."""
    found = np.zeros(len(f), dtype=bool)
    for level, known in enumerate(given):
        if not len(known) or not len(f):
            continue
        here = task.restrict(f, level).reshape(len(f), -1)
        some = slice(None, None, max(1, here.shape[1] // _PROBES))
        for one in known.reshape(len(known), -1):
            close = _SAME * np.abs(one).max()
            near = np.flatnonzero((np.abs(here[:, some] - one[some]) <= close).all(axis=1))
            found[near[(np.abs(here[near] - one) <= close).all(axis=1)]] = True
    return found


def stacked(inputs: RunInputs) -> Array:
    """All that is on the finest grid in one array, to be stored."""
    return np.concatenate([inputs.initial, inputs.pool, inputs.test])


def unstacked(values: Array, task: Task, settings: RunSettings, given: Sequence[Array] = ()) -> RunInputs:
    """The inverse of :func:`stacked`."""
    initial = len(initial_levels(settings, task.levels, [len(f) for f in given]))
    test_from = len(values) - settings.test
    return RunInputs(values[:initial], values[initial:test_from], values[test_from:], tuple(given))
