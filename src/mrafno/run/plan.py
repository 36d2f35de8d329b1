"""What a run is going to simulate and what that costs, before anything is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mrafno.data.pool import PoolSizes
from mrafno.errors import RunError
from mrafno.run.first import First
from mrafno.run.goals import Goals, check_costs
from mrafno.run.settings import RunSettings
from mrafno.run.spending import Spent, counts
from mrafno.tasks.base import Task


@dataclass(frozen=True)
class PlannedPart:
    """Simulations of one kind on one mesh, each at the same price."""

    kind: str
    level: int
    number: int
    price: float

    @property
    def cost(self) -> float:
        """Of all of them."""
        return self.number * self.price


@dataclass(frozen=True)
class Plan:
    """The first simulations of a run, and how many choices the goals leave. Printed, it is a table.

    Attributes:
        first: simulations before all choices, those already made left out.
        meshes: names of the levels.
        prices: of one simulation on each level.
        goals: what ends the run.
        spent: what was spent before.
        steps: choices that were made before.
    """

    first: tuple[PlannedPart, ...]
    meshes: tuple[str, ...]
    prices: tuple[float, ...]
    goals: Goals
    spent: Spent
    steps: int

    @staticmethod
    def of(
        task: Task,
        first: Sequence[First],
        goals: Goals,
        *,
        prices: Sequence[float],
        spent: Spent | None = None,
        steps: int = 0,
    ) -> "Plan":
        """The plan of these first simulations."""
        groups: dict[tuple[str, int], int] = {}
        for one in first:
            groups[one.kind, one.level] = groups.get((one.kind, one.level), 0) + 1
        parts = tuple(PlannedPart(kind, level, n, prices[level]) for (kind, level), n in groups.items())
        meshes = tuple("x".join(map(str, shape)) for shape in task.resolutions)
        return Plan(parts, meshes, tuple(prices), goals, spent or Spent(), steps)

    @staticmethod
    def of_new(task: Task, settings: RunSettings, goals: Goals, given: Sequence[int] = ()) -> "Plan":
        """The plan of a run that does not exist yet; raises :class:`RunError` for costs that a run refuses.

        Args:
            settings: resolved for the task.
            given: imported examples of each level.
        """
        check_costs(task)
        wanted = PoolSizes(settings.initial_of(task.levels), 1, 0, 0, tuple(given))
        first = [First("initial", level, row) for row, level in enumerate(wanted.initial_levels(task.levels))]
        first += [First("test", task.levels - 1, row) for row in range(settings.test or 0)]
        return Plan.of(task, first, goals, prices=task.costs)

    @property
    def first_cost(self) -> float:
        """Of the first simulations, as far as the goals count them."""
        return math.fsum(part.cost for part in self.first if counts(part.kind, self.goals.count))

    @property
    def left(self) -> float | None:
        """What the budget leaves for choices; None without a budget."""
        if self.goals.budget is None:
            return None
        return math.fsum((self.goals.budget, -self.spent.counted(self.goals.count), -self.first_cost))

    @property
    def choices(self) -> tuple[int | None, ...]:
        """How many choices there are at most if all are on one level, by level; None for no limit."""
        steps = None if self.goals.steps is None else max(self.goals.steps - self.steps, 0)
        if self.left is None:
            return (steps,) * len(self.prices)
        fits = [max(math.floor(self.left / price), 0) for price in self.prices]
        return tuple(n if steps is None else min(n, steps) for n in fits)

    def check(self) -> None:
        """Raise :class:`RunError` if the budget is too small for the first simulations."""
        if self.left is None or self.left >= 0 or not self.first:
            return
        budget, listed = self.goals.budget, ", ".join(map(self._said, self.first))
        before = f" {self.spent.counted(self.goals.count):g} is spent already." if self.spent.total else ""
        raise RunError(
            f"run: the budget of {budget:g} is too small for the first simulations, which cost {self.first_cost:g}: "
            f"{listed}.{before} Give a larger budget, or fewer initial or test examples, or let the budget cover less "
            "(count, --count)."
        )

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "first": [
                {"kind": p.kind, "mesh": self.meshes[p.level], "number": p.number, "price": p.price, "cost": p.cost}
                for p in self.first
            ],
            "first_cost": math.fsum(part.cost for part in self.first),
            "budget": self.goals.budget,
            "count": self.goals.count,
            "steps": self.goals.steps,
            "spent": self.spent.as_json(),
            "left_for_choices": self.left,
            "most_choices": dict(zip(self.meshes, self.choices, strict=True)),
        }

    def __str__(self) -> str:
        lines = [
            f"{part.kind:8} {part.number:6} on {self.meshes[part.level]:12} {part.cost:12g}" for part in self.first
        ]
        lines += [f"{'first simulations':30} {math.fsum(part.cost for part in self.first):12g}"]
        lines += [f"spent before: {self.spent}"] if self.spent.total else []
        if self.left is not None:
            lines += [f"{'left of the budget for choices':30} {max(self.left, 0):12g}"]
        for mesh, n, price in zip(self.meshes, self.choices, self.prices, strict=True):
            most = "any number" if n is None else f"at most {n}"
            lines += [f"choices: {most} on {mesh}, at {price:g} each"]
        return "\n".join(lines)

    def _said(self, part: PlannedPart) -> str:
        return f"{part.number} {part.kind} on {self.meshes[part.level]} for {part.cost:g}"
