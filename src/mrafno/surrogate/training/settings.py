"""Settings of one fit; see :mod:`mrafno.surrogate.training.policy` for how the fits of a run differ."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from mrafno.errors import SurrogateError

Loss = Literal["likelihood", "composite"]
Schedule = Literal["onecycle", "cosine", "constant"]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of one fit.

    Attributes:
        iterations: steps of the optimiser.
        batch: examples per step and member, over all levels.
        rate: largest learning rate of Adam.
        schedule: ``onecycle`` (up, then down to zero), ``cosine`` (down to zero), ``constant``.
        weight_decay: decoupled weight decay.
        correction_decay: weight decay of the local correction to a level with two examples; it falls like one
            over their number. Without it two examples are fitted closely, and others are wrong.
        level_embedding_scale: scale of the initial level embeddings in a fit from scratch, from 0, where all levels
            start with the same prediction, to 1, where each level has random weights of its own.
        points: a grid with more than twice as many points per axis is trained on strided subsets of about this many;
            0 for never.
        early_points: the same for the first ``early_share`` of the iterations, while networks know little.
        early_share: share of the iterations, from the first on, with ``early_points``.
        loss: ``likelihood`` or ``composite``.
        out_of_fold_share: share of the examples that each network is not trained on, used for the out-of-fold error
            and the calibration. The members of an ensemble have different folds, so together they see all examples.
        bfloat16_share: share of the iterations, from the first on, that compute in bfloat16 where that is faster; see
            :mod:`mrafno.surrogate.training.low_precision`.
    """

    iterations: int = 3000
    batch: int = 40
    rate: float = 4e-3
    schedule: Schedule = "onecycle"
    weight_decay: float = 1e-2
    correction_decay: float = 1.0
    points: int = 0
    early_points: int = 0
    early_share: float = 0.0
    loss: Loss = "composite"
    out_of_fold_share: float = 0.0
    level_embedding_scale: float = 1.0
    bfloat16_share: float = 0.0

    def __post_init__(self) -> None:
        for name in ("iterations", "batch", "rate"):
            if getattr(self, name) <= 0:
                raise SurrogateError(f"training: {name} must be positive, got {name} {getattr(self, name)}.")
        if self.schedule not in get_args(Schedule):
            raise SurrogateError(f"training: unknown schedule {self.schedule!r}. Choose onecycle, cosine or constant.")
        if self.loss not in get_args(Loss):
            raise SurrogateError(f"training: unknown loss {self.loss!r}. Choose likelihood or composite.")
        if not 0 <= self.out_of_fold_share <= 0.5:
            raise SurrogateError(f"training: out_of_fold_share must be from 0 to 0.5, got {self.out_of_fold_share}.")
        if not 0 <= self.correction_decay < math.inf:
            raise SurrogateError(f"training: correction_decay must be 0 or more, got {self.correction_decay}.")
        for name in ("early_share", "bfloat16_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise SurrogateError(f"training: {name} must be from 0 to 1, got {getattr(self, name)}.")

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

    def changed(self, **changes: Any) -> "TrainingSettings":
        """A copy with some settings changed."""
        return replace(self, **changes)

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self)
