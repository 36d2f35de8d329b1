"""Arrays of a run: one file each, which an event of the ledger names with its checksum."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from mrafno.errors import LedgerError
from mrafno.grids import Array
from mrafno.storage.checksum import sha256
from mrafno.storage.files import from_npy, make_folder, read_bytes, to_npy, write_bytes
from mrafno.storage.layout import ARRAYS

_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"


@dataclass(frozen=True)
class ArrayFile:
    """An array as an event names it: its file, checksum, shape and dtype."""

    #: Relative to the run's folder, always ``arrays/<name>.npy``.
    file: str
    #: Of the whole file.
    sha256: str
    shape: tuple[int, ...]
    dtype: str

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The inverse of :meth:`as_json`; raises :class:`LedgerError` for anything else."""
        try:
            array = cls(values["file"], values["sha256"], tuple(values["shape"]), values["dtype"])
            known = set(values) == {"file", "sha256", "shape", "dtype"}
        except (KeyError, TypeError) as error:
            raise LedgerError(f"{values!r} does not name an array. Restore the run from a copy.") from error
        texts = all(isinstance(text, str) for text in (array.file, array.sha256, array.dtype))
        if not known or not texts or not all(type(n) is int and n >= 0 for n in array.shape):
            raise LedgerError(f"{values!r} does not name an array. Restore the run from a copy.")
        _check_file(array.file)
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
    if values.dtype.kind not in "fiu":
        raise LedgerError(f"run {folder}: {file} would hold {values.dtype}. Give an array of real numbers.")
    content = to_npy(values)
    try:
        make_folder(path.parent)
        write_bytes(path, content)
    except OSError as error:
        raise LedgerError(
            f"run {folder}: {file} could not be written ({error}); what was recorded before is safe. Free some space, "
            "then open the run again."
        ) from error
    return ArrayFile(file, sha256(content), values.shape, "float64")


def read_array(folder: Path, array: ArrayFile) -> Array:
    """Read an array; raises :class:`LedgerError` if it is missing, damaged or of another shape."""
    path = array_path(folder, array.file)
    advice = "Restore it from a copy of the run, or simulate it again."
    content = read_bytes(path, advice=advice)
    if sha256(content) != array.sha256:
        raise LedgerError(f"{path} is damaged or another file: its checksum does not fit. {advice}")
    values = from_npy(content, where=str(path), advice=advice)
    found, expected = (values.dtype.name, values.shape), (array.dtype, array.shape)
    if found != expected:
        raise LedgerError(f"{path} holds {found[0]} {found[1]}, not {expected[0]} {expected[1]}. {advice}")
    return np.array(values, dtype=np.float64, order="C")


def array_path(folder: Path, file: str) -> Path:
    """The path of ``arrays/<name>.npy`` in a run's folder; raises :class:`LedgerError` for anything else."""
    _check_file(file)
    if (folder / ARRAYS).is_symlink():
        raise LedgerError(f"{folder / ARRAYS} is a symbolic link, which is not followed. Put the folder itself there.")
    return folder / file


def _check_file(file: str) -> None:
    if not re.fullmatch(f"{ARRAYS}/{_NAME}\\.npy", file) or ".." in file:
        raise LedgerError(
            f"{file!r} is no name of an array in a run: it must be {ARRAYS}/<name>.npy, the name of letters, digits, "
            "'.', '-' and '_', beginning with a letter or digit, and without '..'."
        )
