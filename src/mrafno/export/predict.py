"""Predictions from files to files, and how reliable they are."""

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from mrafno.data.dataset import Normaliser
from mrafno.errors import CheckpointError, ExportError, LedgerError
from mrafno.export.files import check_path, write_file
from mrafno.grids import Array, Interpolation, resample
from mrafno.grids.parameters import ParameterValues
from mrafno.plot.text import counted, mesh_name
from mrafno.run.reader import RunReader
from mrafno.storage.files import read_npy
from mrafno.storage.layout import CHECKPOINT, is_run
from mrafno.surrogate import Surrogate
from mrafno.surrogate.devices import check_device

#: Standard deviations that usual inputs reach, and the multiple of the training range that counts as far.
_USUAL_RANGE, _FAR = 5.0, 3.0
#: Most inputs of a run that are read, about; and out-of-fold examples that are too few.
_INPUTS_READ, _FEW = 200, 3


def open_surrogate(folder: Path, device: str = "auto") -> tuple[Surrogate, RunReader | None]:
    """The surrogate in the folder of a run or of a checkpoint, and the run if it is one."""
    check_device(device)
    if not folder.is_dir():
        raise ExportError(f"export: there is no run at {folder}. Give the folder of a run or of a checkpoint.")
    if not is_run(folder):
        inside = folder / CHECKPOINT
        return Surrogate.load(inside if inside.is_dir() else folder, device=device), None
    try:
        run = RunReader(folder, device=device)
    except LedgerError:  # the checkpoint needs nothing of it
        return Surrogate.load(folder, device=device), None
    surrogate = run.surrogate
    if surrogate is None and run.trouble:
        raise CheckpointError(run.trouble)
    return surrogate or Surrogate.load(
        folder, device=device
    ), run  # the latter raises an error that names what is missing


def predict_file(
    folder: Path,
    inputs: Path | None,
    out: Path,
    *,
    parameters: Path | ParameterValues | None = None,
    level: int | None = None,
    grid: tuple[int, ...] | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """Predict the inputs in a .npy file, and write ``mean`` and ``std`` to a .npz file.

    Args:
        folder: of a run or of a checkpoint.
        inputs: as :meth:`Surrogate.predict` takes them, on any grid; None if inputs are parameters only.
        parameters: as :meth:`Surrogate.predict` takes them, or a .npy file with them.
        level: whose solver is imitated; None for the finest.
        grid: points per axis of the outputs, to which inputs are interpolated; None for those of the inputs.

    Returns:
        What was written, and how reliable it is, as JSON values.
    """
    surrogate, run = open_surrogate(folder, device)
    check_path(out, folder)
    functions = None if inputs is None else read_npy(inputs)
    numbers = read_npy(parameters) if isinstance(parameters, Path) else parameters
    f = surrogate.inputs(functions, level, parameters=numbers)
    if grid is not None:
        own = surrogate.domain.grids[-1 if level is None else level]
        if len(grid) != own.dim or min(grid) < 2:
            raise ExportError(
                f"predict: a grid of {mesh_name(grid)} points does not fit functions of {own.dim} "
                f"{'axes' if own.dim > 1 else 'axis'}. Give at least 2 points for each axis."
            )
        kind: Interpolation = "linear" if run is None else run.state.task["interpolation"]
        f = resample(f, own.resized(f.shape[2:]), own.resized(grid), kind)
    doubts = _warnings(surrogate, f, run)
    if run is None and is_run(folder):
        doubts.append("the run's ledger is damaged, so its measured error is not known: see `mrafno check`.")
    prediction = surrogate.predict(f, level, check=False)
    file = io.BytesIO()
    np.savez(file, mean=prediction.mean, std=prediction.std)
    write_file(out, file.getvalue())
    return {
        "out": str(out),
        "shape": list(prediction.mean.shape),
        "level": surrogate.domain.levels - 1 if level is None else level,
        "fits": surrogate.fits,
        "best": None if run is None or not run.state.trainings else run.state.trainings[-1].best,
        "of_fits": surrogate.fits if run is None else len(run.state.trainings),
        "out_of_fold": {"examples": surrogate.out_of_fold_count, "coverage": surrogate.coverage},
        "measured": None if run is None else _measured(run),
        "warnings": doubts,
    }


def _warnings(surrogate: Surrogate, f: Array, run: RunReader | None) -> list[str]:
    """Reasons why predictions of these inputs, or their std, may be unreliable."""
    said = surrogate.unlike(f) if surrogate.seen is not None else _far(surrogate, f, run)
    coarsest = surrogate.domain.grids[0].shape
    if any(n < least for n, least in zip(f.shape[2:], coarsest, strict=True)):
        found, least = mesh_name(f.shape[2:]), mesh_name(coarsest)
        said.append(f"a grid of {found} points is coarser than the coarsest training grid ({least}).")
    if surrogate.coverage and surrogate.out_of_fold_count < _FEW:
        said.append(
            f"std is calibrated on {counted(surrogate.out_of_fold_count, 'example')}, which is too few to rely on it."
        )
    return said


def _far(surrogate: Surrogate, f: Array, run: RunReader | None) -> list[str]:
    """The same of a checkpoint of version 0.1 or 0.2, which does not know the inputs that it was trained on."""
    normaliser = surrogate.normaliser
    if normaliser is None:
        return []
    reach, seen = float(np.abs(normaliser.inputs(f)).max(initial=0.0)), _input_range(normaliser, run)
    if reach <= _FAR * seen:
        return []
    return [
        f"inputs lie up to {reach:.3g} standard deviations from the mean of the training inputs, which reach about "
        f"{seen:.2g}: the surrogate extrapolates."
    ]


def _input_range(normaliser: Normaliser, run: RunReader | None) -> float:
    """How far training inputs lie from their mean, in standard deviations: usual ones, and the run's."""
    told = [] if run is None else [q for q in run.state.queries.values() if q.status == "told" and q.kind != "test"]
    every = max(1, len(told) // _INPUTS_READ)
    reached = [_USUAL_RANGE]
    for query in told[::every]:
        assert run is not None, "somebody told it"
        with contextlib.suppress(LedgerError):  # damaged: the others tell it as well
            reached.append(float(np.abs(normaliser.inputs(run.input(query)[None])).max()))
    return max(reached)


def reliability(found: dict[str, Any]) -> list[str]:
    """How reliable predictions are, in sentences."""
    out_of_fold, measured = found["out_of_fold"], found["measured"]
    if out_of_fold["coverage"]:
        share = 100 * out_of_fold["coverage"]["0.9"]
        said = [
            f"std is calibrated on {counted(out_of_fold['examples'], 'out-of-fold example')}: 90 % intervals contain "
            f"{share:.0f} % of the values."
        ]
    else:
        said = ["std is not calibrated: there were too few examples for out-of-fold predictions."]
    if measured is None:
        return [*said, "The error has not been measured on test examples."]
    error, share = measured["metrics"]["relative_l2"], measured["metrics"]["coverage"].get("0.9")
    tests = counted(measured["examples"], "test example")
    text = f"Last measured on {tests}, after step {measured['step']}: relative error "
    text += "not finite" if error is None else f"{error:.4g}"
    return [*said, text + ("." if share is None else f"; 90 % intervals contained {100 * share:.0f} % of the values.")]


def _measured(run: RunReader) -> dict[str, Any] | None:
    """The last measurement on test examples."""
    if not run.state.evaluations:
        return None
    last = run.state.evaluations[-1]
    examples = len(run.state.of_kind("test", "told"))
    return {"step": last.step, "cost": last.cost, "examples": examples, "metrics": last.metrics}
