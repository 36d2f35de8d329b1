"""The input functions of a run: those of its initial examples, its pool of candidates, and its test examples."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mrafno.data.cache import make_inputs
from mrafno.errors import MrafnoWarning, RunError
from mrafno.grids import Array
from mrafno.tasks.base import Task
from mrafno.tasks.candidates import CandidateTask
from mrafno.tasks.rows import DrawnRows, JoinedRows, Rows, blocks, select

#: Candidates of a task that can draw any number of inputs.
ENDLESS_POOL = 990
#: Inputs are the same if they differ by less than this share of their largest value; points that are compared first.
_SAME, _PROBES = 1e-6, 16
#: Numbers in a pool of a built-in task above which its inputs are drawn when they are needed: 256 MB.
_MOST_NUMBERS = 32_000_000


@dataclass(frozen=True)
class PoolSizes:
    """How many inputs a run needs.

    Attributes:
        initial: examples of every level to begin with, or of each level, imported ones included; those whose inputs
            are candidates are not among them.
        pool: candidates; a task with fewer gives what it has. None for all that were given, and :data:`ENDLESS_POOL`
            of a task that can draw any number.
        test: test examples on the finest level.
        test_seed: seed of the test inputs, of a task that can draw any number.
        imported: examples of each level that were simulated before; empty if there are none.
    """

    initial: int | tuple[int, ...]
    pool: int | None
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
    ``available`` says which candidates can be simulated on which level, ``(pool, levels)``; None if all can.
    """

    initial: Array
    pool: Rows
    test: Array
    imported: tuple[Array, ...] = ()
    available: NDArray[np.bool_] | None = None

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
    if not isinstance(task, CandidateTask) or task.inputs is None:
        return _endless(task, sizes, seed, imported, initial)
    rows: NDArray[np.int64] = np.random.default_rng(seed).permutation(len(task.inputs))
    candidates = select(task.inputs, rows)
    if any(counts):
        rows = rows[~_among(candidates, imported, task)]
        candidates = select(task.inputs, rows)
    have = len(rows)
    if have < initial + sizes.test + 1:
        known = f" that are not among the imported examples ({len(task.inputs) - have} are)" if any(counts) else ""
        raise RunError(
            f"{task.name}: {have} candidates{known} are too few for {initial} initial examples "
            f"(initial={sizes.initial}, {task.levels} meshes), {sizes.test} test examples and a pool. Give more "
            "inputs, or lower initial or test."
        )
    if task.available is not None:
        return _from_table(task, rows, sizes, imported)
    return _divided(candidates, initial, sizes, imported)


def _from_table(
    task: CandidateTask, order: NDArray[np.int64], sizes: PoolSizes, imported: Sequence[Array]
) -> RunInputs:
    """Inputs of a table: each initial and test example has an output, and each candidate one on some level."""
    available, finest = task.available, task.levels - 1
    assert available is not None, "it is a table"
    marked = task.test_rows
    tests = [row for row in order[::-1] if available[row, finest]] if marked is None else list(marked)
    if len(tests) < sizes.test:
        raise RunError(
            f"{task.name}: there are {len(tests)} rows for tests, test={sizes.test} asks for more. Lower test."
        )
    tests = tests[: sizes.test]
    # Rows that are marked as tests are never trained on, however many are used.
    rest = np.setdiff1d(order, tests if marked is None else marked)
    rest = order[np.isin(order, rest)]
    initial: list[int] = []
    for level in replace(sizes, imported=tuple(map(len, imported))).initial_levels(task.levels):
        free = rest[available[rest, level]]
        if not len(free):
            raise RunError(
                f"{task.name}: there are too few rows with an output on level {level} for {sizes.initial} initial "
                "examples. Lower initial or test."
            )
        # Of those that will do, one with the fewest outputs: the others serve on other levels too.
        row = int(free[np.argmin(available[free].sum(axis=1))])
        initial.append(row)
        rest = rest[rest != row]
    pool = rest[available[rest].any(axis=1)][: sizes.pool]
    if not len(pool):
        raise RunError(f"{task.name}: no rows are left for a pool. Lower initial or test.")
    first, last = (np.asarray(task.inputs[np.array(rows, dtype=np.int64)]) for rows in (initial, tests))
    return RunInputs(first, select(task.inputs, pool), last, tuple(imported), available[pool])


def _endless(task: Task, sizes: PoolSizes, seed: int, imported: Sequence[Array], initial: int) -> RunInputs:
    """Inputs of a task that can draw any number of them."""
    pool = ENDLESS_POOL if sizes.pool is None else sizes.pool
    if seed == sizes.test_seed:
        raise RunError(f"run: with seed {seed} the test examples would be the initial ones. Choose another seed.")
    f = _sampled(task, initial + pool + sum(map(len, imported)), seed)
    if any(map(len, imported)):
        f = select(f, np.flatnonzero(~_among(f, imported, task)))
    test = np.asarray(_sampled(task, sizes.test, sizes.test_seed))
    if same := int(_among(test, imported, task).sum()):
        raise RunError(
            f"run: {same} of the test inputs are among the imported examples. Choose another test_seed (now "
            f"{sizes.test_seed}), so that no test example is trained on."
        )
    return RunInputs(f[:initial], _part(f, initial, initial + pool), test, tuple(imported))


def _sampled(task: Task, n: int, seed: int) -> Rows:
    """The first n inputs of a task; many large ones are drawn when they are needed."""
    if isinstance(task, CandidateTask):
        return task.sample(n, seed)
    shape = (n, task.in_channels, *task.resolutions[-1])
    if math.prod(shape) <= _MOST_NUMBERS:
        return make_inputs(task, n, seed)
    return DrawnRows(lambda indices: task.sample_at(indices, seed), shape)


def _divided(f: Rows, initial: int, sizes: PoolSizes, imported: Sequence[Array]) -> RunInputs:
    """Inputs that follow one another: initial ones, the pool, and from the end the test ones."""
    test_from = len(f) - sizes.test
    given = test_from - initial
    kept = given if sizes.pool is None else min(sizes.pool, given)
    pool = _part(f, initial, initial + kept)
    return RunInputs(f[:initial], pool, f[test_from:], tuple(imported))


def check_pool(task: Task, sizes: PoolSizes, inputs: RunInputs) -> None:
    """Warn if a setting keeps fewer candidates than were given."""
    if not isinstance(task, CandidateTask) or task.inputs is None or len(inputs.pool) != sizes.pool:
        return
    given = len(task.inputs) - len(inputs.initial) - len(inputs.test)
    if given > len(inputs.pool):
        text = (
            f"{task.name}: of {len(task.inputs)} inputs {len(inputs.initial)} are initial and {len(inputs.test)} test "
            f"examples; of the other {given} the setting pool={sizes.pool} keeps {len(inputs.pool)} as candidates. "
            "Leave pool out to keep all."
        )
        warnings.warn(text, MrafnoWarning, stacklevel=5)


def _part(f: Rows, start: int, stop: int) -> Rows:
    """Some rows that follow one another, of an array in memory a view."""
    return f[start:stop] if isinstance(f, np.ndarray) else select(f, np.arange(start, min(stop, len(f))))


def _among(f: Rows, imported: Sequence[Array], task: Task) -> NDArray[np.bool_]:
    """Which of the inputs, on the finest grid, are among the imported ones, up to single precision: ``(n,)``."""
    found = np.zeros(len(f), dtype=bool)
    for level, known in enumerate(imported):
        if not len(known):
            continue
        for part, values in blocks(f):
            found[part] |= same_inputs(task.restrict(values, level), known).any(axis=1)
    return found


def same_inputs(f: Array, known: Array) -> NDArray[np.bool_]:
    """Which of ``(n, ...)`` are which of ``(m, ...)`` up to single precision: ``(n, m)``."""
    here, found = f.reshape(len(f), -1), np.zeros((len(f), len(known)), dtype=bool)
    some = slice(None, None, max(1, here.shape[1] // _PROBES))
    for column, one in enumerate(known.reshape(len(known), -1)):
        close = _SAME * np.abs(one).max()
        near = np.flatnonzero((np.abs(here[:, some] - one[some]) <= close).all(axis=1))
        found[near[(np.abs(here[near] - one) <= close).all(axis=1)], column] = True
    return found


def stacked(inputs: RunInputs) -> Rows:
    """All inputs on the finest grid, one after another, to be stored."""
    return JoinedRows([inputs.initial, inputs.pool, inputs.test])


def unstacked(values: Rows, task: Task, sizes: PoolSizes, imported: Sequence[Array] = ()) -> RunInputs:
    """The inverse of :func:`stacked`."""
    counts = tuple(len(f) for f in imported)
    initial = len(replace(sizes, imported=counts).initial_levels(task.levels))
    return _divided(values, initial, replace(sizes, pool=None), imported)
