r"""Which mesh next, without a rate to tune: measure what each mesh still has to give.

Let :math:`E_r` be the relative error of the surrogate on examples of level r that it has not learnt from yet. The
squared error on the finest level splits into shares: :math:`D_0 = E_0^2`, which an example of any level lowers, and
:math:`D_j = \max(E_j^2 - E_{j-1}^2, 0)`, which only examples of level j or finer lower. With squared errors that fall
like one over the number of examples that inform them, one more example of level r gains per cost

.. math:: g_r = \frac{1}{\lambda_r} \sum_{j \le r} \frac{D_j}{n_{\ge j}}

where :math:`n_{\ge j}` counts the examples of level j and finer. The level with the largest gain is next. Unlike a
schedule that decays, this comes back to the fine mesh when the coarse one has nothing left to teach.
"""

import math
from collections.abc import Sequence

from mrafno.acquisition.cost import cost_shares
from mrafno.errors import AcquisitionError


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
        known += part / (sum(counts[level:]) + 1)
        gains.append(known / share)
    return gains
