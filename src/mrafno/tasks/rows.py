"""Inputs as rows, in memory or not: NumPy arrays, memory-mapped files, HDF5 datasets, draws, and selections of them.

All are read with ``rows[i]``, ``rows[a:b]`` or ``rows[indices]``, which gives float64 arrays. What is on disk is read
when it is asked for and not kept, so that a hundred thousand inputs take no memory.
"""

import abc
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mrafno.errors import TaskError
from mrafno.grids import Array
from mrafno.grids.parameters import check_constant, split

#: Numbers in a block of rows that is in memory at a time: 32 MB.
_BLOCK_NUMBERS = 4_000_000


class Rows(Protocol):
    """Rows ``(n, ...)`` of real numbers; a NumPy array is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all rows together."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, rows: Any, /) -> Any:
        """One row for an integer, several for a slice or for integers."""


class LazyRows(abc.ABC):
    """What the classes below share: indices of any kind, and NumPy's own conversion."""

    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        if isinstance(rows, int | np.integer):
            return np.asarray(self._read(self._checked([int(rows)]))[0])
        if isinstance(rows, slice):
            return self._read(np.arange(*rows.indices(len(self))))
        return self._read(self._checked(rows))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        del copy  # there is nothing that could be shared
        return np.asarray(self[:], dtype=dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape}>"

    def _checked(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        indices = np.asarray(rows, dtype=np.int64)
        indices = np.where(indices < 0, indices + len(self), indices)
        if len(indices) and not (indices.min() >= 0 and indices.max() < len(self)):
            raise IndexError(f"row {int(indices.max())} of {len(self)}")
        return indices

    @abc.abstractmethod
    def _read(self, rows: NDArray[np.int64]) -> Array:
        """Rows by their indices, which are in range: ``(n, ...)`` in float64."""


class MappedRows(LazyRows):
    """Rows of a memory-mapped array; pages that were read are given back to the system.

    Args:
        values: memory-mapped, of any real type, ``(n, ...)``.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self.values, self.shape = values, values.shape
        root: Any = values
        while isinstance(root.base, np.ndarray):
            root = root.base
        self._map = root.base if isinstance(root.base, mmap.mmap) else None
        self.file = Path(root.filename) if isinstance(root, np.memmap) and root.filename else None

    def _read(self, rows: NDArray[np.int64]) -> Array:
        found = np.array(self.values[rows], dtype=np.float64)
        if self._map is not None:
            # Otherwise the whole file counts as this process's memory once it was read.
            self._map.madvise(mmap.MADV_DONTNEED)
        return found

    def reshaped(self, shape: tuple[int, ...]) -> "MappedRows":
        """The same numbers in another shape; the number of rows stays."""
        return MappedRows(self.values.reshape(shape))

    def description(self) -> dict[str, Any] | None:
        """Where the rows are, as JSON values; None if they are not a whole part of a file."""
        if self.file is None or not self.values.flags.c_contiguous:
            return None
        root: Any = self.values
        while isinstance(root.base, np.ndarray):
            root = root.base
        offset = root.offset + self.values.ctypes.data - root.ctypes.data
        return {
            "kind": "file", **_file_version(self.file), "offset": int(offset), "dtype": self.values.dtype.str,
            "shape": list(self.shape),
        }  # fmt: skip


class Hdf5Rows(LazyRows):
    """Rows of an HDF5 dataset.

    Args:
        file: the HDF5 file.
        dataset: the dataset's name in it.
        shape: as which the dataset ``(n, ...)`` is read; it may have an axis of length one more.
        part: of the second axis, which is read.
    """

    def __init__(
        self, file: Path | str, dataset: str, shape: tuple[int, ...] | None = None, part: slice | None = None
    ) -> None:
        self.file, self.dataset, self.part = Path(file).absolute(), dataset, part
        self._opened: Any = None
        whole = self._dataset().shape
        if part is not None:
            whole = (whole[0], len(range(*part.indices(whole[1]))), *whole[2:])
        self.shape = tuple(whole if shape is None else shape)

    @staticmethod
    def of(dataset: Any) -> "Hdf5Rows":
        """Of an ``h5py.Dataset``."""
        return Hdf5Rows(dataset.file.filename, dataset.name)

    def reshaped(self, shape: tuple[int, ...]) -> "Hdf5Rows":
        """The same numbers in another shape; the number of rows stays."""
        return Hdf5Rows(self.file, self.dataset, shape, self.part)

    def _dataset(self) -> Any:
        if self._opened is None:
            h5py = import_h5py()
            try:
                self._opened = h5py.File(self.file, "r")[self.dataset]
            except (OSError, KeyError) as error:
                raise TaskError(f"{self.file}: cannot read the dataset {self.dataset!r} ({error}).") from error
        return self._opened

    def _read(self, rows: NDArray[np.int64]) -> Array:
        data = self._dataset()
        found = np.empty((len(rows), *self.shape[1:]))
        order = np.argsort(rows, kind="stable")
        for part in _consecutive(rows[order]):
            here = order[part]
            first, last = int(rows[here[0]]), int(rows[here[-1]])
            values = data[first : last + 1] if self.part is None else data[first : last + 1, self.part]
            values = np.asarray(values, dtype=np.float64)
            found[here] = values[rows[here] - first].reshape(len(here), *self.shape[1:])
        return found

    def description(self) -> dict[str, Any] | None:
        """Where the rows are, as JSON values."""
        if self.part is not None:
            return None
        return {"kind": "hdf5", **_file_version(self.file), "dataset": self.dataset, "shape": list(self.shape)}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}


class DrawnRows(LazyRows):
    """Rows that a function makes when they are asked for, each from its index.

    Args:
        draw: ``draw(indices)`` gives ``(len(indices), ...)``.
        shape: of all rows.
    """

    def __init__(self, draw: Callable[[Sequence[int]], Array], shape: tuple[int, ...]) -> None:
        self.draw, self.shape = draw, shape

    def _read(self, rows: NDArray[np.int64]) -> Array:
        return self.draw(rows.tolist()) if len(rows) else np.empty((0, *self.shape[1:]))


class ConstantRows(LazyRows):
    """Rows of numbers that are the same on a whole grid: only the numbers are kept, and repeated when rows are read.

    Args:
        values: ``(n, channels)``.
        grid: the grid's shape.
    """

    def __init__(self, values: Array, grid: tuple[int, ...]) -> None:
        self.values, self.grid = values, grid
        self.shape = (*values.shape, *grid)

    def _read(self, rows: NDArray[np.int64]) -> Array:
        found = self.values[rows]
        return np.broadcast_to(found.reshape(*found.shape, *[1] * len(self.grid)), (*found.shape, *self.grid)).copy()


class SelectedRows(LazyRows):
    """Some rows of others, in some order; nothing is copied."""

    def __init__(self, rows: Rows, indices: NDArray[np.int64]) -> None:
        self.rows, self.indices = rows, np.asarray(indices, dtype=np.int64)
        self.shape = (len(self.indices), *rows.shape[1:])

    def _read(self, rows: NDArray[np.int64]) -> Array:
        # In the order of the source, which on a disk is many times faster.
        indices = self.indices[rows]
        order = np.argsort(indices, kind="stable")
        found = np.empty((len(rows), *self.shape[1:]))
        found[order] = self.rows[indices[order]]
        return found


class JoinedRows(LazyRows):
    """The rows of several, one after another."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self.parts = tuple(parts)
        self._ends = np.cumsum([len(part) for part in self.parts])
        self.shape = (int(self._ends[-1]), *self.parts[0].shape[1:])

    def _read(self, rows: NDArray[np.int64]) -> Array:
        found = np.empty((len(rows), *self.shape[1:]))
        where = np.searchsorted(self._ends, rows, side="right")
        for number, part in enumerate(self.parts):
            here = np.flatnonzero(where == number)
            if len(here):
                found[here] = part[rows[here] - (self._ends[number] - len(part))]
        return found


def select(rows: Rows, indices: NDArray[np.int64]) -> Rows:
    """Some rows, in some order: of a small array in memory a copy, of anything else a view."""
    if isinstance(rows, ConstantRows):
        return ConstantRows(rows.values[indices], rows.grid)
    small = isinstance(rows, np.ndarray) and len(indices) * math.prod(rows.shape[1:]) <= _BLOCK_NUMBERS
    return rows[indices] if small else SelectedRows(rows, indices)


def constant_values(rows: Rows, names: Sequence[str], where: str) -> Array:
    """The numbers ``(n, p)`` of rows ``(n, p, *grid)`` that are parameters only; :class:`TaskError` for others."""
    if isinstance(rows, ConstantRows):
        return rows.values
    if isinstance(rows, SelectedRows):
        return constant_values(rows.rows, names, where)[rows.indices]
    if isinstance(rows, JoinedRows):
        return np.concatenate([constant_values(part, names, where) for part in rows.parts])
    found = [np.zeros((0, len(names)))]
    for _, values in blocks(rows):
        check_constant(values, names, where, TaskError)
        found.append(split(values, len(names))[1])
    return np.concatenate(found)


def blocks(rows: Rows, numbers: int = _BLOCK_NUMBERS) -> Iterator[tuple[slice, Array]]:
    """All rows, a block of them in memory at a time, each with its place."""
    size = max(1, numbers // max(1, math.prod(rows.shape[1:])))
    for start in range(0, len(rows), size):
        part = slice(start, min(start + size, len(rows)))
        yield part, np.asarray(rows[part], dtype=np.float64)


def as_rows(values: Any) -> LazyRows | None:
    """What a person gives as inputs, if it is on disk and stays there; None for anything else."""
    if isinstance(values, LazyRows):
        return values
    if isinstance(values, np.memmap) and values.mode != "c" and values.dtype.kind in "fiu":
        return MappedRows(values)
    if type(values).__module__.partition(".")[0] == "h5py" and hasattr(values, "file") and hasattr(values, "dtype"):
        if values.dtype.kind not in "fiu":
            raise TaskError(f"the dataset {values.name!r} holds {values.dtype}. Give one of real numbers.")
        return Hdf5Rows.of(values)
    return None


def reopened(description: dict[str, Any], name: str) -> MappedRows | Hdf5Rows:
    """The rows of a description, from the same file; :class:`TaskError` if it is gone or was changed."""
    file = Path(description["file"])
    advice = (
        f"{name}: its inputs are in {file}, which {{}}. Put the file back, or open the run with the task "
        "(Run.open(path, task=...), or --task FILE.py:NAME), whose inputs may be anywhere."
    )
    try:
        now = _file_version(file)
    except OSError as error:
        raise TaskError(advice.format(f"cannot be read ({error.strerror})")) from error
    if now["size"] != description["size"]:
        raise TaskError(advice.format(f"has {now['size']} bytes now and had {description['size']}"))
    shape = tuple(description["shape"])
    if description["kind"] == "hdf5":
        return Hdf5Rows(file, description["dataset"], shape)
    offset, dtype = description["offset"], np.dtype(description["dtype"])
    return MappedRows(np.memmap(file, dtype, "r", offset, shape))


def unchanged(description: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a file is the same, at the same place, with the size and the time of its last change as before."""
    return {**description, "shape": None} == {**before, "shape": None} and math.prod(description["shape"]) == math.prod(
        before["shape"]
    )


def import_h5py() -> Any:
    """The package h5py; :class:`TaskError` with advice if it is not installed."""
    try:
        import h5py  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise TaskError("HDF5 needs h5py, which is not installed here: pip install h5py") from None
    return h5py


def _file_version(file: Path) -> dict[str, Any]:
    found = file.stat()
    return {"file": str(file.absolute()), "size": found.st_size, "changed": found.st_mtime_ns}


def _consecutive(rows: NDArray[np.int64]) -> Iterator[slice]:
    """Slices of sorted indices between which a few rows at most are missing."""
    if not len(rows):
        return
    ends = np.flatnonzero(np.diff(rows) > 1) + 1
    yield from (slice(a, b) for a, b in zip([0, *ends], [*ends, len(rows)], strict=True))
