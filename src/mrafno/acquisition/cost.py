r"""Cost schedules: the weight of a resolution's cost at a step, as pure functions of the step.

At the first step all resolutions have the same weight, so that none is excluded while the surrogate knows little; later
the weights approach the costs.
"""

import math
from collections.abc import Sequence
from typing import Literal, get_args

from mrafno.errors import AcquisitionError

#: How the cost weights approach the costs.
Schedule = Literal["exp", "sigmoid", "constant"]


def decay(schedule: Schedule, step: float, *, rate: float) -> float:
    r"""Share of the equal weights that is left, from 1 at step 0 towards 0.

    .. math:: c(t) = e^{-\alpha t} \;\text{(exp)}, \qquad 2 (1 - \sigma(\alpha t)) \;\text{(sigmoid)}, \qquad
        0 \;\text{(constant)}
    """
    if schedule not in get_args(Schedule):
        raise AcquisitionError(f"cost: unknown schedule {schedule!r}. Choose one of {', '.join(get_args(Schedule))}.")
    if not step >= 0:
        raise AcquisitionError(f"cost: steps count from 0, got {step}.")
    if schedule == "constant":
        return 0.0
    if not (rate >= 0 and math.isfinite(rate)):
        raise AcquisitionError(f"cost: the rate must be a number that is not negative, got {rate}.")
    left = math.exp(-rate * step)
    return left if schedule == "exp" else 2 * left / (1 + left)


def annealed_cost(
    costs: Sequence[float], step: float, *, schedule: Schedule = "exp", rate: float = 0.01, renormalise: bool = True
) -> list[float]:
    r"""Cost weights that start equal and approach ``costs / sum(costs)``.

    .. math:: \lambda_r(t) = \frac{\lambda_r}{1 + (R \lambda_r - 1)\, c(t)}, \qquad
        \lambda_r = \frac{\text{cost}_r}{\sum_s \text{cost}_s}

    Args:
        costs: of one solve at each level, in any unit.
        schedule: the decay c; ``constant`` gives the true costs at every step, whatever the rate.
        rate: :math:`\alpha`.
        renormalise: divide by the sum, so that the weights sum to one at every step; without, only at both ends. The
            ratios between levels, and so every choice, are the same.

    Reference: Li et al. (2024), eq. 8.
    """
    shares = cost_shares(costs)
    c = decay(schedule, step, rate=rate)
    weights = [share / (1 + (len(shares) * share - 1) * c) for share in shares]
    total = math.fsum(weights) if renormalise else 1.0
    return [weight / total for weight in weights]


def cost_shares(costs: Sequence[float]) -> list[float]:
    """Costs divided by their sum."""
    values = [float(cost) for cost in costs]
    if not values or not all(cost > 0 and math.isfinite(cost) for cost in values):
        raise AcquisitionError(f"cost: every level needs a positive cost, got {list(costs)}.")
    total = math.fsum(values)
    return [cost / total for cost in values]
