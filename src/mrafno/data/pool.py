"""The input functions of a run: those of its initial examples, its pool of candidates, and its test examples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mrafno.data.cache import make_inputs
from mrafno.errors import RunError
from mrafno.grids import Array
from mrafno.tasks.base import Task
from mrafno.tasks.candidates import CandidateTask

#: Inputs are the same if they differ by less than this share of their largest value; points that are compared first.
_SAME, _PROBES = 1e-6, 16


@dataclass(frozen=True)
class PoolSizes:
    """How many inputs a run needs.

    Attributes:
        initial: examples of every level to begin with, or of each level, imported ones included; those whose inputs
            are candidates are not among them.
        pool: candidates; a task with fewer gives what it has.
        test: test examples on the finest level.
        test_seed: seed of the test inputs, of a task that can draw any number.
        imported: examples of each level that were simulated before; empty if there are none.
    """

    initial: int | tuple[int, ...]
    pool: int
    test: int
    test_seed: int
    imported: tuple[int, ...] = ()

    def initial_levels(self, levels: int) -> list[int]:
        """The level of each initial example that is to be simulated, of ``levels`` levels."""
        have = self.imported or (0,) * levels
        wanted = (self.initial,) * levels if isinstance(self.initial, int) else self.initial
        return [level for level in range(levels) for _ in range(wanted[level] - have[level])]


@dataclass(frozen=True)
class RunInputs:
    """Inputs on the finest grid, each ``(n, in_channels, *finest grid)``.

    ``initial`` are those to be simulated, the coarsest level's first, see :meth:`PoolSizes.initial_levels`.
    ``imported`` are those that were simulated before, one array ``(n, in_channels, *level's grid)`` per level, or none.
    """

    initial: Array
    pool: Array
    test: Array
    imported: tuple[Array, ...] = ()

    def of(self, kind: str, row: int) -> Array:
        """One input, ``(in_channels, *finest grid)``."""
        return np.asarray(getattr(self, kind)[row])


def draw(task: Task, sizes: PoolSizes, seed: int, imported: Sequence[Array] = ()) -> RunInputs:
    """A run's inputs from its task: the same seed gives the same ones, whatever the method.

    Args:
        imported: inputs of examples that were simulated before, ``(n, in_channels, *level's grid)`` of each level. None
            of them is drawn again.
    """
    counts = [len(f) for f in imported]
    initial = len(replace(sizes, imported=tuple(counts)).initial_levels(task.levels))
    if not isinstance(task, CandidateTask):
        f = make_inputs(task, initial + sizes.pool + sum(counts), seed)
        f = f[~_among(f, imported, task)][: initial + sizes.pool]
        if seed == sizes.test_seed:
            raise RunError(f"run: with seed {seed} the test examples would be the initial ones. Choose another seed.")
        test = make_inputs(task, sizes.test, sizes.test_seed)
        if same := int(_among(test, imported, task).sum()):
            raise RunError(
                f"run: {same} of the test inputs are among the imported examples. Choose another test_seed (now "
                f"{sizes.test_seed}), so that no test example is trained on."
            )
        return RunInputs(f[:initial], f[initial:], test, tuple(imported))
    f = task.sample(len(task.inputs), seed)
    f = f[~_among(f, imported, task)]
    have = len(f)
    if have < initial + sizes.test + 1:
        known = f" that are not among the imported examples ({len(task.inputs) - have} are)" if any(counts) else ""
        raise RunError(
            f"{task.name}: {have} candidates{known} are too few for {initial} initial examples "
            f"(initial={sizes.initial}, {task.levels} meshes), {sizes.test} test examples and a pool. Give more "
            "inputs, or lower initial or test."
        )
    test_from = have - sizes.test
    return RunInputs(f[:initial], f[initial:test_from][: sizes.pool], f[test_from:], tuple(imported))


def _among(f: Array, imported: Sequence[Array], task: Task) -> NDArray[np.bool_]:
    """Which of the inputs, on the finest grid, are among the imported ones, up to single precision: ``(n,)``."""
    found = np.zeros(len(f), dtype=bool)
    for level, known in enumerate(imported):
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
    """All inputs on the finest grid in one array, to be stored."""
    return np.concatenate([inputs.initial, inputs.pool, inputs.test])


def unstacked(values: Array, task: Task, sizes: PoolSizes, imported: Sequence[Array] = ()) -> RunInputs:
    """The inverse of :func:`stacked`."""
    counts = tuple(len(f) for f in imported)
    initial = len(replace(sizes, imported=counts).initial_levels(task.levels))
    test_from = len(values) - sizes.test
    return RunInputs(values[:initial], values[initial:test_from], values[test_from:], tuple(imported))
