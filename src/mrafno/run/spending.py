"""What a run has spent: on initial, chosen and test examples, and on simulations without use.

Everything that was simulated for a run counts. What is compared or limited can be counted in three ways:

============  ====================================================================================================
count         what it has
============  ====================================================================================================
``total``     everything: initial, chosen and test examples, and failed simulations
``training``  the same without test examples: what the surrogate itself has cost
``chosen``    chosen examples alone, as Li et al. (2024) count
============  ====================================================================================================
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Literal, get_args

from mrafno.errors import RunError, hint

if TYPE_CHECKING:  # an evaluation has a Spent
    from mrafno.run.records import QueryRecord

Count = Literal["total", "training", "chosen"]
#: The smallest positive float is two to the power of minus this.
_BITS = 1074
#: In words, what each way of counting has.
COUNTED: dict[Count, str] = {
    "total": "everything that was simulated, test examples and failures included",
    "training": "everything that was simulated but the test examples",
    "chosen": "the chosen examples alone",
}


@dataclass(frozen=True)
class Spent:
    """Costs by purpose, in the task's unit. Printed, it is a sentence.

    Attributes:
        initial: of initial examples that were simulated for the run.
        chosen: of chosen examples.
        test: of test examples.
        failed: of simulations without use: failed, abandoned, or answered twice.
        imported: of earlier simulations that the run was given. They were paid for before, so no total has them.
    """

    initial: float = 0.0
    chosen: float = 0.0
    test: float = 0.0
    failed: float = 0.0
    imported: float = 0.0

    @property
    def total(self) -> float:
        """All that was simulated for the run."""
        return math.fsum((self.initial, self.chosen, self.test, self.failed))

    def counted(self, count: Count = "total") -> float:
        """The sum of what a way of counting has."""
        parts = {"total": (self.initial, self.chosen, self.test, self.failed), "chosen": (self.chosen,)}
        return math.fsum(parts.get(count, (self.initial, self.chosen, self.failed)))

    def as_json(self) -> dict[str, float]:
        """All parts and the total, as JSON values."""
        return {**asdict(self), "total": self.total}

    def __str__(self) -> str:
        parts = [f"{self.initial:g} initial", f"{self.chosen:g} chosen", f"{self.test:g} test"]
        parts += [f"{self.failed:g} failed"] if self.failed else []
        before = f"; {self.imported:g} before the run, imported" if self.imported else ""
        return f"{self.total:g} in all: {', '.join(parts)}{before}"


@dataclass
class Spending:
    """Adds up what is spent, exactly: the sums do not depend on the order of costs."""

    #: By purpose, in the smallest unit that a cost can have.
    sums: dict[str, int] = field(default_factory=lambda: {f.name: 0 for f in fields(Spent)})

    def add(self, query: "QueryRecord") -> None:
        """Add the cost of a query that was just answered."""
        self.sums[_purpose(query) if query.status == "told" else "failed"] += _exactly(query.cost)

    def waste(self, query: "QueryRecord") -> None:
        """Count the cost of an answered query as of no use: its output was lost."""
        self.sums[_purpose(query)] -= _exactly(query.cost)
        self.sums["failed"] += 0 if query.imported else _exactly(query.cost)

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        return Spent(**{name: value / (1 << _BITS) for name, value in self.sums.items()})


def _exactly(cost: float) -> int:
    """A cost in the smallest unit. Every float is a whole number of these, and Python adds whole numbers exactly."""
    numerator, denominator = cost.as_integer_ratio()
    return numerator << (_BITS + 1 - denominator.bit_length())


def _purpose(query: "QueryRecord") -> str:
    return "imported" if query.imported else "chosen" if query.kind == "pool" else query.kind


def counts(kind: str, count: Count) -> bool:
    """Whether a way of counting has queries of this kind."""
    return kind == "pool" or count == "total" or (count == "training" and kind != "test")


def price_of(queries: Iterable["QueryRecord"], prices: Sequence[float], count: Count) -> float:
    """What queries cost that are running, as far as a way of counting has them."""
    return math.fsum(prices[query.level] for query in queries if counts(query.kind, count))


def check_count(count: str) -> None:
    """Raise for an unknown way of counting."""
    if count not in get_args(Count):
        raise RunError(f"run: unknown count {count!r}. {hint(str(count), list(get_args(Count)))}")
