r"""Which mesh next, without a rate to tune: estimate what each mesh still has to give.

The squared error on the finest level splits into shares: :math:`D_0`, which an example of any level lowers, and
:math:`D_j`, which only examples of level j and finer lower; :mod:`mrafno.acquisition.level_errors` measures them. With
shares that fall like the same power of the number of examples that inform them, one more example of level r gains per
cost, up to a factor,

.. math:: g_r = \frac{1}{\lambda_r} \sum_{j \le r} \frac{D_j}{n_{\ge j}}

where :math:`n_{\ge j}` counts the examples of level j and finer, the next one included. The level with the largest
expected gain is next; a level that has nothing of its own to give is never. Unlike a schedule that decays, this returns
to the fine mesh when the coarse one has little left to teach. It is the greedy form of the multilevel Monte Carlo
allocation (Giles, 2008).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mrafno.acquisition.base import Choice, Context
from mrafno.acquisition.cost import cost_shares
from mrafno.acquisition.level_errors import shares_from_recent
from mrafno.errors import AcquisitionError


@dataclass(frozen=True)
class MultilevelGain:
    """The mesh rule of ``mra-auto``: the level with the largest expected gain per cost."""

    name = "multilevel-gain"

    def gains(self, context: Context, chosen: Sequence[Choice]) -> list[float]:
        """Expected gain per cost of each level."""
        levels = [choice.level for choice in (*context.observed, *chosen)]
        counts = [initial + levels.count(level) for level, initial in enumerate(context.initial)]
        measured = context.level_errors
        shares = measured[-1].shares if measured else shares_from_recent(context.errors, context.levels)
        return level_gains([share.expected for share in shares], counts, context.costs)


def level_gains(shares: Sequence[float], counts: Sequence[int], costs: Sequence[float]) -> list[float]:
    """Gain per cost of one more example of each level.

    Args:
        shares: of each level in the squared error, coarse to fine.
        counts: examples of each level, those still running included.
        costs: of one example of each level, in any unit.
    """
    prices = cost_shares(costs)
    if not len(shares) == len(counts) == len(prices):
        raise AcquisitionError(f"gains: {len(shares)} shares and {len(counts)} counts for {len(prices)} levels.")
    if not all(share >= 0 and math.isfinite(share) for share in shares) or min(counts) < 0:
        raise AcquisitionError(f"gains: shares {list(shares)} and counts {list(counts)} must not be negative.")
    gains, total = [], 0.0
    for level, (share, price) in enumerate(zip(shares, prices, strict=True)):
        total += share / (sum(counts[level:]) + 1)
        gains.append(total / price)
    return gains
