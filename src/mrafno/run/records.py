"""What a ledger records: queries and what became of them, fits, measurements."""

from dataclasses import dataclass, field
from typing import Any, Literal, Self

from mrafno.acquisition.level_errors import LevelErrors
from mrafno.analysis.estimate import Estimate
from mrafno.errors import printable
from mrafno.run.spending import Count, Spent
from mrafno.storage.arrays import ArrayFile
from mrafno.tasks.base import LARGEST

#: Names that version 0.1 wrote into "trained" events.
_EARLIER_NAMES = {
    "held_in_error": "out_of_fold_error",
    "held_in_bound": "out_of_fold_bound",
    "surprises": "prequential_errors",
}

Kind = Literal["initial", "pool", "test"]
Status = Literal["running", "told", "failed", "abandoned", "expired"]


@dataclass(slots=True)
class QueryRecord:
    """A query and what became of it.

    Attributes:
        row: index among the inputs of its kind; of kind ``pool``, the candidate.
        step: of kind ``pool``, which choice it was, from 1.
        from_pool: of kind ``initial``, whether its input is a candidate: then row is the candidate.
        expires: when it can be asked for again if there is no answer, in seconds since the epoch.
        choice: what the choice rested on: score, costs, and the best score of every level.
        cost: what it cost, in the task's unit, also if it failed; seconds: how long it took.
        measured: how many measurements there were when it was told.
        imported: whether it was simulated before the run began.
        message: name of the message that brought the answer, if another process left one.
        delivered: whether whoever asked for it has said that the input arrived.
        damaged: which of its arrays ("input", "output") were damaged and taken out of use.
    """

    id: str
    kind: Kind
    level: int
    row: int
    step: int | None
    input: ArrayFile
    asked: float
    expires: float | None = None
    choice: dict[str, Any] = field(default_factory=dict)
    status: Status = "running"
    output: ArrayFile | None = None
    cost: float = 0.0
    seconds: float | None = None
    reason: str | None = None
    answered: float | None = None
    measured: int = 0
    imported: bool = False
    message: str | None = None
    from_pool: bool = False
    delivered: bool = False
    damaged: tuple[str, ...] = ()

    @property
    def candidate(self) -> int | None:
        """Index of its input in the pool; None if it is not from there."""
        return self.row if self.kind == "pool" or self.from_pool else None

    @property
    def standing(self) -> str:
        """Its status in words; whether anybody is at it is not the query's to know."""
        return "not answered" if self.status == "running" else self.status


@dataclass(frozen=True)
class Training:
    """A fit: which queries it added, and how it ended.

    Its ``kind`` is that of :mod:`mrafno.surrogate.training.policy`. ``prequential_errors`` are
    the relative errors on the added examples before the surrogate was trained on them. ``estimate`` is what the run
    knew of its error then. ``best`` is the number of the fit, from 1, whose surrogate predicts in place of this one,
    because the fits since made it clearly worse; None if this one does. ``level_errors`` are what each level
    contributes to the error; None for a single network.
    """

    added: tuple[str, ...]
    step: int
    loss: float | None
    out_of_fold_error: float | None
    shift: float
    seconds: float
    prequential_errors: dict[str, float]
    events: tuple[str, ...] = ()
    kind: Literal["scratch", "refit", "update"] = "refit"
    estimate: Estimate | None = None
    best: int | None = None
    level_errors: LevelErrors | None = None

    @classmethod
    def recorded(cls, added: list[str], events: list[str], *, first: bool, **data: Any) -> Self:
        """A fit as its event has it, also one of an earlier version.

        Args:
            first: whether it is the first one of its run.
        """
        data = {_EARLIER_NAMES.get(name, name): value for name, value in data.items()}
        if "kind" not in data:  # version 0.1
            update, from_scratch = data.pop("brief", False), data.pop("anew", first)
            data["kind"] = "update" if update else "scratch" if from_scratch else "refit"
        data.pop("out_of_fold_bound", None)  # version 0.2
        estimate = data.pop("estimate", None)
        data["estimate"] = None if estimate is None else Estimate(**estimate)
        levels = data.pop("level_errors", None)
        data["level_errors"] = None if levels is None else LevelErrors.recorded(levels)
        return cls(added=tuple(added), events=tuple(events), **data)


@dataclass(frozen=True)
class Evaluation:
    """Metrics on the test examples after a step; None is no finite number.

    Attributes:
        cost: of the chosen examples by then, as it was recorded.
        spent: costs by purpose by then, as the replay of the ledger has them.
    """

    step: int
    cost: float
    metrics: dict[str, Any]
    seconds: float
    spent: Spent = field(default_factory=Spent)

    def cost_of(self, count: Count) -> float:
        """What had been spent by then, by a way of counting."""
        return self.cost if count == "chosen" else self.spent.counted(count)


def printable_values(values: Any) -> Any:
    """JSON values with all their texts printable: those of somebody else may command a terminal."""
    if isinstance(values, str):
        return printable(values)
    if isinstance(values, dict):
        return {name: printable_values(value) for name, value in values.items()}
    return [printable_values(value) for value in values] if isinstance(values, list) else values


def check_amounts(cost: float, seconds: float | None) -> None:
    """Raise ValueError for what no writer has written: JSON has numbers that are no float, or infinite."""
    if not 0 <= cost <= LARGEST or not (seconds is None or 0 <= seconds <= LARGEST):
        raise ValueError(f"a cost of {cost} or {seconds} seconds")
