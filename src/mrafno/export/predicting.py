"""Predictions from files to files, and how far they can be trusted."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from mrafno.durable import read_npy
from mrafno.errors import CheckpointError, ExportError
from mrafno.export.files import check_place, write_file
from mrafno.grids import Grid, Interpolation, resample
from mrafno.reading import RunReader
from mrafno.surrogate import Surrogate
from mrafno.surrogate.shapes import as_functions


def open_surrogate(folder: Path) -> tuple[Surrogate, RunReader | None]:
    """The surrogate in a folder, and the run if it is a run's and not a checkpoint's."""
    if not (folder / "ledger.jsonl").exists():
        return Surrogate.load(folder), None
    run = RunReader(folder)
    surrogate = run.surrogate
    if surrogate is None and run.trouble:
        raise CheckpointError(run.trouble)
    return surrogate or Surrogate.load(folder), run  # the latter tells what is missing


def predict_file(
    folder: Path, inputs: Path, out: Path, *, level: int | None = None, grid: tuple[int, ...] | None = None
) -> dict[str, Any]:
    """Predict the inputs in a .npy file, and write ``mean`` and ``std`` to a .npz file.

    Args:
        folder: a run's or a checkpoint's.
        inputs: as :meth:`Surrogate.predict` takes them, on any grid.
        level: whose solver is imitated; None for the finest.
        grid: points per axis where outputs are wanted; inputs on others are interpolated. None for those of the inputs.

    Returns:
        What was written, and how far it can be trusted, as JSON values.
    """
    surrogate, run = open_surrogate(folder)
    check_place(out, folder)
    f = as_functions(read_npy(inputs), surrogate.domain)
    if grid is not None:
        layout = surrogate.domain.grids[0].layout
        if len(grid) != len(layout) or min(grid) < 2:
            raise ExportError(
                f"predict: a grid of {'x'.join(map(str, grid))} points does not fit functions of {len(layout)} "
                f"{'axes' if len(layout) > 1 else 'axis'}. Give at least 2 points for each axis."
            )
        kind: Interpolation = "linear" if run is None else run.state.task["interpolation"]
        f = resample(f, Grid(f.shape[2:], layout), Grid(grid, layout), kind)
    prediction = surrogate.predict(f, level)
    file = io.BytesIO()
    np.savez(file, mean=prediction.center, std=prediction.std)
    write_file(out, file.getvalue())
    return {
        "out": str(out),
        "shape": list(prediction.center.shape),
        "level": surrogate.domain.levels - 1 if level is None else level,
        "fits": surrogate.fits,
        "of_fits": surrogate.fits if run is None else len(run.state.trainings),
        "held_in": {"examples": surrogate.held_in, "coverage": surrogate.coverage},
        "measured": None if run is None else _measured(run),
    }


def trust(found: dict[str, Any]) -> list[str]:
    """How far predictions can be trusted, in sentences."""
    held_in, measured = found["held_in"], found["measured"]
    if held_in["coverage"]:
        share = 100 * held_in["coverage"]["0.9"]
        said = [
            f"std is calibrated on {held_in['examples']} examples that single networks left out: their 90 % intervals "
            f"hold {share:.0f} % of the values."
        ]
    else:
        said = ["std is not calibrated: there were too few examples for networks to leave some out."]
    if measured is None:
        return [*said, "The error has not been measured on test examples."]
    error, share = measured["metrics"]["relative_l2"], measured["metrics"]["coverage"].get("0.9")
    text = f"Last measured on {measured['examples']} test examples, after step {measured['step']}: relative error "
    text += "none that is finite" if error is None else f"{error:.4f}"
    return [*said, text + ("." if share is None else f"; 90 % intervals held {100 * share:.0f} % of the values.")]


def _measured(run: RunReader) -> dict[str, Any] | None:
    """The last measurement on test examples."""
    if not run.state.evaluations:
        return None
    last = run.state.evaluations[-1]
    examples = len(run.state.of_kind("test", "told"))
    return {"step": last.step, "cost": last.cost, "examples": examples, "metrics": last.metrics}
