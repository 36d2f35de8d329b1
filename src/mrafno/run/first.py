"""The first simulations of a run, before anything is chosen: initial examples, then test examples.

The inputs of initial examples are drawn for them (the design ``random``), or are candidates that are typical of all
(``spread``): the same ones on each level, as the difference between two meshes shows in inputs that were simulated on
both. An initial example that failed too often, or was abandoned, is replaced by a candidate.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from mrafno.data.pool import PoolSizes, RunInputs
from mrafno.grids import Array
from mrafno.run.records import Kind
from mrafno.run.state import RunState
from mrafno.tasks.base import Task

#: Candidates among which a spread design chooses; the pool is in random order.
_AMONG = 1000
#: Norms below this share of a typical one count as equal.
_SMALL = 1e-3


@dataclass(frozen=True)
class First:
    """A simulation that comes before all choices; ``row`` is that of a candidate if it is ``from_pool``."""

    kind: Kind
    level: int
    row: int
    from_pool: bool = False

    def as_entry(self) -> dict[str, Any]:
        """As the ledger has it."""
        entry: dict[str, Any] = {"kind": self.kind, "level": self.level, "row": self.row}
        return {**entry, "from_pool": True} if self.from_pool else entry


def missing_first(state: RunState, task: Task, sizes: PoolSizes, inputs: Callable[[], RunInputs]) -> list[First]:
    """The first simulations that are neither observed nor running; none for which there is no input.

    Args:
        inputs: gives the run's inputs; called only if candidates are needed.
    """
    found: list[First] = []
    own = sizes.initial_levels(task.levels)
    used = state.used_rows("initial")
    open_rows = [row for row in range(len(own)) if row not in used]
    for level, wanted in enumerate(state.settings.initial_of(task.levels)):
        have = [q for q in state.of_kind("initial", "told", "running") if q.level == level]
        rows = [First("initial", level, row) for row in open_rows if own[row] == level]
        missing = max(wanted - len(have), 0)
        if missing > len(rows):
            order = _candidates(state, task, level, inputs())
            rows += [First("initial", level, row, True) for row in islice(order, missing - len(rows))]
        found += rows[:missing]
    used = state.used_rows("test")
    return found + [First("test", task.levels - 1, row) for row in range(sizes.test) if row not in used]


def _candidates(state: RunState, task: Task, level: int, inputs: RunInputs) -> Iterator[int]:
    """Candidates for initial examples of a level, in order: those that failed on this level or below, or that a
    table lacks there, are left out.
    """
    initial, retries = state.of_kind("initial"), state.settings.retries
    here = state.queries.rows_of((q for q in initial if q.from_pool and q.level == level), retries)
    chosen = state.queries.rows_of(state.of_kind("pool"), retries)
    useful = {q.row for q in initial if q.from_pool and q.status in ("told", "running")}
    lost = state.queries.rows_of((q for q in initial if q.from_pool and q.level <= level), retries) - useful
    if state.settings.design == "spread":
        order: Iterator[int] = medoids(_seen(task, inputs))
    else:
        order = iter(row for row in range(len(inputs.pool)) if row not in useful)
    out = here | chosen | lost | state.queries.lost
    if inputs.available is not None:
        out |= set(np.flatnonzero(~inputs.available[:, level]).tolist())
    return (row for row in order if row not in out)


def _seen(task: Task, inputs: RunInputs) -> Array:
    """The first candidates as a spread design compares them: on the coarsest mesh, each channel with variance 1.

    Functions are compared by direction and logarithm of the norm: relative distances, whose inputs may differ by
    decades. Channels that are constant, as parameters are, are compared as numbers.
    """
    values = task.restrict(np.asarray(inputs.pool[:_AMONG]), 0)
    grid = tuple(range(2, values.ndim))
    deviation = values.std(axis=(0, *grid), keepdims=True)
    values = values / np.where(deviation > 0, deviation, 1.0)
    numbers = (np.ptp(values, axis=grid) == 0).all(axis=0)
    constants = values[(slice(None), numbers, *(0 for _ in grid))]
    functions = values[:, ~numbers].reshape(len(values), -1)
    norms = np.linalg.norm(functions, axis=1, keepdims=True)
    if not norms.any():
        return np.asarray(constants)
    norms = np.maximum(norms, _SMALL * np.median(norms[norms > 0]))
    return np.concatenate([functions / norms, np.log(norms), constants], axis=1)


def medoids(points: Array) -> Iterator[int]:
    """All rows of points ``(n, d)``: always the one that most lowers the sum of all distances to the nearest before it.

    So any number of the first ones are typical of all. Extreme ones, which a design of distant points begins with, are
    less so: what is learnt of the difference between two meshes from two of them is worse.

    Reference: Kaufman and Rousseeuw (1990), Finding Groups in Data, the BUILD phase of PAM.
    """
    from scipy.spatial.distance import cdist  # whoever only tells an output does not need SciPy

    distances = cdist(points, points)
    nearest, left = np.full(len(points), distances.max(initial=0.0)), np.ones(len(points), dtype=bool)
    for _ in range(len(points)):
        rows = np.flatnonzero(left)
        row = int(rows[np.argmin(np.minimum(distances[rows], nearest).sum(axis=1))])
        yield row
        left[row] = False
        nearest = np.minimum(nearest, distances[row])
