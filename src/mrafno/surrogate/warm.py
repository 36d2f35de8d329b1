"""Going on from the last fit: the optimiser remembers, and an average of the weights predicts.

A constant learning rate keeps weights on the move, which lets new examples in but leaves noise in any single state; the
running average has little of it. So training goes on from the last state, with the optimiser's moments, and predictions
come from the average.
"""

import torch
from torch import Tensor, nn

Stack = dict[str, Tensor]


class RunningAverage:
    """An exponential average of a network's weights with a half-life in steps; call it after every step."""

    def __init__(self, network: nn.Module, start: Stack, half_life: float) -> None:
        self.share = 1 - 0.5 ** (1 / half_life)
        self.network = network
        self.values = {name: value.clone() for name, value in start.items()}

    def __call__(self, step: int) -> None:
        """Move a little towards the network's weights."""
        del step
        for name, value in self.network.state_dict().items():
            if value.is_floating_point():
                self.values[name].lerp_(value, self.share)
            else:
                self.values[name].copy_(value)

    def finished(self, restarted: set[int]) -> Stack:
        """The average; members that were restarted, or whose average was spoilt, as they are."""
        for name, value in self.network.state_dict().items():
            average = self.values[name]
            spoilt = (~torch.isfinite(average.reshape(len(average), -1)).all(dim=1)).nonzero().flatten().tolist()
            for member in restarted | set(spoilt):
                average[member] = value[member]
        return self.values


def moments(optimiser: torch.optim.Optimizer, network: nn.Module, which: str) -> Stack:
    """Adam's ``exp_avg`` or ``exp_avg_sq`` by the weights' names; zero for what it does not move."""
    found = {name: optimiser.state[parameter].get(which) for name, parameter in network.named_parameters()}
    return {
        name: torch.zeros_like(value) if (moment := found.get(name)) is None else moment.clone()
        for name, value in network.state_dict().items()
    }


def remember(optimiser: torch.optim.Optimizer, network: nn.Module, first: Stack, second: Stack) -> None:
    """Give moments back to a new Adam, as those of a long run."""
    for name, parameter in network.named_parameters():
        optimiser.state[parameter] = {
            "step": torch.tensor(10_000.0),
            "exp_avg": first[name].clone(),
            "exp_avg_sq": second[name].clone(),
        }
