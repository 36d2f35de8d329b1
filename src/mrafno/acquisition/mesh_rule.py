r"""Which mesh next, without a rate to tune: estimate what each mesh still has to give.

Let :math:`E_r` be the relative error on examples of level r before the surrogate was trained on them. The squared error
on the finest level splits into shares: :math:`D_0 = E_0^2`, which an example of any level lowers, and
:math:`D_j = \max(E_j^2 - E_{j-1}^2, 0)`, which only examples of level j or finer lower. With shares that fall like a
power :math:`-p_j` of the number of examples that inform them, one more example of level r gains per cost

.. math:: g_r = \frac{1}{\lambda_r} \sum_{j \le r} \frac{p_j D_j}{n_{\ge j}}

where :math:`n_{\ge j}` counts the examples of level j and finer, the next one included. The level with the largest gain
is next. Unlike a schedule that decays, this returns to the fine mesh when the coarse one has little left to teach. It
is the greedy form of the multilevel Monte Carlo allocation (Giles, 2008).

Fine examples are rare, so most of their errors were measured on an earlier, worse surrogate. Their *excess* over the
coarse errors of their own time changes more slowly: :func:`level_errors` adds the excess to today's coarse errors.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from mrafno.acquisition.base import Choice, Context
from mrafno.acquisition.cost import cost_shares
from mrafno.errors import AcquisitionError


@dataclass(frozen=True)
class MultilevelGain:
    """The mesh rule of ``mra-auto``: the level with the largest estimated gain per cost.

    The estimate rests on few errors, and a wrong choice of mesh is expensive, so the rule bounds how much is spent on
    coarser levels between two examples of a level.

    Args:
        shared_power: power of the number of examples by which the coarsest level's share of the squared error falls. On
            burgers the error falls like one over the number of chosen examples or faster, so its square like -2.
        own_power: the same for what only finer levels teach. There examples are few and their errors average out, so
            the square falls like -1, as a Monte Carlo variance does.
        min_spacing: an example of a level is bought at the earliest when this many times its cost went into coarser
            ones since the last.
        max_spacing: and at the latest when this many times its cost did. With 1 and 5, fine examples are a sixth to a
            half of the cost. The first one comes at the latest moment, as nothing is known of the excess before.
        window: number of recent errors that a median is taken over; small, as errors fall quickly.
    """

    shared_power: float = 2.0
    own_power: float = 1.0
    min_spacing: float = 1.0
    max_spacing: float = 5.0
    window: int = 5
    name = "multilevel-gain"

    def __post_init__(self) -> None:
        positive = (self.shared_power, self.own_power, self.max_spacing, self.window)
        if min(positive) <= 0 or not 0 <= self.min_spacing <= self.max_spacing:
            raise AcquisitionError(
                f"{self.name}: powers, spacings and window must be positive and min_spacing at most max_spacing, "
                f"got {self}."
            )

    def gains(self, context: Context, chosen: Sequence[Choice]) -> list[float]:
        """Gain per cost of each level."""
        levels = [choice.level for choice in (*context.observed, *chosen)]
        counts = [context.initial[level] + levels.count(level) for level in range(context.levels)]
        errors = level_errors(context.errors, context.levels, window=self.window)
        powers = (self.shared_power, self.own_power)
        return self.bounded(level_gains(errors, counts, context.costs, powers=powers), levels, context.costs)

    def bounded(self, gains: Sequence[float], levels: Sequence[int], costs: Sequence[float]) -> list[float]:
        """The gains, infinite for a level that is overdue and minus infinite for one that is too early.

        Args:
            levels: of all examples that were chosen, in order.
        """
        found = [gains[0]]
        for level, (gain, cost) in enumerate(zip(gains[1:], costs[1:], strict=True), 1):
            since = next((i for i, other in enumerate(reversed(levels)) if other >= level), len(levels))
            spacing = math.fsum(costs[other] for other in levels[len(levels) - since :]) / cost
            found.append(
                math.inf if spacing >= self.max_spacing else gain if spacing >= self.min_spacing else -math.inf
            )
        return found


def level_gains(
    errors: Sequence[float], counts: Sequence[int], costs: Sequence[float], *, powers: tuple[float, float] = (2.0, 1.0)
) -> list[float]:
    """Gain per cost of one more example of each level.

    Args:
        errors: relative error on each level, before training on the examples, coarse to fine.
        counts: examples of each level, those still running included.
        costs: of one example of each level, in any unit.
        powers: of the coarsest level's share, and of all others.
    """
    shares = cost_shares(costs)
    if not len(errors) == len(counts) == len(shares):
        raise AcquisitionError(f"gains: {len(errors)} errors and {len(counts)} counts for {len(shares)} levels.")
    if not all(error >= 0 and math.isfinite(error) for error in errors) or min(counts) < 0:
        raise AcquisitionError(f"gains: errors {list(errors)} and counts {list(counts)} must not be negative.")
    gains, total, squared = [], 0.0, 0.0
    for level, (error, share) in enumerate(zip(errors, shares, strict=True)):
        part = max(error**2 - squared, 0.0)
        squared = max(squared, error**2)
        total += powers[level > 0] * part / (sum(counts[level:]) + 1)
        gains.append(total / share)
    return gains


def level_errors(measured: Iterable[tuple[int, float]], levels: int, *, window: int = 5) -> list[float]:
    r"""Present relative error of each level before training on an example, coarse to fine; never falling.

    .. math:: E_j^2 = E_{j-1}^2 + \max(\mathrm{median}(e^2 - \tilde E_{j-1}^2), 0)

    over the last few errors e of level j, each with the median :math:`\tilde E_{j-1}` of the last few of the next
    coarser level at that time. The coarsest level's is the median of its own last few, and 1 while there are none.

    Args:
        measured: level and error of every example, in the order in which they were bought.
        window: how many are the last few.
    """
    found: list[list[float]] = [[] for _ in range(levels)]
    excess: list[list[float]] = [[] for _ in range(levels)]
    for level, error in measured:
        found[level].append(error)
        if level and found[level - 1]:
            excess[level].append(error**2 - median(found[level - 1][-window:]) ** 2)
    squares = [median(found[0][-window:]) ** 2 if found[0] else 1.0]
    for level in range(1, levels):
        squares.append(squares[-1] + max(median(excess[level][-window:]) if excess[level] else 0.0, 0.0))
    return [math.sqrt(square) for square in squares]
