"""What ends an advance of a run, and how its simulations run; both are checked before any work is done."""

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from mrafno.errors import RunError
from mrafno.run.spending import Count, check_count
from mrafno.simulation.executors import process_pool
from mrafno.tasks.base import Task


@dataclass(frozen=True, kw_only=True)
class Goals:
    """What ends an advance; of several, the first that is reached.

    Attributes:
        steps: chosen examples that the run has in all.
        budget: cost of the run in all; it is never exceeded.
        count: what the budget covers, see :mod:`mrafno.run.spending`.
        target: relative error that the run's own estimates are below; see :attr:`RunState.bound`.
    """

    steps: int | None = None
    budget: float | None = None
    count: Count = "total"
    target: float | None = None


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """How simulations run.

    Attributes:
        executor: what runs simulations, or what makes such a thing again when its workers die; None for this process,
            or, with two workers or more, for a pool of processes on this machine.
        workers: processes of that pool; with an executor, simulations that run at a time in an asynchronous run.
        asynchronous: ask again as soon as a worker is free, instead of after a whole batch.
        limit: seconds after which a simulation is ended, with everything it started.
        isolate: simulate in child processes, so that a crash is a failed simulation.
        memory: bytes that a simulation may take, in a child process.
        max_failure_rate: share of the simulations that may fail before the run stops.
    """

    executor: Executor | Callable[[], Executor] | None = None
    workers: int = 1
    asynchronous: bool = False
    limit: float | None = None
    isolate: bool = False
    memory: int | None = None
    max_failure_rate: float = 0.5

    def __post_init__(self) -> None:
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 1:
            raise RunError(f"run: workers must be a whole number, 1 or more, got {self.workers!r}.")
        for name, unit in (("limit", "seconds"), ("memory", "bytes")):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise RunError(f"run: {name} must be a positive number of {unit}, or None, got {value!r}.")
        if not (_is_number(self.max_failure_rate) and 0 <= self.max_failure_rate <= 1):
            raise RunError(f"run: max_failure_rate must be a share from 0 to 1, got {self.max_failure_rate!r}.")

    @property
    def runner(self) -> Executor | Callable[[], Executor] | None:
        """What runs simulations; None for this process."""
        if self.executor is None and self.workers > 1:
            return partial(process_pool, self.workers)
        return self.executor


def goals_of(
    steps: int | None,
    total: int | None,
    budget: float | None,
    count: Count,
    target: float | None,
    *,
    done: int,
) -> Goals:
    """Goals from the arguments of :meth:`mrafno.run.run.Run.advance`.

    Args:
        steps: chosen examples from now on; total: in all.
        done: chosen examples that the run has.
    """
    if steps is not None and total is not None:
        raise RunError("run: give steps, which counts from now, or total_steps, which counts from the beginning.")
    for name, value in (("steps", steps), ("total_steps", total)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise RunError(f"run: {name} must be a whole number, 0 or more, got {value!r}.")
    check_count(count)
    return Goals(steps=total if steps is None else done + steps, budget=budget, count=count, target=target)


def check_costs(task: Task) -> None:
    """Raise if a finer mesh costs less than a coarser one: then nothing is to be gained by the coarser one."""
    for level, (coarse, fine) in enumerate(pairwise(task.costs)):
        if fine < coarse:
            meshes = ["x".join(map(str, shape)) for shape in task.resolutions]
            raise RunError(
                f"run: the costs {task.costs} of {task.name} fall: {fine:g} for {meshes[level + 1]} is less than "
                f"{coarse:g} for {meshes[level]}. List costs coarse to fine, as resolutions are; if the finer mesh "
                "does cost less, leave the coarser one out."
            )


def check_goals(goals: Goals, inference: str) -> None:
    """Raise if a goal is no such number, or cannot be reached."""
    if goals.budget is not None and not (_is_number(goals.budget) and goals.budget >= 0):
        raise RunError(f"run: a budget must be a number, 0 or more, or None, got {goals.budget!r}.")
    if goals.target is not None and not (_is_number(goals.target) and goals.target > 0):
        raise RunError(f"run: a target must be a positive relative error, or None, got {goals.target!r}.")
    if goals.target is not None and inference != "ensemble":
        raise RunError(
            "run: the run estimates its own error by the networks of an ensemble, each of which leaves examples out. "
            f"Leave target out, or choose inference ensemble instead of {inference}."
        )


def _is_number(value: Any) -> bool:
    """Whether a value is a real number, infinity included."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
