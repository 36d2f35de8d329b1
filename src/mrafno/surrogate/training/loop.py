"""The training loop: a network with a member axis, fitted to examples on several grids.

One pass trains all members; :mod:`mrafno.surrogate.training.objective` has the losses.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from mrafno.errors import TrainingError
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.memory import steady_memory
from mrafno.surrogate.training.objective import Objective
from mrafno.surrogate.training.optimiser import Optimiser, make_adamw
from mrafno.surrogate.training.settings import TrainingSettings

#: A member has diverged if its loss is not finite or this many times as large as its first one.
DIVERGED = 1e4
_MAX_RESTARTS = 5
#: Steps between two checks of the losses, which are also the steps at which progress is reported.
_LOOK = 25
#: Progress is reported once more after this step: the time since the first step tells how long the fit will take. And
#: whenever so many seconds have passed without a report, because results of simulations are taken meanwhile.
_EARLY, _REPORT_SECONDS = 4, 0.2


@dataclass
class History:
    """The course of a training.

    Attributes:
        steps: the steps at which losses were checked.
        losses: the losses of all members at these steps.
        events: restarts of members, in words.
        restarted: the step of each member's last restart.
    """

    steps: list[int] = field(default_factory=list)
    losses: list[list[float]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    restarted: dict[int, int] = field(default_factory=dict)


def train(
    objective: Objective,
    optimiser: Optimiser,
    settings: TrainingSettings,
    *,
    watch: Callable[[int, list[float]], None] | None = None,
    restart: Callable[[int, int], None] | None = None,
    after_step: Callable[[int], None] | None = None,
) -> History:
    """Minimise the sum of an objective's members in place.

    Args:
        watch: called with the step and the losses whenever losses are checked, and several times a second if steps are
            not slower than that.
        restart: ``restart(member, times)`` initialises a member that has diverged; without it divergence is an error.
        after_step: called after every step.
    """
    history = History()
    restarts = 0
    limits: list[float] = []
    reported = 0.0
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    with steady_memory():
        for step in range(settings.iterations):
            for group in optimiser.param_groups:
                group["lr"] = settings.rate_at(step)
            losses = objective()
            for parameter in parameters:
                parameter.grad = None
            losses.sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if after_step:
                after_step(step)
            if step % _LOOK and step + 1 < settings.iterations:
                if watch and (step == _EARLY or time.monotonic() - reported > _REPORT_SECONDS):
                    watch(step, losses.tolist())
                    reported = time.monotonic()
                continue
            values = losses.tolist()
            limits = limits or [DIVERGED * (1 + abs(value)) if math.isfinite(value) else DIVERGED for value in values]
            for member, value in enumerate(values):
                if math.isfinite(value) and value < limits[member]:
                    continue
                restarts += 1
                if restart is None or restarts > _MAX_RESTARTS:
                    raise TrainingError(
                        f"training: the loss of member {member} became {value:g} at step {step}. "
                        f"Lower the learning rate (now {settings.rate:g}) or check the data for outliers."
                    )
                restart(member, restarts)
                forget(optimiser, member)
                history.restarted[member] = step
                history.events.append(f"member {member} diverged at step {step} and was restarted")
            history.steps.append(step)
            history.losses.append(values)
            if watch:
                watch(step, values)
                reported = time.monotonic()
    return history


def forget(optimiser: Optimiser, member: int) -> None:
    """Set the optimiser's state of one member to zero."""
    for state in optimiser.state.values():
        for value in state.values():
            if isinstance(value, Tensor) and value.ndim > 0:
                value[member] = 0.0


def adam(network: MemberFNO, settings: TrainingSettings, sizes: Sequence[int]) -> Optimiser:
    """Adam with decoupled weight decay, a larger one for local corrections that few examples inform.

    Args:
        sizes: examples of each level.
    """
    groups = [
        (list(correction.parameters()), settings.weight_decay + correction_decay(sum(sizes[level:]), settings))
        for level, correction in enumerate(network.corrections, 1)
    ]
    of_corrections = {id(parameter) for parameters, _ in groups for parameter in parameters}
    others = [parameter for parameter in network.parameters() if id(parameter) not in of_corrections]
    return make_adamw(others, settings.rate, settings.weight_decay, *groups)


def correction_decay(examples: int, settings: TrainingSettings) -> float:
    """Weight decay of a local correction: that for two examples, which falls like one over their number.

    A step lowers a weight by at most half of itself.
    """
    return min(settings.correction_decay * 2 / max(examples, 2), 0.5 / settings.rate)
