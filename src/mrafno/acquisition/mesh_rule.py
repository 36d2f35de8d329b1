r"""Which mesh next, without a rate to tune: measure what each mesh still has to give.

Let :math:`E_r` be the relative error of the surrogate on examples of level r that it has not learnt from yet. The
squared error on the finest level splits into shares: :math:`D_0 = E_0^2`, which an example of any level lowers, and
:math:`D_j = \max(E_j^2 - E_{j-1}^2, 0)`, which only examples of level j or finer lower. With shares that fall like a
power :math:`-p_j` of the number of examples that inform them, one more example of level r gains per cost

.. math:: g_r = \frac{1}{\lambda_r} \sum_{j \le r} \frac{p_j D_j}{n_{\ge j}}

where :math:`n_{\ge j}` counts the examples of level j and finer, the next one included. The level with the largest gain
is next. Unlike a schedule that decays, this comes back to the fine mesh when the coarse one has nothing left to teach.
The powers, :data:`SHARED` and :data:`OWN`, are those of burgers: well chosen coarse examples lower the error like one
over their number or faster, so its square falls twice as fast; of how fine solutions differ from coarse ones, the
square of what is not known falls like one over the number of fine examples.

Fine examples are rare, so their errors are old: most were measured on a surrogate that knew less than today's. What
lasts is by how much they exceeded the coarse errors of their own time. :func:`level_errors` therefore adds that excess
to today's coarse errors.

Gains rest on a model and on few errors, and mistakes are dear: coarse examples also lower what the model says only fine
ones can, and nobody knows the excess without looking. So :func:`hedged` keeps every level within bounds. A fine example
is bought at the latest when :data:`LATEST` times its price has gone into coarser ones since the last, at the earliest
when :data:`EARLIEST` times its price has: fine examples are a sixth to a half of what is spent. The first one is bought
at the latest moment: until then nothing is known of the excess.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median

from mrafno.acquisition.cost import cost_shares
from mrafno.errors import AcquisitionError

#: Errors that a median is taken over.
_RECENT = 5
#: Powers of the number of examples by which a share of the squared error falls: the coarsest level's, and the others'.
SHARED, OWN = 2.0, 1.0
#: How many times the price of a level goes into coarser ones between two of its examples, at least and at most.
EARLIEST, LATEST = 1.0, 5.0


def level_gains(errors: Sequence[float], counts: Sequence[int], costs: Sequence[float]) -> list[float]:
    """Gain per cost of one more example of each level.

    Args:
        errors: relative error on each level's unseen examples, coarse to fine.
        counts: examples that each level has, those still running included.
        costs: of one example of each level, in any unit.
    """
    shares = cost_shares(costs)
    if not len(errors) == len(counts) == len(shares):
        raise AcquisitionError(f"gains: {len(errors)} errors and {len(counts)} counts for {len(shares)} levels.")
    if not all(error >= 0 and math.isfinite(error) for error in errors) or min(counts) < 0:
        raise AcquisitionError(f"gains: errors {list(errors)} and counts {list(counts)} must not be negative.")
    gains, known, squared = [], 0.0, 0.0
    for level, (error, share) in enumerate(zip(errors, shares, strict=True)):
        part = max(error**2 - squared, 0.0)
        squared = max(squared, error**2)
        known += (OWN if level else SHARED) * part / (sum(counts[level:]) + 1)
        gains.append(known / share)
    return gains


def level_errors(measured: Iterable[tuple[int, float]], levels: int) -> list[float]:
    r"""What the relative error on unseen examples of each level is now, coarse to fine; never falling.

    .. math:: E_j^2 = E_{j-1}^2 + \max(\mathrm{median}(e^2 - \tilde E_{j-1}^2), 0)

    over the last few errors e of level j, each with the median :math:`\tilde E_{j-1}` of the last few of the next
    coarser level at that time. The coarsest level's is the median of its own last few, and 1 while there are none.

    Args:
        measured: level and error of every example, in the order in which they were bought.
    """
    found: list[list[float]] = [[] for _ in range(levels)]
    excess: list[list[float]] = [[] for _ in range(levels)]
    for level, error in measured:
        found[level].append(error)
        if level and found[level - 1]:
            excess[level].append(error**2 - median(found[level - 1][-_RECENT:]) ** 2)
    squares = [median(found[0][-_RECENT:]) ** 2 if found[0] else 1.0]
    for level in range(1, levels):
        squares.append(squares[-1] + max(median(excess[level][-_RECENT:]) if excess[level] else 0.0, 0.0))
    return [math.sqrt(square) for square in squares]


def hedged(gains: Sequence[float], bought: Sequence[int], costs: Sequence[float]) -> list[float]:
    """The gains, infinite for a level that is overdue and minus infinite for one that it is too early for.

    What counts is spent on coarser levels since an example of the level, or of a finer one, was bought.

    Args:
        bought: the levels of all examples that were chosen, in order.
    """
    found = [gains[0]]
    for level, (gain, cost) in enumerate(zip(gains[1:], costs[1:], strict=True), 1):
        last = next((i for i, other in enumerate(reversed(bought)) if other >= level), len(bought))
        prices = math.fsum(costs[other] for other in bought[len(bought) - last :]) / cost
        found.append(math.inf if prices >= LATEST else gain if prices >= EARLIEST else -math.inf)
    return found
