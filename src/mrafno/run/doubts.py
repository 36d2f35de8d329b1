"""Reasons why the result of a run may not be worth having, from what the run itself knows.

They are looked for when an advance ends. A reason is recorded when it first holds, and taken back when it no longer
does. Test examples are used only where their error has been measured, and for nothing but the words about it.
"""

from collections.abc import Callable

import numpy as np

from mrafno.data.dataset import Dataset
from mrafno.grids import Array, Grid, relative_l2
from mrafno.run.state import RunState

#: Share of the error of a constant prediction from which a surrogate is no better than that.
_AS_BAD = 0.9
#: Shares of test values inside the 90 % interval below which, and inside the 50 % interval above which, std is far off.
_TOO_FEW, _TOO_MANY = 0.6, 0.8
#: Test examples that are too few to judge a std by, and examples that are too few to judge outputs by.
_FEW_TESTS, _FEW = 10, 3
#: Largest difference of outputs that are the same, as a share of the largest one.
_SAME = 1e-9


def doubts(state: RunState, data: Dataset) -> dict[str, str | None]:
    """A text for each reason that there may be, None for those that do not hold.

    Args:
        data: the examples that the surrogate was trained on.
    """
    checks: dict[str, Callable[[RunState, Dataset], str | None]] = {
        "error": _error,
        "std": _std,
        "outputs": _outputs,
    }
    return {about: check(state, data) for about, check in checks.items()}


def _error(state: RunState, data: Dataset) -> str | None:
    """Whether the surrogate is no better than predicting always the same."""
    last = state.measurements[-1] if state.measurements else None
    error = state.estimate if last is None else float(last.metrics["relative_l2"])
    outputs = data.outputs[-1]
    if error is None or len(outputs) < _FEW or not _differ(outputs, _SAME):
        return None
    constant = error_of_mean(outputs)
    if error < _AS_BAD * min(constant, 1.0):
        return None
    whose = "by the run's own estimate" if last is None else f"on test examples after step {last.step}"
    what = f"the mean of the training outputs has {constant:.3g}" if constant < 1 else "predicting zero has 1"
    return (
        f"the relative error is {error:.3g} {whose}, where {what}: the surrogate has learnt next to nothing. More "
        f"examples of {_mesh(data.domain.grids[-1])} or longer fits may help; the report shows outputs and predictions."
    )


def error_of_mean(outputs: Array) -> float:
    """Mean relative error of predicting each output by the mean of the others, ``(n, channels, *grid)``, n > 1."""
    n = len(outputs)
    others = (outputs.sum(axis=0) - outputs) / (n - 1)
    return float(relative_l2(others, outputs).mean())


def _std(state: RunState, data: Dataset) -> str | None:
    """Whether the intervals contain a share of the test values that is far from what they promise."""
    del data
    if not state.measurements or len(state.of_kind("test", "told")) < _FEW_TESTS:
        return None
    coverage = state.measurements[-1].metrics.get("coverage") or {}
    narrow, wide = coverage.get("0.9"), coverage.get("0.5")
    if narrow is not None and narrow < _TOO_FEW:
        return f"90 % intervals contain {100 * narrow:.0f} % of the test values: std is too small to rely on."
    if wide is not None and wide > _TOO_MANY:
        return f"50 % intervals contain {100 * wide:.0f} % of the test values: std is far too large."
    return None


def _outputs(state: RunState, data: Dataset) -> str | None:
    """Whether the outputs of some mesh do not depend on the inputs."""
    del state
    constant = [
        f"all {len(y)} outputs of {_mesh(grid)}"
        for f, y, grid in zip(data.inputs, data.outputs, data.domain.grids, strict=True)
        if len(y) >= _FEW and _differ(f, 0.0) and not _differ(y, _SAME)
    ]
    if not constant:
        return None
    return f"{' and '.join(constant)} are the same, though their inputs differ. Does the simulator use its input?"


def _differ(values: Array, share: float) -> bool:
    """Whether functions ``(n, channels, *grid)`` differ by more than a share of their largest value."""
    return bool(np.abs(values - values[0]).max() > share * np.abs(values).max())


def _mesh(grid: Grid) -> str:
    return "x".join(map(str, grid.shape))
