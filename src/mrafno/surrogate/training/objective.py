r"""What training minimises.

Every member draws its own minibatches; their losses are summed, so that one pass trains all of them and none influences
another. The losses of an example:

``likelihood``
    the exact Gaussian one, :math:`\tfrac d2 \log 2\pi + \tfrac d2 \eta + \tfrac12 e^{-\eta} |y - \mu|^2`, divided by
    the average number of values per example (which moves no minimum);
``composite``
    the relative L2 error of the mean, and for the variance branch alone the likelihood given that mean. Joint maximum
    likelihood weighs an example by the inverse of its variance and so neglects the hard ones; this does not.
"""

import math
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.operator.spectral import Mesh
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.replay import Recording

Loss = Literal["likelihood", "composite"]
Objective = Callable[[], Tensor]
#: Level, mesh, inputs and outputs of a minibatch.
Drawn = tuple[int, Mesh, Tensor, Tensor]

#: Bounds of a log-variance in normalised units: standard deviations from a thousandth to ten times the data's own.
LOG_VAR_BOUNDS = (math.log(1e-6), math.log(1e2))
#: Steps of one kind after which one is recorded, which takes about as long as two.
_WORTH = 5
#: Numbers in a layer's activations above which arithmetic takes nearly all of a step's time.
_LARGE = 1_000_000


def bounded(log_var: Tensor) -> Tensor:
    """A log-variance softly held inside :data:`LOG_VAR_BOUNDS`."""
    low, high = LOG_VAR_BOUNDS
    log_var = low + torch.nn.functional.softplus(log_var - low)
    return high - torch.nn.functional.softplus(high - log_var)


def negative_log_likelihood(mean: Tensor, log_var: Tensor, target: Tensor) -> Tensor:
    """The exact one, per example: ``(..., B, C, *grid)``, ``(..., B)``, ``(..., B, C, *grid)`` give ``(..., B)``."""
    start = log_var.ndim
    d = math.prod(target.shape[start:])
    squares = torch.sum(torch.square(target - mean).flatten(start), dim=-1)
    nll: Tensor = 0.5 * (d * math.log(2 * math.pi) + d * log_var + torch.exp(-log_var) * squares)
    return nll


def example_losses(mean: Tensor, log_var: Tensor, target: Tensor, loss: Loss, weight: float | Tensor = 1.0) -> Tensor:
    """Loss of each member and example, ``(M, B)``; ``weight`` is the share of a value in the likelihood."""
    d = math.prod(target.shape[2:])
    if loss == "likelihood":
        return negative_log_likelihood(mean, bounded(log_var), target) * (weight / d)
    norm = target.flatten(2).norm(dim=-1)
    # A target that is nearly zero has no relative error: it is measured against a hundredth of a typical one.
    relative: Tensor = (mean - target).flatten(2).norm(dim=-1) / norm.clamp_min(0.01 * math.sqrt(d))
    return relative + negative_log_likelihood(mean.detach(), bounded(log_var), target) / d


def passes(network: object, drawn: Sequence[Drawn]) -> list[list[Drawn]]:
    """Minibatches that go through the network's layers at once: those for which they work on the same mesh."""
    if not isinstance(network, MemberFNO):
        return [[one] for one in drawn]
    groups: dict[Mesh, list[Drawn]] = {}
    for one in drawn:
        groups.setdefault(network.working_mesh(one[1]), []).append(one)
    return list(groups.values())


def average_losses(
    network: Callable[..., tuple[Tensor, Tensor]],
    drawn: Sequence[Drawn],
    loss: Loss,
    shares: Sequence[float] | Tensor,
    values: Sequence[float] | Tensor,
    masks: Callable[[int], Sequence[Tensor]] | None = None,
) -> Tensor:
    """The average loss per example of each member, ``(M,)``, over minibatches.

    Args:
        shares: of each level in all examples. A level counts by them, also where rounding gives it more or less of
            the minibatch.
        values: of an example of each level, over the average of all examples.
    """
    total: Tensor | float = 0.0
    for parts in passes(network, drawn):
        chosen = masks(sum(f.shape[1] for _, _, f, _ in parts)) if masks else None
        options: dict[str, Any] = {"masks": chosen, "detach_variance": loss == "composite"}
        if len(parts) > 1:
            found = cast(MemberFNO, network).together([(f, mesh, level) for level, mesh, f, _ in parts], **options)
        else:
            level, mesh, f, _ = parts[0]
            found = [network(f, mesh, level, **options)]
        for (mean, log_var), (level, _, _, y) in zip(found, parts, strict=True):
            total = total + shares[level] * example_losses(mean, log_var, y, loss, values[level]).mean(1)
    assert isinstance(total, Tensor), "there is at least one level with examples"
    return total


def network_objective(
    network: Callable[..., tuple[Tensor, Tensor]],
    batches: Batches,
    loss: Loss,
    masks: Callable[[int], Sequence[Tensor]] | None = None,
    record: bool = True,
) -> Objective:
    """The average loss per example of each member, ``(M,)``, over one draw of minibatches.

    With ``record``, steps are recorded and replayed where that saves time; the numbers are the same.
    """

    def objective() -> Tensor:
        drawn = list(batches.draw())
        if record and masks is None and isinstance(network, MemberFNO) and _small(network, drawn):
            places = tuple((level, mesh, f.shape, y.shape) for level, mesh, f, y in drawn)
            return _recorder(network.kind, loss, places, threading.get_ident())(network, drawn, batches)
        return average_losses(network, drawn, loss, batches.shares, batches.values, masks)

    return objective


def _small(network: MemberFNO, drawn: Sequence[Drawn]) -> bool:
    """Whether so much of a step's time is not arithmetic that recording it helps."""
    numbers = sum(f.shape[1] * math.prod(network.working_mesh(mesh).shape) for _, mesh, f, _ in drawn)
    on_cpu = all(f.device.type == "cpu" for _, _, f, _ in drawn)
    return on_cpu and network.members * network.settings.width * numbers <= _LARGE


@lru_cache(maxsize=4)
def _recorder(kind: Hashable, loss: Loss, places: Hashable, thread: int) -> "_Recorder":
    """The recorder of all steps of one kind; a thread has its own, as recordings have memory."""
    return _Recorder(loss)


class _Recorder:
    """Computes losses and derivatives of steps of one kind: the first ones as they are, then by a recording of one."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.steps = 0
        self.recording: Recording | None = None

    def __call__(self, network: MemberFNO, drawn: Sequence[Drawn], batches: Batches) -> Tensor:
        """The average loss per example of each member."""
        self.steps += 1
        if self.recording is None and self.steps != _WORTH:
            return average_losses(network, drawn, self.loss, batches.shares, batches.values)
        numbers = [torch.tensor(part, dtype=torch.float64) for part in (batches.shares, batches.values)]
        tensors = [*numbers, *(part for _, _, f, y in drawn for part in (f, y))]
        if self.recording is None:
            try:
                self.recording = self._record(network, drawn, tensors)
            except Exception as error:
                warnings.warn(f"training: steps could not be recorded and take longer. {error}", stacklevel=2)
                return average_losses(network, drawn, self.loss, batches.shares, batches.values)
        return _Replayed.apply(self.recording, tensors, *network.parameters())  # type: ignore[no-any-return, no-untyped-call]

    def _record(self, network: MemberFNO, drawn: Sequence[Drawn], tensors: Sequence[Tensor]) -> Recording:
        """A step that gives the losses, then their sum's derivative by each parameter."""
        names = [f"network.{name}" for name, _ in network.named_parameters()]
        places = [(level, mesh) for level, mesh, _, _ in drawn]
        module = _Losses(network, self.loss, places)

        def step(*given: Tensor) -> list[Tensor | None]:
            parameters = [tensor.detach().requires_grad_() for tensor in given[: len(names)]]
            losses = functional_call(module, dict(zip(names, parameters, strict=True)), given[len(names) :])
            return [losses.detach(), *torch.autograd.grad(losses.sum(), parameters, allow_unused=True)]

        return Recording(step, [*network.parameters(), *tensors])


class _Losses(nn.Module):
    """Losses as a module, so that its weights can be exchanged."""

    def __init__(self, network: MemberFNO, loss: Loss, places: Sequence[tuple[int, Mesh]]) -> None:
        super().__init__()
        self.network, self.loss, self.places = network, loss, places

    def forward(self, shares: Tensor, values: Tensor, *examples: Tensor) -> Tensor:
        """Losses of inputs and outputs, one after the other."""
        pairs = zip(self.places, examples[::2], examples[1::2], strict=True)
        drawn = [(level, mesh, f, y) for (level, mesh), f, y in pairs]
        return average_losses(self.network, drawn, self.loss, shares, values)


class _Replayed(torch.autograd.Function):
    """The losses of a recorded step, with the derivatives that came with them."""

    @staticmethod
    def forward(ctx: Any, recording: Recording, tensors: Sequence[Tensor], *parameters: Tensor) -> Tensor:
        losses, *ctx.derivatives = recording(*parameters, *tensors)
        assert losses is not None, "losses come first"
        return losses.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, derivatives = gradients[0], ctx.derivatives
        if bool((weight == 1).all()):
            # The recording's own memory, which lasts until the next step: a copy would cost as much as the optimiser.
            return None, None, *(d if d is None else d.detach() for d in derivatives)
        # A member's weights have a say in its own loss alone.
        return None, None, *(d if d is None else d * weight.view(-1, *[1] * (d.ndim - 1)) for d in derivatives)
