"""Training steps in bfloat16, with the weights, their sums and the optimiser in float32.

Processors with bfloat16 products compute them several times as fast as those of float32, and half the bytes go through
memory. Numbers have 8 bits, so gradients have rounding noise, which is less than that of a minibatch until the end of a
fit, whose steps are in float32.
"""

import copy

import torch
from torch import nn

from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.settings import TrainingSettings

#: Undocumented functions of torch that tell whether a processor has bfloat16 products; without them it has none.
_CHECKS = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")


def bfloat16_is_fast(device: torch.device) -> bool:
    """Whether a device computes products of bfloat16 matrices faster than those of float32 matrices.

    This is read from the processor's list of features, not timed: two runs on one machine must decide alike.
    """
    return device.type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in _CHECKS)


def bfloat16_steps(network: nn.Module, settings: TrainingSettings) -> int:
    """The number of steps of a fit that compute in bfloat16: none where that is not faster, or float64 is asked for."""
    weight = next(network.parameters())
    fast = weight.dtype == torch.float32 and bfloat16_is_fast(weight.device)
    return round(settings.bfloat16_share * settings.iterations) if fast and isinstance(network, MemberFNO) else 0


class Bfloat16Copy:
    """A network in bfloat16 whose weights are casts of another one's, so that gradients reach the latter."""

    def __init__(self, network: MemberFNO) -> None:
        self._network = copy.deepcopy(network)
        self._places: list[tuple[nn.Module, str, nn.Parameter]] = []
        for module, original in zip(self._network.modules(), network.modules(), strict=True):
            for name, parameter in original.named_parameters(recurse=False):
                del module._parameters[name]
                self._places.append((module, name, parameter))

    def cast(self) -> MemberFNO:
        """The network with the present weights."""
        for module, name, parameter in self._places:
            setattr(module, name, parameter.to(torch.bfloat16))
        return self._network
