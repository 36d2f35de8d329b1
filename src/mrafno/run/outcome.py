"""How an advance of a run ended."""

from dataclasses import dataclass
from typing import Any

from mrafno.run.notebook import table
from mrafno.run.spending import Spent
from mrafno.run.state import RunState


@dataclass(frozen=True)
class Outcome:
    """Why a run stopped, and where it stands. Printed, it is a sentence.

    Attributes:
        reason: why it stopped, ``finished 5 steps`` for example.
        steps: chosen examples that are observed, in all.
        spent: what all simulations of the run have cost, by purpose.
        error: relative L2 error at the last evaluation on test examples; None if there was none.
        estimate: the run's own estimate of its error; None if there is none.
        warnings: what a person should know of the run and of what its result is worth.
    """

    reason: str
    steps: int
    spent: Spent
    error: float | None = None
    estimate: float | None = None
    warnings: tuple[str, ...] = ()

    @staticmethod
    def of(state: RunState, reason: str) -> "Outcome":
        """The outcome of a run in this state."""
        last = state.measurements[-1].metrics["relative_l2"] if state.measurements else None
        return Outcome(reason, state.step, state.spent, last, state.estimate, tuple(state.warnings.values()))

    @property
    def cost(self) -> float:
        """What the run has cost in all."""
        return self.spent.total

    def __str__(self) -> str:
        text = f"{self.reason}: cost {self.spent}"
        if self.error is not None:
            return f"{text}; relative error {self.error:.3g} on test examples"
        return text if self.estimate is None else f"{text}; estimated relative error {self.estimate:.3g}"

    def _repr_html_(self) -> str:
        rows = {"stopped because": self.reason, "steps": self.steps, "cost": str(self.spent)}
        if self.error is not None:
            rows["relative error on test examples"] = f"{self.error:.3g}"
        if self.estimate is not None:
            rows["the run's own estimate"] = f"{self.estimate:.3g}"
        if self.warnings:
            rows["warnings"] = " ".join(self.warnings)
        return table("Outcome", rows)


def figures(state: RunState) -> dict[str, Any]:
    """Where a run stands, as the rows of a table."""
    outcome = Outcome.of(state, "")
    rows: dict[str, Any] = {"task": state.task["name"], "method": state.method, "steps": state.step}
    rows["cost"] = str(state.spent)
    if outcome.error is not None:
        rows["relative error on test examples"] = f"{outcome.error:.3g}"
    if outcome.estimate is not None:
        rows["the run's own estimate"] = f"{outcome.estimate:.3g}"
    return rows
