"""All examples of a run in one HDF5 file, named and laid out as those of PDEBench (Takamoto et al., 2022).

::

    level-0/ level-1/ ...   one group per mesh, coarse to fine, with the training examples
        tensor                  outputs (n, out_channels, *grid), where PDEBench has (n, time, *grid)
        nu                      functions of the inputs, (n, *grid), or (n, channels, *grid) if there are several
        parameters              of the inputs (n, p), where they have some; attribute "names"
        x-coordinate ...        points along each axis, by the axis's name
        cost, seconds           of each example, (n,); seconds are NaN where unknown
        query, origin           of each example: its id; its origin (initial, imported or chosen)
        step                    number of the choice, from 1; 0 for examples that were not chosen
    test/                   the same for the test examples, on the finest mesh
    tensor, nu, ...         links to those of the finest mesh, where readers of PDEBench files expect them

The file's attributes describe the run. All values are those of the simulations, in float64.
"""

import importlib.util
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mrafno._version import __version__
from mrafno.errors import ExportError
from mrafno.export.files import atomic_file, check_path
from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord


def export_hdf5(run: RunReader, path: Path | str) -> list[int]:
    """Write all examples of a run; returns the number of training examples of each level."""
    if importlib.util.find_spec("h5py") is None:
        raise ExportError("export: HDF5 needs h5py, which is not installed here: pip install h5py")
    import h5py  # type: ignore[import-untyped,unused-ignore]

    path = Path(path)
    check_path(path, run.folder)
    told = [q for q in run.state.queries.values() if q.status == "told"]
    levels = [[q for q in told if q.kind != "test" and q.level == level] for level in range(len(run.grids))]
    with atomic_file(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs.update(_about(run))
        for level, queries in enumerate(levels):
            _write(file.create_group(f"level-{level}"), run, queries, level)
        if tests := [q for q in told if q.kind == "test"]:
            _write(file.create_group("test"), run, tests, len(levels) - 1)
        finest = file[f"level-{len(levels) - 1}"]
        for name in ("tensor", "nu", "parameters", *_axes(run)):
            if name in finest:
                file[name] = h5py.SoftLink(f"{finest.name}/{name}")
    return [len(queries) for queries in levels]


def _write(group: Any, run: RunReader, queries: Sequence[QueryRecord], level: int) -> None:
    import h5py  # type: ignore[import-untyped,unused-ignore]

    task, grid = run.state.task, run.grids[level]
    group.attrs.update({"level": level, "resolution": list(grid.shape), "layout": list(grid.layout)})
    group.attrs["cost of one"] = run.costs[level]
    for name, points in zip(_axes(run), grid.coordinates, strict=True):
        group[name] = points
    names = list(task.get("parameter_names") or ())
    n, channels = len(queries), task["in_channels"] - len(names)
    tensor = group.create_dataset("tensor", (n, task["out_channels"], *grid.shape), "f8")
    tensor.attrs["name"] = task["output_name"]
    nu = parameters = None
    if channels:
        nu = group.create_dataset("nu", (n, *((channels,) if channels > 1 else ()), *grid.shape), "f8")
        nu.attrs["name"] = task["input_name"]
    if names:
        parameters = group.create_dataset("parameters", (n, len(names)), "f8")
        parameters.attrs["names"] = names
    for row, query in enumerate(queries):  # one at a time, since all may not fit into memory
        (functions, numbers), y = run.split(run.input(query)), run.output(query)
        assert y is not None, f"{query.id} was told"
        tensor[row] = y
        if nu is not None:
            nu[row] = functions if channels > 1 else functions[0]
        if parameters is not None:
            parameters[row] = list(numbers.values())
    group.create_dataset("cost", data=[q.cost for q in queries], dtype="f8")
    group.create_dataset("seconds", data=[math.nan if q.seconds is None else q.seconds for q in queries], dtype="f8")
    group.create_dataset("step", data=[q.step or 0 for q in queries], dtype="i8")
    for name, texts in (("query", [q.id for q in queries]), ("origin", [_origin(q) for q in queries])):
        group.create_dataset(name, data=texts, dtype=h5py.string_dtype(), shape=(n,))


def _axes(run: RunReader) -> list[str]:
    return [f"{name}-coordinate" for name in run.state.task["axis_names"][: run.grids[0].dim]]


def _origin(query: QueryRecord) -> str:
    if query.imported:
        return "imported"
    return {"pool": "chosen"}.get(query.kind, query.kind)


def _about(run: RunReader) -> dict[str, Any]:
    state = run.state
    return {
        "format": "mrafno examples",
        "version": 1,
        "mrafno": __version__,
        "task": state.task["name"],
        "task description": json.dumps(state.task),
        "method": state.method,
        "seed": state.seed,
        "settings": json.dumps(state.settings.as_json()),
        "steps": state.step,
        "accumulated cost": state.cost,
    }
