"""Atomic and durable writes, and reading of files that may come from anybody.

A file is on the disk when the write returns, and its name never shows half of it. Only regular files are read: no link
is followed, and nothing is unpickled.
"""

import contextlib
import errno
import io
import json
import math
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrafno.errors import LedgerError
from mrafno.grids import Array

#: Suffix of unfinished files; nobody reads them.
PART = ".part"


# Writing.


def write_bytes(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file in one step: a reader finds the old content or the new one. Raises OSError on failure.

    Args:
        durable: return only when the content is on the disk (fsync). Without, a crash of the machine may leave a
            damaged file, which is acceptable where it can be made again.
    """
    with _renamed_to(path, durable=durable) as temporary:
        # With this mode the umask decides who may read the file; tempfile would allow only the owner.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with io.FileIO(handle, "w"):
            write_all(handle, content)
            if durable:
                os.fsync(handle)


def write_json(
    path: Path,
    values: Any,
    *,
    indent: int | None = None,
    default: Callable[[Any], Any] | None = None,
    allow_nan: bool = True,
    durable: bool = True,
) -> None:
    """Write a JSON file as :func:`write_bytes` does; the others are arguments of :func:`json.dumps`."""
    text = json.dumps(values, indent=indent, default=default, allow_nan=allow_nan)
    write_bytes(path, f"{text}\n".encode(), durable=durable)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A temporary file name for a library that writes files itself; on success the file takes the place of ``path``.

    On an exception the temporary file is removed, and ``path`` is as before.
    """
    with _renamed_to(path, durable=True) as temporary:
        yield temporary
        handle = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _renamed_to(path: Path, *, durable: bool) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_all(handle: int, content: bytes) -> None:
    """Write all of the content to an open file, in one call unless the system takes only a part."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, and sync their names to the disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder's list of names to the disk, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot sync folders
            raise
    finally:
        os.close(handle)


# Reading.


def read_bytes(path: Path, *, start: int = 0, size: int | None = None, advice: str = "Give another file.") -> bytes:
    """The bytes of a regular file from ``start`` on; raises :class:`LedgerError` for a link, a pipe or a folder.

    Args:
        size: how many bytes at most; None for all.
        advice: last sentence of every error message: what to do about it.
    """
    handle = open_regular(path, advice)
    with io.FileIO(handle, "r") as file:
        try:
            file.seek(start)
            return file.readall() if size is None else _read_most(file, size)
        except OSError as error:
            raise LedgerError(f"{path} cannot be read ({error.strerror}). {advice}") from error


def is_regular(path: Path) -> bool:
    """Whether a path is a regular file: not missing, and no link, pipe or folder."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def open_regular(path: Path, advice: str) -> int:
    """A handle that reads a regular file, to be closed; raises as :func:`read_bytes` does."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        what = {errno.ELOOP: "is a symbolic link, which is not followed", errno.ENOENT: "is missing"}
        said = what.get(error.errno or 0, f"cannot be read ({error.strerror})")
        raise LedgerError(f"{path} {said}. {advice}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise LedgerError(f"{path} is no regular file. {advice}")
    return handle


def _read_most(file: io.FileIO, size: int) -> bytes:
    """So many bytes, or what there is: a size that somebody made up takes no memory."""
    parts = []
    while size > 0 and (part := file.read(min(size, 2**24))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_npy(path: Path | str) -> Array:
    """Read an array of real numbers, as float64, from a .npy file that anybody may have made.

    Only a regular file in the .npy format is read: no link, no .npz, no pickle, no array of objects.
    """
    advice = "Give a .npy file with one array of real numbers, as numpy.save writes it."
    path = Path(path)
    values = from_npy(read_bytes(path, advice=advice), where=str(path), advice=advice)
    return np.array(values, dtype=np.float64, order="C")


def from_npy(content: bytes, *, where: str, advice: str) -> NDArray[Any]:
    """The array in the bytes of a .npy file, read-only, with the file's shape and dtype.

    ``numpy.load`` is not used: it opens zip files and pickles too, and trusts the size that a header claims.
    """
    file = io.BytesIO(content)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        shape, fortran, dtype = readers[np.lib.format.read_magic(file)](file)
    except Exception as error:  # a damaged header can fail in any way, in NumPy or in Python's own parser
        raise LedgerError(f"{where} is no .npy file, or its header is damaged. {advice}") from error
    if dtype.kind not in "fiu":
        raise LedgerError(f"{where} holds {dtype}, which are no real numbers. {advice}")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(content) - file.tell():
        raise LedgerError(f"{where} is cut off or too long: its header says {shape} numbers of {dtype}. {advice}")
    return np.frombuffer(content, dtype, count, file.tell()).reshape(shape, order="F" if fortran else "C")


def to_npy(values: Array) -> bytes:
    """The bytes of a .npy file: float64, little-endian, C order."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(values, dtype="<f8", order="C"), version=(1, 0), allow_pickle=False)
    return file.getvalue()
