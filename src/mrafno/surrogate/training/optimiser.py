"""Adam, without what torch.optim brings along: loading torch's compiler takes seconds at the first fit of a process."""

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor


class Optimiser(Protocol):
    """What training needs: groups of ``params`` with a rate ``lr``, a state by parameter, and steps."""

    param_groups: list[dict[str, Any]]
    state: Any

    def step(self) -> Any:
        """One step, in place."""


class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019), all parameters in one fused step."""

    def __init__(self, parameters: Iterable[Tensor], rate: float, weight_decay: float = 0.0) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": rate}]
        self.weight_decay = weight_decay
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        """One step, in place; a parameter without a gradient stays as it is."""
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
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
                weight_decay=self.weight_decay,
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
