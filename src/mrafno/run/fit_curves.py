"""Learning curves of the fits of a run, in a file beside the ledger: a line for each fit, with thinned losses.

They are for whoever looks at a run. Nothing is lost with them, so they are written without waiting for the disk.
"""

import contextlib
import io
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mrafno.errors import LedgerError
from mrafno.storage.files import read_bytes, write_all
from mrafno.storage.layout import FITS

#: Points of a curve, and bytes of a file that are read, from its end.
_POINTS, _LARGEST = 40, 8_000_000


@dataclass(frozen=True)
class FitCurve:
    """The course of a fit.

    Attributes:
        fit: its number, from 1.
        kind: of the training policy: ``scratch``, ``refit`` or ``update``.
        examples: how many it was trained on.
        steps: iterations at which losses were checked.
        losses: ``(steps, members)``; None is no finite number.
    """

    fit: int
    kind: str
    examples: int
    steps: tuple[int, ...]
    losses: tuple[tuple[float | None, ...], ...]


def append_fit_curve(
    folder: Path, fit: int, kind: str, examples: int, steps: Sequence[int], losses: Sequence[Sequence[float]]
) -> None:
    """Add the curve of a fit; a full disk is no reason to stop a run."""
    count = min(len(steps), _POINTS)
    every = sorted({round(i * (len(steps) - 1) / max(count - 1, 1)) for i in range(count)})
    values = {
        "fit": fit,
        "kind": kind,
        "examples": examples,
        "steps": [steps[i] for i in every],
        "losses": [[_short(loss) for loss in losses[i]] for i in every],
    }
    with contextlib.suppress(OSError):
        handle = os.open(folder / FITS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
        with io.FileIO(handle, "a"):
            write_all(handle, (json.dumps(values, separators=(",", ":")) + "\n").encode())


def read_fit_curves(folder: Path) -> list[FitCurve]:
    """The curves of a run's fits by number; lines that make no sense are left out, as are those of earlier repeats."""
    try:
        size = (folder / FITS).lstat().st_size
        content = read_bytes(folder / FITS, start=max(0, size - _LARGEST))
    except (LedgerError, OSError):
        return []
    found: dict[int, FitCurve] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError, OverflowError):
            curve = _curve(line)
            found[curve.fit] = curve
    return [found[number] for number in sorted(found)]


def _curve(line: str) -> FitCurve:
    values = json.loads(line)
    steps = tuple(int(step) for step in values["steps"][: 2 * _POINTS])
    losses = tuple(
        tuple(None if loss is None else float(loss) for loss in row[:100]) for row in values["losses"][: 2 * _POINTS]
    )
    if not steps or len(steps) != len(losses) or len({len(row) for row in losses}) != 1:
        raise ValueError("a curve has a row of losses for every step")
    if not all(loss is None or math.isfinite(loss) for row in losses for loss in row):
        raise ValueError("losses are finite numbers")
    return FitCurve(int(values["fit"]), str(values["kind"])[:20], int(values["examples"]), steps, losses)


def _short(loss: float) -> float | None:
    return float(f"{loss:.4g}") if math.isfinite(loss) else None
