"""Earlier simulations as the first examples of a run.

A ``.npz`` file, or a dictionary, with one pair of arrays for every level that has some::

    input_0, output_0     (n, channels, *grid of level 0); a single channel's axis may be left out
    parameters_0          (n, p), where inputs have parameters; input_0 may have them instead, as its last channels
    cost_0                what each cost, (n,), in the task's unit; by default what a simulation of the level costs
    input_1, output_1, ...
"""

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrafno.errors import LedgerError, RunError, TaskError, hint
from mrafno.grids import Array
from mrafno.storage.files import from_npy, read_bytes
from mrafno.storage.ledger import Ledger
from mrafno.tasks.base import LARGEST, Task, as_numbers
from mrafno.tasks.packed import check_unpacked

#: A file, or its arrays by name.
Examples = Path | str | Mapping[str, ArrayLike]

_ADVICE = "Give a .npz file with input_0, output_0 and so on, as numpy.savez writes it."


#: What the names of arrays begin with.
_WHAT = ("input", "parameters", "output", "cost")


@dataclass(frozen=True)
class LevelExamples:
    """Examples of one level.

    Attributes:
        inputs: ``(n, in_channels, *level's grid)``.
        outputs: ``(n, out_channels, *level's grid)``.
        costs: ``(n,)``, in the task's unit.
    """

    inputs: Array
    outputs: Array
    costs: Array


def read_examples(source: Examples, task: Task) -> list[LevelExamples]:
    """Examples for a task, checked: one entry per level, perhaps empty."""
    where = "examples" if isinstance(source, Mapping) else f"examples {source}"
    arrays: dict[str, Any] = dict(source) if isinstance(source, Mapping) else _arrays(Path(source))
    _check_names(where, arrays, task.levels)
    found = []
    for level in range(task.levels):
        try:
            found.append(_level(arrays, task, level))
        except TaskError as error:
            raise RunError(f"{where}, level {level}: {error}") from error
    if not any(len(one.inputs) for one in found):
        raise RunError(f"{where}: there are no examples in it. {_ADVICE}")
    return found


def write_examples(ledger: Ledger, imported: Sequence[LevelExamples], row: int) -> list[dict[str, Any]]:
    """Write examples into a new run's folder; returns the entries of the "imported" event.

    Args:
        row: of the first. They follow the inputs of the initial examples that are to be simulated.
    """
    entries: list[dict[str, Any]] = []
    for level, examples in enumerate(imported):
        for f, y, cost in zip(examples.inputs, examples.outputs, examples.costs, strict=True):
            id = f"q{len(entries):06d}"
            pair = zip(("input", "output"), ledger.pack_arrays([f, y]), strict=True)
            files = {name: file.as_json() for name, file in pair}
            entries.append({"id": id, "level": level, "row": row + len(entries), "cost": float(cost), **files})
    return entries


def _level(arrays: Mapping[str, Any], task: Task, level: int) -> LevelExamples:
    shape = task.resolutions[level]
    if f"output_{level}" not in arrays:
        f, y = (np.zeros((0, channels, *shape)) for channels in (task.in_channels, task.out_channels))
        return LevelExamples(f, y, np.zeros(0))
    if f"parameters_{level}" in arrays:
        f = task.join(_functions(arrays, task, level), arrays[f"parameters_{level}"], level)
    else:
        f = _with_channel(arrays[f"input_{level}"], f"input_{level}", task.in_channels, shape)
    y = _with_channel(arrays[f"output_{level}"], f"output_{level}", task.out_channels, shape)
    costs = arrays.get(f"cost_{level}", np.full(len(f), task.costs[level]))
    costs = np.asarray(as_numbers(costs, f"cost_{level}"), dtype=np.float64)
    if costs.shape != (len(f),) or not ((costs >= 0) & (costs <= LARGEST)).all():
        raise TaskError(f"cost_{level} must have {len(f)} numbers, 0 or more, one of each example.")
    if len(y) != len(f):
        raise TaskError(f"there are {len(f)} inputs but {len(y)} outputs. Pair them.")
    return LevelExamples(task.checked_input(f, level), task.checked_output(y, level, len(f)), costs)


def _functions(arrays: Mapping[str, Any], task: Task, level: int) -> NDArray[Any] | None:
    """The functions of inputs whose parameters are given beside them; None if inputs are parameters only."""
    if f"input_{level}" not in arrays:
        return None
    channels = task.in_channels - len(task.parameters)
    return _with_channel(arrays[f"input_{level}"], f"input_{level}", channels, task.resolutions[level])


def _with_channel(values: ArrayLike, name: str, channels: int, shape: tuple[int, ...]) -> NDArray[Any]:
    array = as_numbers(values, name)
    return array[:, None] if channels == 1 and array.ndim == 1 + len(shape) else array


def _check_names(where: str, arrays: Mapping[str, Any], levels: int) -> None:
    known = [f"{what}_{level}" for level in range(levels) for what in _WHAT]
    for name in arrays:
        if name not in known:
            if re.fullmatch(r"(input|parameters|output|cost)_\d+", str(name)):
                raise RunError(f"{where}: {name} is of no level; the task has levels 0 to {levels - 1}.")
            raise RunError(f"{where}: unknown name {name!r}. {hint(str(name), known)}")
    for level in range(levels):
        here = {what for what in _WHAT if f"{what}_{level}" in arrays}
        if here and not ("output" in here and here & {"input", "parameters"}):
            missing = "output" if here & {"input", "parameters"} else "input"
            raise RunError(f"{where}: {missing}_{level} is missing. Inputs and outputs come in pairs.")


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file that anybody may have made; nothing is unpickled."""
    content = read_bytes(path, advice=_ADVICE)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            check_unpacked(file, len(content), f"examples {path}", RunError)
            members = {name: file.read(name) for name in file.namelist()}
    except RunError:
        raise
    except Exception as error:  # a damaged file can fail in any way
        raise LedgerError(f"{path} is no .npz file, or it is damaged ({error}). {_ADVICE}") from error
    return {
        name.removesuffix(".npy"): from_npy(values, where=f"{path}: {name}", advice=_ADVICE)
        for name, values in members.items()
    }
