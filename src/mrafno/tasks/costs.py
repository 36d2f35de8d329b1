"""Measures the cost of a solve on each mesh, and the distance of coarse solutions from fine ones.

    python -m mrafno.tasks.costs [TASK ...] [--solves 100] [--batch 1]

Unless --batch is given, solves are timed ONE AT A TIME, by the wall clock: that is the cost in active learning, which
asks for one simulation after another. Batches are faster per solve, most of all on coarse meshes, so their ratio is a
different one. All levels are solved for one input before the next, so that a change of the machine's speed affects all.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from mrafno.errors import TaskError
from mrafno.grids import Array, relative_l2, resample
from mrafno.tasks.base import Task
from mrafno.tasks.registry import TASKS, get_task

#: The paper's cost of one solve on each of its meshes, the coarsest being 1.
PUBLISHED: dict[str, tuple[float, ...]] = {
    "burgers": (1.0, 41.2),
    "darcy": (1.0, 38.3),
    "darcy3": (1.0, 21.3, 38.3),
    "diffusion": (1.0, 17.6),
    "navier-stokes": (1.0, 7.0),
}


@dataclass(frozen=True)
class MeasuredCosts:
    """Means over single solves, one entry per level, coarse to fine."""

    seconds: tuple[float, ...]  #: per solve
    bias: tuple[float, ...]  #: relative L2 distance from the finest solution, on the level's own grid
    solves: int
    batch: int  #: how many were solved together

    @property
    def ratios(self) -> tuple[float, ...]:
        """Costs in units of the coarsest level's."""
        return tuple(s / self.seconds[0] for s in self.seconds)


def measure_costs(
    task: Task,
    f: Array,
    *,
    batch: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    watch: Callable[[Iterable[Array]], Iterable[Array]] = iter,
) -> MeasuredCosts:
    """Solve inputs ``f`` (on the finest grid) on every level, ``batch`` at a time.

    The finest solution is moved to a coarse grid by :func:`mrafno.grids.grid.resample`; where the fine grid contains
    the coarse one, as for burgers, that picks the shared nodes. ``watch`` wraps the batches, to show progress.
    """
    if not len(f):
        raise TaskError(f"{task.name}: costs are means over solves, and no inputs were given.")
    for level in range(task.levels):  # the first solve also pays for tables and plans that later ones reuse
        task.solve(task.restrict(f[:1], level), level)
    seconds = np.zeros(task.levels)
    bias = np.zeros(task.levels)
    for some in watch([f[i : i + batch] for i in range(0, len(f), batch)]):
        outputs = []
        for level in range(task.levels):
            restricted = task.restrict(some, level)
            start = clock()
            outputs.append(task.solve(restricted, level))
            seconds[level] += clock() - start
        for level, y in enumerate(outputs):
            bias[level] += relative_l2(y, resample(outputs[-1], task.grids[-1], task.grids[level])).sum()
    n = len(f)
    return MeasuredCosts(tuple((seconds / n).tolist()), tuple((bias / n).tolist()), n, batch)


def cost_table(results: dict[str, tuple[Task, MeasuredCosts]]) -> Table:
    """Measured costs as a table, one row per task and level."""
    measured = next(iter(results.values()))[1]
    how = "one at a time" if measured.batch == 1 else f"{measured.batch} at a time"
    table = Table(title=f"Cost of one solve, means over {measured.solves} solves, {how}")
    for heading in ("task", "mesh", "ms", "cost ratio", "published", "distance from finest"):
        table.add_column(heading, justify="left" if heading == "task" else "right")
    for name, (task, measured) in results.items():
        for level, shape in enumerate(task.resolutions):
            finest = level == task.levels - 1
            table.add_row(
                "" if level else name,
                "x".join(map(str, shape)),
                f"{1e3 * measured.seconds[level]:.2f}",
                f"{measured.ratios[level]:.1f}",
                f"{PUBLISHED[name][level]:g}" if name in PUBLISHED else "",
                "" if finest else f"{measured.bias[level]:.2%}",
                end_section=finest,
            )
    return table


def report(names: Sequence[str], solves: int, console: Console, batch: int = 1) -> None:
    """Measure the built-in tasks with these names (all if none is named) and print the table."""
    if solves < 1 or batch < 1:
        raise TaskError(f"costs: cannot measure {solves} solves, {batch} at a time. Give 1 or more.")
    tasks = {name: get_task(name) for name in (names or TASKS)}
    notes = Console(stderr=True)
    results = {}
    for name, task in tasks.items():
        f = task.sample(solves)

        def watch(batches: Iterable[Array], label: str = name) -> Iterable[Array]:
            return track(batches, description=label, console=notes, transient=True, disable=not notes.is_terminal)

        results[name] = (task, measure_costs(task, f, batch=batch, watch=watch))
    console.print(cost_table(results))


def main() -> None:
    """Entry point of ``python -m mrafno.tasks.costs``."""
    parser = argparse.ArgumentParser(prog="python -m mrafno.tasks.costs", description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"any of {', '.join(TASKS)}; all if none is named")
    parser.add_argument("--solves", type=int, default=100, help="solves per mesh (default: 100)")
    parser.add_argument("--batch", type=int, default=1, help="how many to solve together (default: 1)")
    arguments = parser.parse_args()
    try:
        report(arguments.tasks, arguments.solves, Console(), arguments.batch)
    except TaskError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
