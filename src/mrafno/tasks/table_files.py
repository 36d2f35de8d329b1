"""Reads tables of simulations from files.

- What ``mrafno export --hdf5`` wrote: examples of each level and their costs. Its test examples are kept for tests.
- HDF5 as PDEBench has it: ``nu`` is the input and ``tensor`` ``(n, time, *grid)`` the output; without ``nu`` the first
  time is the input. Of several times the last is the output, or that of ``times``. Several such files are one per
  level, coarse to fine, with the same rows.
- ``.npz`` with ``inputs`` ``(n, channels, *finest grid)``, and of each level ``output_0``, ``output_1`` and so on and,
  where need be, ``rows_0`` and so on, the rows that they belong to.
- ``.npz`` with pairs ``input_0``, ``output_0`` and so on, each input on its own level.

A ``.npz`` may have ``costs``, one per level, ``cost_0`` ..., one per output, and ``test``, rows kept for tests. HDF5
outputs stay on disk.
"""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrafno.errors import TaskError, hint
from mrafno.grids import Array
from mrafno.grids.parameters import join
from mrafno.tasks.axes import described_coordinates
from mrafno.tasks.packed import check_unpacked
from mrafno.tasks.rows import DrawnRows, Hdf5Rows, JoinedRows, LazyRows, import_h5py

#: Endings of files that are tables.
ENDINGS = (".h5", ".hdf5", ".npz")


def is_table(path: Path | str) -> bool:
    """Whether a file's name says that it is a table."""
    return Path(path).suffix.lower() in ENDINGS


def read_table(path: Path | str | Sequence[Path | str], times: int = -1) -> dict[str, Any]:
    """Arguments of :class:`~mrafno.tasks.table.TableTask` from one file, or from one per level.

    Args:
        times: of a PDEBench file with several times, which one is the output.
    """
    files = [Path(path)] if isinstance(path, Path | str) else [Path(one) for one in path]
    for file in files:
        if not file.is_file():
            raise TaskError(f"table {file}: there is no such file.")
        if not is_table(file):
            raise TaskError(f"table {file}: its name ends in {file.suffix!r}. Give one of {', '.join(ENDINGS)}.")
    if len(files) == 1 and files[0].suffix.lower() == ".npz":
        return _npz(files[0])
    if any(file.suffix.lower() == ".npz" for file in files):
        raise TaskError("table: several files are one per level, in HDF5. A .npz file has all levels in it.")
    h5py = import_h5py()
    if len(files) == 1:
        try:
            with h5py.File(files[0], "r") as file:
                if file.attrs.get("format") == "mrafno examples":
                    return _export(files[0], file)
        except OSError as error:
            raise TaskError(f"table {files[0]}: it is no HDF5 file, or it is damaged ({error}).") from error
    return _pdebench(files, times)


def _npz(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as packed:
            check_unpacked(packed, path.stat().st_size, f"table {path}", TaskError)
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except TaskError:
        raise
    except Exception as error:  # a damaged file can fail in any way
        raise TaskError(f"table {path}: it is no .npz file, or it is damaged ({error}).") from error
    levels = len([name for name in arrays if name.startswith("output_")])
    each = ("output", "input", "rows", "cost")
    known = ["inputs", "costs", "test", *(f"{what}_{level}" for level in range(levels) for what in each)]
    for name in arrays:
        if name not in known:
            raise TaskError(f"table {path}: unknown name {name!r}. {hint(name, known)}")
    missing = [f"output_{level}" for level in range(levels) if f"output_{level}" not in arrays]
    if missing or not levels:
        raise TaskError(
            f"table {path}: {missing[0] if missing else 'output_0'} is missing. Levels count from 0, coarse to fine."
        )
    found: dict[str, Any] = {"name": path.stem, "outputs": [arrays[f"output_{level}"] for level in range(levels)]}
    if "inputs" in arrays:
        found["inputs"] = arrays["inputs"]
        found["rows"] = [arrays.get(f"rows_{level}") for level in range(levels)]
    elif all(f"input_{level}" in arrays for level in range(levels)):
        found["inputs"] = [arrays[f"input_{level}"] for level in range(levels)]
    else:
        raise TaskError(f"table {path}: the inputs are missing. Give inputs, or input_0, input_1 and so on.")
    if "costs" in arrays:
        found["costs"] = arrays["costs"].tolist()
    elif all(f"cost_{level}" in arrays for level in range(levels)):
        found["costs"] = [float(np.mean(arrays[f"cost_{level}"])) for level in range(levels)]
    if "test" in arrays:
        found["test"] = arrays["test"]
    return found


def _export(path: Path, file: Any) -> dict[str, Any]:
    """What ``mrafno export --hdf5`` writes."""
    task = json.loads(file.attrs["task description"])
    levels = range(len(task["resolutions"]))
    inputs, outputs, costs = [], [], []
    for level in levels:
        group = file[f"level-{level}"]
        parts_f, parts_y = (
            [_inputs(path, f"level-{level}", group, task)],
            [_rows(path, f"level-{level}/tensor")],
        )
        if level == levels[-1] and "test" in file:
            parts_f.append(_inputs(path, "test", file["test"], task))
            parts_y.append(_rows(path, "test/tensor"))
        inputs.append(JoinedRows(parts_f))
        outputs.append(JoinedRows(parts_y))
        paid = np.asarray(group["cost"])
        costs.append(float(np.mean(paid)) if len(paid) else float(task["costs"][level]))
    end = sum(len(f) for f in inputs)
    tests = len(file["test"]["tensor"]) if "test" in file else 0
    return {
        "name": task["name"], "inputs": inputs, "outputs": outputs, "costs": costs,
        "test": np.arange(end - tests, end) if tests else None, "layout": task["layout"],
        "interpolation": task["interpolation"], "zero_boundary": task["zero_boundary"],
        "parameter_names": task.get("parameter_names", ()), "log_parameters": task.get("log_parameters", ()),
        "extent": task.get("extent") or (), "coordinates": described_coordinates(task),
        "axis_names": task["axis_names"][: len(task["layout"])], "axis_units": task.get("axis_units") or (),
        "input_name": task["input_name"], "output_name": task["output_name"],
    }  # fmt: skip


def _rows(path: Path, name: str) -> Hdf5Rows:
    return Hdf5Rows(path, name)


def _inputs(path: Path, name: str, group: Any, task: dict[str, Any]) -> LazyRows:
    """Functions, and parameters as constant channels behind them."""
    grid, count = tuple(group["tensor"].shape[2:]), len(task.get("parameter_names") or ())
    n, channels = len(group["tensor"]), task["in_channels"] - count
    functions = Hdf5Rows(path, f"{name}/nu", (n, channels, *grid)) if channels else None
    if not count:
        assert functions is not None, "an input has functions or parameters"
        return functions
    numbers = np.asarray(group["parameters"], dtype=np.float64)

    def draw(rows: Sequence[int]) -> Array:
        known = np.zeros((len(rows), 0, *grid)) if functions is None else functions[rows]
        return join(known, numbers[list(rows)])

    return DrawnRows(draw, (n, task["in_channels"], *grid))


def _pdebench(files: Sequence[Path], times: int) -> dict[str, Any]:
    h5py = import_h5py()
    inputs, outputs, layouts = [], [], []
    for path in files:
        with h5py.File(path, "r") as file:
            if "tensor" not in file or len(file["tensor"].shape) < 3:
                raise TaskError(
                    f"table {path}: there is no dataset tensor (n, time, *grid); it has "
                    f"{', '.join(sorted(file))}. Make a TableTask of its arrays yourself."
                )
            shape = tuple(file["tensor"].shape)
            frame = range(shape[1])[times] if -shape[1] <= times < shape[1] else None
            if frame is None:
                raise TaskError(f"table {path}: there is no time {times}; it has {shape[1]}.")
            outputs.append(Hdf5Rows(path, "tensor", part=slice(frame, frame + 1)))
            if "nu" in file:
                given = tuple(file["nu"].shape)
                dim = len(shape) - 2
                inputs.append(Hdf5Rows(path, "nu", (given[0], 1, *given[1:]) if len(given) == 1 + dim else given))
            else:
                inputs.append(Hdf5Rows(path, "tensor", part=slice(0, 1)))
            layouts.append(_layout(file, len(shape) - 2))
    counts = {len(rows) for rows in outputs}
    if len(counts) > 1:
        raise TaskError(
            f"table: the files have {', '.join(str(len(rows)) for rows in outputs)} rows. Give files with the same "
            "rows, or make a TableTask of their arrays with rows=."
        )
    return {"name": files[-1].stem, "inputs": inputs[-1], "outputs": outputs, "layout": layouts[-1]}


def _layout(file: Any, dim: int) -> tuple[str, ...]:
    """Where the points lie along each axis, as their coordinates tell: cell centres begin half a cell from 0."""
    found = []
    for axis in "xyz"[:dim]:
        points = np.asarray(file.get(f"{axis}-coordinate", ()), dtype=np.float64)
        step = points[1] - points[0] if len(points) > 1 else 0.0
        found.append("cells" if step and abs(points[0] - step / 2) < 0.01 * abs(step) else "nodes")
    return tuple(found)
