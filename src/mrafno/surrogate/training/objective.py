r"""The losses that training minimises.

Every member draws its own minibatches. The sum of the members' losses is minimised, so that one pass trains all of them
independently. The losses of an example:

``likelihood``
    the exact Gaussian one, :math:`\tfrac d2 \log 2\pi + \tfrac d2 \eta + \tfrac12 e^{-\eta} |y - \mu|^2`, divided by
    the average number of values per example (which does not change the minimum);
``composite``
    the relative L2 error of the mean plus, for the variance branch alone, the likelihood given that mean. Joint
    maximum likelihood weights an example by the inverse of its variance and so neglects difficult ones.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.operator.spectral import Mesh
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.low_precision import Bfloat16Copy
from mrafno.surrogate.training.settings import Loss

Objective = Callable[[], Tensor]
#: Level, mesh, inputs and outputs of a minibatch.
Drawn = tuple[int, Mesh, Tensor, Tensor]

#: Bounds of a log-variance in normalised units: standard deviations from a thousandth to ten times the data's own.
LOG_VAR_BOUNDS = (math.log(1e-6), math.log(1e2))


def bounded(log_var: Tensor) -> Tensor:
    """A log-variance, smoothly limited to :data:`LOG_VAR_BOUNDS`."""
    low, high = LOG_VAR_BOUNDS
    log_var = low + torch.nn.functional.softplus(log_var - low)
    return high - torch.nn.functional.softplus(high - log_var)


def negative_log_likelihood(mean: Tensor, log_var: Tensor, target: Tensor) -> Tensor:
    """The exact one of each example: ``(..., B, C, *grid)``, ``(..., B)``, ``(..., B, C, *grid)`` give ``(..., B)``."""
    start = log_var.ndim
    d = math.prod(target.shape[start:])
    squares = torch.sum(torch.square(target - mean).flatten(start), dim=-1)
    nll: Tensor = 0.5 * (d * math.log(2 * math.pi) + d * log_var + torch.exp(-log_var) * squares)
    return nll


def example_losses(mean: Tensor, log_var: Tensor, target: Tensor, loss: Loss, weight: float = 1.0) -> Tensor:
    """Loss of each member and example, ``(M, B)``; ``weight`` is the share of a value in the likelihood."""
    d = math.prod(target.shape[2:])
    if loss == "likelihood":
        return negative_log_likelihood(mean, bounded(log_var), target) * (weight / d)
    norm = target.flatten(2).norm(dim=-1)
    # The relative error of a target near zero is not defined: the norm is at least a hundredth of a typical one.
    relative: Tensor = (mean - target).flatten(2).norm(dim=-1) / norm.clamp_min(0.01 * math.sqrt(d))
    return relative + negative_log_likelihood(mean.detach(), bounded(log_var), target) / d


def average_losses(
    network: Callable[..., tuple[Tensor, Tensor]],
    drawn: Sequence[Drawn],
    loss: Loss,
    shares: Sequence[float],
    values: Sequence[float],
    masks: Callable[[int], Sequence[Tensor]] | None = None,
    taught: Sequence[int] | None = None,
) -> Tensor:
    """The average loss per example of each member, ``(M,)``, over minibatches.

    Args:
        shares: share of each level in all examples, which is its weight, whatever its share of the minibatch.
        values: number of output values of an example of each level, divided by the average over all examples.
        taught: the level as which those of each level are learnt; None for its own.
    """
    chosen = masks(sum(f.shape[1] for _, _, f, _ in drawn)) if masks else None
    options: dict[str, Any] = {"masks": chosen, "detach_variance": loss == "composite"}
    parts = [(f, mesh, taught[level] if taught else level) for level, mesh, f, _ in drawn]
    found = (
        network.together(parts, **options)
        if isinstance(network, MemberFNO)
        else [network(*part, **options) for part in parts]
    )
    total: Tensor | float = 0.0
    for (mean, log_var), (level, _, _, y) in zip(found, drawn, strict=True):
        mean, log_var = mean.to(y.dtype), log_var.to(y.dtype)
        total = total + shares[level] * example_losses(mean, log_var, y, loss, values[level]).mean(1)
    assert isinstance(total, Tensor), "there is at least one level with examples"
    return total


def network_objective(
    network: Callable[..., tuple[Tensor, Tensor]],
    batches: Batches,
    loss: Loss,
    masks: Callable[[int], Sequence[Tensor]] | None = None,
    *,
    bfloat16_steps: int = 0,
    early_steps: int = 0,
) -> Objective:
    """The average loss per example of each member, ``(M,)``, over one draw of minibatches.

    The first ``bfloat16_steps`` calls compute in bfloat16, which only the package's own network can, and the first
    ``early_steps`` draw the points of early steps.
    """
    rounded = Bfloat16Copy(cast(MemberFNO, network)) if bfloat16_steps else None
    calls = itertools.count()

    def objective() -> Tensor:
        step, chosen = next(calls), network
        drawn: list[Drawn] = list(batches.draw(early=step < early_steps))
        if rounded and step < bfloat16_steps:
            chosen = rounded.cast()
            drawn = [(level, mesh, f.to(torch.bfloat16), y) for level, mesh, f, y in drawn]
        return average_losses(chosen, drawn, loss, batches.shares, batches.values, masks, batches.taught)

    return objective
