"""A table of simulations that exist already as a task: nothing is simulated, outputs are looked up."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import Array, Grid, resample
from mrafno.tasks.axes import placed
from mrafno.tasks.base import as_numbers
from mrafno.tasks.candidates import CandidateSettings, CandidateTask
from mrafno.tasks.rows import Rows, as_rows, blocks

#: Inputs are the same if they differ by less than this share of their largest value; points that are compared first.
_SAME, _PROBES = 1e-6, 16


class TableTask(CandidateTask):
    """Simulations that exist already. The candidates are the table's rows, and their outputs are looked up.

    A row may lack the outputs of some levels: it is then never asked for there. Methods can be compared on a table
    without a simulator.

    Args:
        inputs: of each row on the finest grid, ``(n, channels, *finest grid)``, an array or rows on disk; or a list of
            one array per level, ``(n_r, channels, *level's grid)``, each input being simulated on its own level only.
        outputs: one array per level, coarse to fine, ``(n_r, out_channels, *level's grid)``. A row of NaN is one that
            is lacking.
        costs: of one simulation on each level, in any unit; only for a single level they may be left out.
        rows: for each level the rows that its outputs belong to, ``(n_r,)``; None for all rows, in order.
        test: rows that are kept for tests, which need an output on the finest level; by default the run takes some.
        settings: name, layout, interpolation and so on, those of :class:`CandidateTask`.
    """

    def __init__(
        self,
        inputs: ArrayLike | Rows | Sequence[Any],
        outputs: Sequence[Any],
        costs: Sequence[float] | None = None,
        *,
        rows: Sequence[ArrayLike | None] | None = None,
        test: ArrayLike | None = None,
        **settings: Unpack[CandidateSettings],
    ) -> None:
        name = settings.setdefault("name", "table")
        self.outputs = [_as_outputs(values, name, level) for level, values in enumerate(outputs)]
        if not self.outputs:
            raise TaskError(f"{name}: there are no outputs. Give one array per level, coarse to fine.")
        resolutions = [values.shape[2:] for values in self.outputs]
        if costs is None and len(self.outputs) > 1:
            raise TaskError(
                f"{name}: costs are missing. Give what a simulation costs on each of {len(outputs)} levels."
            )
        self.own_inputs: list[Rows] = []
        if isinstance(inputs, list | tuple) and len(inputs) == len(self.outputs) and np.ndim(inputs[0]) >= 2:
            self.own_inputs = [as_rows(f) or np.asarray(f, dtype=np.float64) for f in inputs]
            inputs, rows = self._joined(settings, resolutions)
        settings["out_channels"] = self.outputs[-1].shape[1]
        super().__init__(inputs, resolutions, (1.0,) if costs is None else costs, **settings)
        if self.inputs is None:
            raise TaskError(f"{name}: a table needs its inputs as an array, not a function that draws them.")
        self.rows = self._checked_rows(rows)
        self._digests: list[str] = []
        #: Which rows have an output on which level, ``(n, levels)``.
        self.available: NDArray[np.bool_] = self._found()
        self.test_rows = self._checked_test(test)
        self._probes: dict[int, tuple[NDArray[np.int64], Array]] = {}

    @classmethod
    def load(cls, path: Path | str | Sequence[Path | str], **changes: Any) -> "TableTask":
        """A table from a file, or from one file per level; see :mod:`mrafno.tasks.table_files`.

        Args:
            path: ``.npz``, or HDF5 as PDEBench or ``mrafno export --hdf5`` writes it.
            changes: arguments of the constructor, in place of what the file says.
        """
        from mrafno.tasks.table_files import read_table

        return cls(**{**read_table(path), **changes})

    @property
    def configuration(self) -> dict[str, Any] | None:
        """None: outputs need no cache."""
        return None

    def describe_simulator(self) -> str | None:
        """Digests of the outputs, one line per level."""
        lines = zip(self._digests, self.outputs, strict=True)
        return "".join(f"level {i}: {len(y)} outputs, sha256 {digest}\n" for i, (digest, y) in enumerate(lines))

    def source_of_inputs(self) -> dict[str, Any] | None:
        """None: a run keeps the inputs of a table, in the order in which it has drawn them."""
        return None

    def restrict(self, f: ArrayLike, level: int) -> Array:
        """Inputs on a level's grid: those of the table where it has them there, else interpolated."""
        moved = super().restrict(f, level)
        if self.own_inputs:
            for i, row in enumerate(self._rows_of(np.asarray(f, dtype=np.float64), self.levels - 1, level)):
                place = np.flatnonzero(self.rows[level] == row)
                if len(place):
                    moved[i] = self.own_inputs[level][int(place[0])]
        return moved

    def _solve(self, f: Array, level: int) -> Array:
        found = np.empty((len(f), self.out_channels, *self.resolutions[level]))
        for i, row in enumerate(self._rows_of(f, level, level)):
            place = np.flatnonzero(self.rows[level] == row)
            if row < 0 or not len(place) or not self.available[row, level]:
                raise SimulationError(f"{self.name}: the table has no output of this input on level {level}.")
            found[i] = self.outputs[level][int(place[0])]
        return found

    def _rows_of(self, f: Array, level: int, wanted: int) -> list[int]:
        """The row of each input ``(n, channels, *level's grid)``; -1 for one that is not in the table.

        Args:
            wanted: of rows with the same input, one with an output on this level is taken.
        """
        rows, probes = self._index(level)
        some = _some(f)
        found = []
        for one in f:
            close = _SAME * float(np.abs(one).max())
            near = rows[(np.abs(probes - one.reshape(-1)[some]) <= close).all(axis=1)]
            same = [int(row) for row in near if np.abs(self._input(int(row), level) - one).max() <= close]
            found.append(next((row for row in same if self.available[row, wanted]), same[0] if same else -1))
        return found

    def _index(self, level: int) -> tuple[NDArray[np.int64], Array]:
        """Rows that may be asked for on a level, and a few values of each input there."""
        finest_of_all = bool(self.own_inputs) and level == self.levels - 1
        if level not in self._probes:
            rows = np.arange(len(self.inputs)) if finest_of_all else np.flatnonzero(self.available[:, level])
            parts = [np.empty((0, 0))]
            for start in range(0, len(rows), 256):
                f = self._inputs_at(rows[start : start + 256], level)
                parts.append(f.reshape(len(f), -1)[:, _some(f)])
            self._probes[level] = rows, np.concatenate(parts[1:]) if len(parts) > 1 else parts[0]
        return self._probes[level]

    def _input(self, row: int, level: int) -> Array:
        return np.asarray(self._inputs_at(np.array([row]), level)[0])

    def _inputs_at(self, rows: NDArray[np.int64], level: int) -> Array:
        moved = super().restrict(self.inputs[rows], level)
        if self.own_inputs and level < self.levels - 1:
            for i, row in enumerate(rows):
                place = np.flatnonzero(self.rows[level] == row)
                if len(place):
                    moved[i] = self.own_inputs[level][int(place[0])]
        return moved

    # Checks.

    def _joined(
        self, settings: CandidateSettings, resolutions: list[tuple[int, ...]]
    ) -> tuple[Array, list[NDArray[np.int64]]]:
        """Inputs of all levels on the finest grid, one level after another, and the rows of each."""
        given = settings.get("layout", "nodes"), settings.get("extent", ()), settings.get("coordinates", ())
        layout, extent, points = placed(settings["name"], *given, resolutions)
        grids = [
            Grid(shape, layout, extent, axes)
            for shape, axes in zip(resolutions, points or [()] * len(resolutions), strict=True)
        ]
        kind, parts, rows, start = settings.get("interpolation", "linear"), [], [], 0
        for f, shape, grid in zip(self.own_inputs, resolutions, grids, strict=True):
            whole = np.asarray(f, dtype=np.float64)
            if whole.shape[2:] != shape:
                raise TaskError(f"{settings['name']}: inputs of shape {whole.shape} are not on the grid {shape}.")
            parts.append(resample(whole, grid, grids[-1], kind))
            rows.append(np.arange(start, start + len(whole)))
            start += len(whole)
        return np.concatenate(parts), rows

    def _checked_rows(self, rows: Sequence[ArrayLike | None] | None) -> list[NDArray[np.int64]]:
        given = [None] * self.levels if rows is None else list(rows)
        if len(given) != self.levels:
            raise TaskError(f"{self.name}: rows has {len(given)} entries for {self.levels} levels. Give one per level.")
        found, n = [], len(self.inputs)
        for level, (values, outputs) in enumerate(zip(given, self.outputs, strict=True)):
            here = np.arange(len(outputs)) if values is None else np.asarray(values)
            fits = here.dtype.kind in "iu" and here.shape == (len(outputs),) and len(np.unique(here)) == len(here)
            if values is None and len(outputs) != n:
                raise TaskError(
                    f"{self.name}: level {level} has {len(outputs)} outputs for {n} inputs. Say with rows which rows "
                    "they belong to, or fill those that are lacking with NaN."
                )
            if not fits or (len(here) and not 0 <= int(here.min()) <= int(here.max()) < n):
                raise TaskError(
                    f"{self.name}: rows of level {level} must be {len(outputs)} different numbers from 0 to {n - 1}."
                )
            found.append(here.astype(np.int64))
        return found

    def _found(self) -> NDArray[np.bool_]:
        """Which rows have an output on which level; reads all outputs once."""
        found = np.zeros((len(self.inputs), self.levels), dtype=bool)
        for level, outputs in enumerate(self.outputs):
            digest = hashlib.sha256()
            for part, values in blocks(outputs):
                digest.update(np.ascontiguousarray(values).data)
                finite = np.isfinite(values.reshape(len(values), -1))
                broken = np.flatnonzero(~finite.all(axis=1) & finite.any(axis=1))
                if len(broken):
                    row = int(self.rows[level][part][broken[0]])
                    raise TaskError(
                        f"{self.name}: the output of row {row} on level {level} is NaN or infinite in some points. "
                        "Correct it, or fill all of it with NaN for one that is lacking."
                    )
                found[self.rows[level][part], level] = finite.all(axis=1)
            self._digests.append(digest.hexdigest())
        if not found.any(axis=0).all():
            level = int(np.flatnonzero(~found.any(axis=0))[0])
            raise TaskError(f"{self.name}: level {level} has no outputs at all. Leave it out.")
        return found

    def _checked_test(self, test: ArrayLike | None) -> NDArray[np.int64] | None:
        if test is None:
            return None
        rows = np.asarray(test)
        if (
            rows.ndim != 1
            or rows.dtype.kind not in "iu"
            or (len(rows) and not 0 <= rows.min() <= rows.max() < len(self.inputs))
        ):
            raise TaskError(f"{self.name}: test must be numbers of rows, 0 to {len(self.inputs) - 1}.")
        lacking = rows[~self.available[rows, -1]]
        if len(lacking):
            raise TaskError(f"{self.name}: test row {int(lacking[0])} has no output on the finest level.")
        return rows.astype(np.int64)


def _as_outputs(values: Any, name: str, level: int) -> Rows:
    rows: Any = as_rows(values)
    if rows is None:
        rows = np.asarray(as_numbers(values, f"{name}: the outputs of level {level}"), dtype=np.float64)
    if len(rows.shape) < 3:
        raise TaskError(
            f"{name}: the outputs of level {level} have shape {rows.shape}. Give (n, out_channels, *grid), with 1 for "
            "a single channel."
        )
    found: Rows = rows
    return found


def _some(f: Array) -> slice:
    """A few of the values of each input."""
    return slice(None, None, max(1, int(np.prod(f.shape[1:])) // _PROBES))
