"""Adam without torch.optim, which loads torch's compiler: several seconds at the first fit of a process.

:class:`FusedAdamW` calls the fused step of torch.optim.AdamW directly, by names that PyTorch does not document.
:func:`make_adamw` uses it where these names exist and torch.optim.AdamW elsewhere; both compute the same bits.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

#: Undocumented functions of torch that :class:`FusedAdamW` calls.
PRIVATE_NAMES = ("_fused_adamw_", "_foreach_add_")


class Optimiser(Protocol):
    """What training needs: groups of ``params`` with a rate ``lr``, a state by parameter, and steps."""

    param_groups: list[dict[str, Any]]
    state: Any

    def step(self) -> Any:
        """Make one step, in place."""


def make_adamw(
    parameters: Iterable[Tensor], rate: float, weight_decay: float = 0.0, *others: tuple[Iterable[Tensor], float]
) -> Optimiser:
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019), the parameters of a group in one fused step.

    Args:
        others: further groups of parameters, each with its own weight decay.
    """
    groups = [(list(group), decay) for group, decay in ((parameters, weight_decay), *others)]
    if all(hasattr(torch, name) for name in PRIVATE_NAMES):
        return FusedAdamW(groups, rate)
    described = [{"params": group, "weight_decay": decay} for group, decay in groups]
    return torch.optim.AdamW(described, lr=rate, fused=True)


class FusedAdamW:
    """The fused step of torch.optim.AdamW and its state, without the rest of torch.optim."""

    def __init__(self, groups: Iterable[tuple[list[Tensor], float]], rate: float) -> None:
        self.param_groups: list[dict[str, Any]] = [
            {"params": parameters, "lr": rate, "weight_decay": weight_decay} for parameters, weight_decay in groups
        ]
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Make one step, in place; a parameter without a gradient is left unchanged."""
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not moved:
                continue
            states = [self.state.get(parameter) or self._begin(parameter) for parameter in moved]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                moved,
                [parameter.grad for parameter in moved],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=group["lr"],
                beta1=0.9,
                beta2=0.999,
                weight_decay=group["weight_decay"],
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )

    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        self.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        return self.state[parameter]
