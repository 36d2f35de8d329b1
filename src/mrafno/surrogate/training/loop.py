"""The training loop: a network with a member axis, fitted to examples on several grids.

One pass trains all members; :mod:`mrafno.surrogate.training.objective` has the losses.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from torch import Tensor

from mrafno.errors import SurrogateError, TrainingError
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.memory import steady_memory
from mrafno.surrogate.training.objective import Loss, Objective
from mrafno.surrogate.training.optimiser import Optimiser, make_adamw

Schedule = Literal["onecycle", "cosine", "constant"]

#: A member has diverged if its loss is not finite or this many times as large as its first one.
DIVERGED = 1e4
_MAX_RESTARTS = 5
#: Steps between two checks of the losses, which are also the steps at which progress is reported.
_LOOK = 25


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of the training.

    Attributes:
        iterations: steps of the optimiser.
        batch: examples per step and member, over all levels.
        rate: largest learning rate of Adam.
        schedule: ``onecycle`` (up, then down to zero), ``cosine`` (down to zero), ``constant``.
        weight_decay: decoupled weight decay.
        small_data_size: number of examples n below which weight decay grows, as (small_data_size / n) squared, at
            most a hundredfold; 0 for never. It regularises networks that have few examples. Below it the level
            embeddings of rare levels also start closer together, see ``level_embedding_scale``, and fits of a run on
            less than a fourth or half as many examples have fewer iterations.
        level_embedding_scale: scale of the initial level embeddings in a fit from scratch, from 0, where all levels
            start with the same prediction, to 1, where each level has random weights of its own.
        points: a grid with more than twice as many points per axis is trained on strided subsets of about this many;
            0 for never.
        loss: ``likelihood`` or ``composite``.
        out_of_fold_share: share of the examples that each network is not trained on, used for the out-of-fold error
            and the calibration. The members of an ensemble have different folds, so together they see all examples.
        warm_iterations, warm_batch, warm_rate: those of a fit that starts from the last weights. It too goes through
            the whole schedule, so that it ends at a rate of zero.
        brief_iterations, brief_batch, brief_rate: those of a warm fit on a few new examples.
        early_iterations, early_batch: those of a short fit from scratch, better than a warm one early in a run.
    """

    iterations: int = 3000
    batch: int = 40
    rate: float = 4e-3
    schedule: Schedule = "onecycle"
    weight_decay: float = 1e-2
    points: int = 0
    loss: Loss = "composite"
    out_of_fold_share: float = 0.0
    small_data_size: int = 0
    level_embedding_scale: float = 1.0
    warm_iterations: int = 1300
    warm_batch: int = 20
    warm_rate: float = 4e-3
    brief_iterations: int = 40
    brief_batch: int = 20
    brief_rate: float = 1e-3
    early_iterations: int = 2500
    early_batch: int = 20

    def __post_init__(self) -> None:
        sizes = ("iterations", "batch", "warm_iterations", "warm_batch", "brief_iterations", "brief_batch")
        for name in (*sizes, "early_iterations", "early_batch", "rate", "warm_rate", "brief_rate"):
            if getattr(self, name) <= 0:
                raise SurrogateError(f"training: {name} must be positive, got {name} {getattr(self, name)}.")
        if self.schedule not in get_args(Schedule):
            raise SurrogateError(f"training: unknown schedule {self.schedule!r}. Choose onecycle, cosine or constant.")
        if self.loss not in get_args(Loss):
            raise SurrogateError(f"training: unknown loss {self.loss!r}. Choose likelihood or composite.")
        if not 0 <= self.out_of_fold_share <= 0.5:
            raise SurrogateError(f"training: out_of_fold_share must be from 0 to 0.5, got {self.out_of_fold_share}.")

    def rate_at(self, step: int) -> float:
        """Learning rate of a step, from 0 to ``iterations - 1``."""
        done = step / self.iterations
        if self.schedule == "constant":
            return self.rate
        if self.schedule == "cosine":
            return self.rate * 0.5 * (1 + math.cos(math.pi * done))
        rise = 0.2
        if done < rise:
            return self.rate * (0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * done / rise)))
        return self.rate * 0.5 * (1 + math.cos(math.pi * (done - rise) / (1 - rise)))

    def of_fit(self, sizes: Sequence[int], *, warm: bool, brief: bool = False) -> "TrainingSettings":
        """The settings of one fit on given numbers of examples per level."""
        known = [n for n in sizes if n]
        examples = max(sum(known), 1)
        changes: dict[str, Any] = {
            "weight_decay": self.weight_decay * min(max(1.0, self.small_data_size / examples) ** 2, 100.0)
        }
        if self.small_data_size and known:
            # The difference between levels is known only as well as the rarest level.
            changes["level_embedding_scale"] = self.level_embedding_scale * min(
                1.0, min(known) * len(known) / self.small_data_size
            )
        # Few examples need fewer iterations.
        known_of_few = examples / self.small_data_size if self.small_data_size else 1.0
        if warm and brief:
            changes |= {"iterations": self.brief_iterations, "batch": self.brief_batch, "rate": self.brief_rate}
        elif warm:
            iterations = max(1, round(min(1.0, 0.4 + 1.2 * known_of_few) * self.warm_iterations))
            changes |= {"iterations": iterations, "batch": self.warm_batch, "rate": self.warm_rate}
        elif brief:
            iterations = max(1, round(min(1.0, 0.2 + 2 * known_of_few) * self.early_iterations))
            changes |= {"iterations": iterations, "batch": min(self.batch, self.early_batch)}
        return self.changed(**changes)

    def changed(self, **changes: Any) -> "TrainingSettings":
        """A copy with some settings changed."""
        return replace(self, **changes)

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self)


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
        watch: called with the step and the losses whenever losses are checked.
        restart: ``restart(member, times)`` initialises a member that has diverged; without it divergence is an error.
        after_step: called after every step.
    """
    history = History()
    restarts = 0
    limits: list[float] = []
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
    return history


def forget(optimiser: Optimiser, member: int) -> None:
    """Set the optimiser's state of one member to zero."""
    for state in optimiser.state.values():
        for value in state.values():
            if isinstance(value, Tensor) and value.ndim > 0:
                value[member] = 0.0


def adam(network: MemberFNO, settings: TrainingSettings) -> Optimiser:
    """Adam with decoupled weight decay."""
    return make_adamw(network.parameters(), settings.rate, settings.weight_decay)
