"""The result of a fit."""

from dataclasses import dataclass, field

from mrafno.surrogate.training.loop import History


@dataclass(frozen=True)
class Fit:
    """What a fit returns.

    Attributes:
        loss: mean over members of the last minibatch losses.
        out_of_fold_error: mean relative L2 error of single networks on the examples that each was not trained on, on
            the finest level that has such examples (the error of the ensemble's mean is smaller); NaN without any.
        shift: what calibration added to the log-variances.
        events: restarts of members, in words.
        history: losses during training.
        out_of_fold_errors: the errors themselves, of each level.
        out_of_fold_rows: the examples' rows, of each level, in the same order.
    """

    loss: float
    out_of_fold_error: float
    shift: float
    events: tuple[str, ...] = ()
    history: History = field(default_factory=History, compare=False, repr=False)
    out_of_fold_errors: tuple[tuple[float, ...], ...] = ()
    out_of_fold_rows: tuple[tuple[int, ...], ...] = ()
