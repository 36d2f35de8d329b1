"""Arrays of a run, which events of the ledger name with their checksums.

An array has a file of its own, or is part of a file, see :mod:`mrafno.storage.packs`.
"""

import io
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from mrafno.errors import LedgerError
from mrafno.grids import Array
from mrafno.storage.checksum import sha256
from mrafno.storage.files import from_npy, make_folder, read_bytes, sync_folder, to_npy, write_bytes
from mrafno.storage.layout import ARRAYS

_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"
ADVICE = "Restore it from a copy of the run, or simulate it again: see `mrafno repair`."
_PATTERNS = {ending: re.compile(f"{ARRAYS}/{_NAME}\\.{ending}") for ending in ("npy", "pack")}


class ArrayFile(NamedTuple):
    """An array as an event names it: its file, checksum, shape and dtype."""

    #: Relative to the run's folder: ``arrays/<name>.npy``, or ``arrays/000000.pack`` for a part of a pack.
    file: str
    #: Of the array's bytes in the .npy format.
    sha256: str
    shape: tuple[int, ...]
    dtype: str
    #: Where in a pack the array begins, and how many bytes it has; None for a file of its own.
    offset: int | None = None
    size: int | None = None

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        values = {"file": self.file, "sha256": self.sha256, "shape": list(self.shape), "dtype": self.dtype}
        return values if self.offset is None else {**values, "offset": self.offset, "size": self.size}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The inverse of :meth:`as_json`; raises :class:`LedgerError` for anything else."""
        # A long ledger names many arrays, so this is written for speed.
        packed = type(values) is dict and "offset" in values
        try:
            offset, size = (values["offset"], values["size"]) if packed else (None, None)
            array = cls(values["file"], values["sha256"], tuple(values["shape"]), values["dtype"], offset, size)
        except (KeyError, TypeError) as error:
            raise LedgerError(f"{values!r} does not name an array. Restore the run from a copy.") from error
        file, digest, shape, dtype, *_ = array
        if (
            len(values) != (6 if packed else 4)  # and no other
            or not type(file) is type(digest) is type(dtype) is str
            or not _are_counts(shape)
            or (packed and not _are_counts((offset, size)))
        ):
            raise LedgerError(f"{values!r} does not name an array. Restore the run from a copy.")
        _check_file(file, packed=packed)
        return array


def write_array(folder: Path, name: str, values: Array) -> ArrayFile:
    """Write an array in one step; it is on the disk when this returns.

    An array of the same name is replaced, so an event that names the old one would find another checksum.

    Args:
        folder: the run's folder.
        name: letters, digits, dots, dashes and underscores, "q000012-output" for example.
        values: real numbers of any shape; they are stored as float64.
    """
    file = f"{ARRAYS}/{name}.npy"
    path = array_path(folder, file)
    values = np.asarray(values)
    content = as_npy(folder, values, file)
    try:
        make_folder(path.parent)
        write_bytes(path, content)
    except OSError as error:
        raise LedgerError(
            f"run {folder}: {file} could not be written ({error}); what was recorded before is safe. Free some space, "
            "then open the run again."
        ) from error
    return ArrayFile(file, sha256(content), values.shape, "float64")


def as_npy(folder: Path, values: Array, file: str = "an array") -> bytes:
    """An array's bytes in the .npy format; raises :class:`LedgerError` unless it holds real numbers."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiu":
        raise LedgerError(f"run {folder}: {file} would hold {values.dtype}. Give an array of real numbers.")
    return to_npy(values)


def read_array(folder: Path, array: ArrayFile) -> Array:
    """Read an array; raises :class:`LedgerError` if it is missing, damaged or of another shape."""
    where = place_of(folder, array)
    content = array_bytes(folder, array)
    if sha256(content) != array.sha256:
        raise LedgerError(f"{where} is damaged or another file: its checksum does not fit. {ADVICE}")
    values = from_npy(content, where=where, advice=ADVICE)
    found, expected = (values.dtype.name, values.shape), (array.dtype, array.shape)
    if found != expected:
        raise LedgerError(f"{where} holds {found[0]} {found[1]}, not {expected[0]} {expected[1]}. {ADVICE}")
    return np.array(values, dtype=np.float64, order="C")


def array_bytes(folder: Path, array: ArrayFile) -> bytes:
    """The bytes where an array is, which are not checked; raises :class:`LedgerError` if there is no such file."""
    path = array_path(folder, array.file, packed=array.offset is not None)
    return read_bytes(path, start=array.offset or 0, size=array.size, advice=ADVICE)


def replace_bytes(folder: Path, array: ArrayFile, content: bytes) -> None:
    """Put an array's own bytes where they were damaged; raises :class:`LedgerError` if they are others."""
    path = array_path(folder, array.file, packed=array.offset is not None)
    if sha256(content) != array.sha256:
        raise LedgerError(f"{place_of(folder, array)}: these are not the bytes that were there.")
    try:
        make_folder(path.parent)
        if array.offset is None:
            write_bytes(path, content)
            return
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with io.FileIO(handle, "w"):
            os.pwrite(handle, content, array.offset)
            os.fsync(handle)
        sync_folder(path.parent)
    except OSError as error:
        raise LedgerError(f"{path} cannot be written ({error}). Free some space, or change permissions.") from error


def place_of(folder: Path, array: ArrayFile) -> str:
    """Where an array is, for messages."""
    return f"{folder / array.file}" + ("" if array.offset is None else f" at byte {array.offset}")


def check_folder(folder: Path) -> None:
    """Raise :class:`LedgerError` if a run's folder of arrays is a symbolic link."""
    if (folder / ARRAYS).is_symlink():
        raise LedgerError(f"{folder / ARRAYS} is a symbolic link, which is not followed. Put the folder itself there.")


def array_path(folder: Path, file: str, *, packed: bool = False) -> Path:
    """The path of a file of arrays in a run's folder; raises :class:`LedgerError` for anything else."""
    _check_file(file, packed=packed)
    check_folder(folder)
    return folder / file


def _are_counts(numbers: tuple[Any, ...]) -> bool:
    # A loop, because a long ledger names many arrays, and ``all`` takes four times as long.
    for n in numbers:  # noqa: SIM110
        if type(n) is not int or n < 0:
            return False
    return True


@lru_cache(maxsize=64)  # a pack holds many arrays
def _check_file(file: str, *, packed: bool = False) -> None:
    ending = "pack" if packed else "npy"
    if not _PATTERNS[ending].fullmatch(file) or ".." in file:
        raise LedgerError(
            f"{file!r} is no name of an array in a run: it must be {ARRAYS}/<name>.{ending}, the name of letters, "
            "digits, '.', '-' and '_', beginning with a letter or digit, and without '..'."
        )
