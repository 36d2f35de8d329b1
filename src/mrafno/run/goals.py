"""What ends an advance of a run, and how its simulations run; both are checked before any work is done."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from mrafno.errors import RunError


@dataclass(frozen=True, kw_only=True)
class Goals:
    """What ends an advance; of several, the first that is reached.

    Attributes:
        steps: chosen examples that the run has in all.
        budget: cost of the chosen examples in all; it is never exceeded.
        target: relative error that the run's own estimate is below; see :attr:`RunState.bound`.
    """

    steps: int | None = None
    budget: float | None = None
    target: float | None = None


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """How simulations run.

    Attributes:
        executor: what runs simulations, or what makes such a thing again when its workers die; None for this process.
        workers: simulations that run at a time in an asynchronous run.
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


def goals_of(steps: int | None, total: int | None, budget: float | None, target: float | None, *, done: int) -> Goals:
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
    return Goals(steps=total if steps is None else done + steps, budget=budget, target=target)


def check_goals(goals: Goals, inference: str) -> None:
    """Raise if a goal cannot be reached."""
    if goals.steps is not None and goals.steps < 0:
        raise RunError(f"run: cannot advance to {goals.steps} steps.")
    if goals.target is not None and inference != "ensemble":
        raise RunError(
            "run: the run estimates its own error by the networks of an ensemble, each of which leaves examples out. "
            f"Leave target out, or choose inference ensemble instead of {inference}."
        )
