"""Arrays of a run that may not fit into memory: written block by block, and read as a memory map."""

import hashlib
import io
import math
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mrafno.errors import LedgerError
from mrafno.grids import Array
from mrafno.storage.arrays import ADVICE, ArrayFile, array_path
from mrafno.storage.files import make_folder, open_regular, replace_file, write_all
from mrafno.storage.layout import ARRAYS

_BYTES = 16_000_000


def write_blocks(folder: Path, name: str, shape: tuple[int, ...], blocks: Iterable[Array]) -> ArrayFile:
    """Write an array that is made block by block along its first axis; it is on the disk when this returns.

    The file is that of :func:`mrafno.storage.arrays.write_array`.

    Args:
        folder: the run's folder.
        name: letters, digits, dots, dashes and underscores.
        shape: of the whole array.
    """
    file = f"{ARRAYS}/{name}.npy"
    path = array_path(folder, file)
    header = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": tuple(int(n) for n in shape)}
    np.lib.format.write_array_header_1_0(header, described)
    digest, size = hashlib.sha256(header.getvalue()), 0
    try:
        make_folder(path.parent)
        with replace_file(path) as temporary:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            with io.FileIO(handle, "w"):
                write_all(handle, header.getvalue())
                for block in blocks:
                    content = np.ascontiguousarray(block, dtype="<f8").tobytes()
                    digest.update(content)
                    write_all(handle, content)
                    size += len(content)
    except OSError as error:
        raise LedgerError(
            f"run {folder}: {file} could not be written ({error}); what was recorded before is safe. Free some space, "
            "then open the run again."
        ) from error
    if size != 8 * math.prod(shape):
        raise LedgerError(f"run {folder}: {file} has {size} bytes, not those of an array {tuple(shape)}.")
    return ArrayFile(file, digest.hexdigest(), tuple(shape), "float64")


def map_array(folder: Path, array: ArrayFile) -> np.memmap[tuple[int, ...], np.dtype[np.float64]]:
    """A read-only memory map of an array; raises :class:`LedgerError` if it is missing, damaged or of another shape."""
    path = array_path(folder, array.file)
    handle, digest = open_regular(path, ADVICE), hashlib.sha256()
    with io.FileIO(handle, "r") as file:
        while content := file.read(_BYTES):
            digest.update(content)
        if digest.hexdigest() != array.sha256:
            raise LedgerError(f"{path} is damaged or another file: its checksum does not fit. {ADVICE}")
        file.seek(0)
        np.lib.format.read_magic(file)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        offset = file.tell()
    found, expected = (dtype.name, shape), (array.dtype, array.shape)
    if found != expected or fortran:
        raise LedgerError(f"{path} holds {found[0]} {found[1]}, not {expected[0]} {expected[1]}. {ADVICE}")
    return np.memmap(path, dtype, "r", offset, shape)


# Arrays that can be made again.


def write_scratch(folder: Path, name: str, shape: tuple[int, ...], blocks: Iterable[Array]) -> None:
    """Write an array in single precision that :func:`map_scratch` finds; earlier ones of this name are removed."""
    make_folder(folder)
    try:
        with replace_file(folder / f"{name}.part") as temporary:
            checksum = 0
            with temporary.open("xb") as file:
                for block in blocks:
                    content = np.ascontiguousarray(block, dtype="<f4").tobytes()
                    checksum = zlib.crc32(content, checksum)
                    file.write(content)
        for earlier in folder.glob(f"{name}-????????.f4"):
            earlier.unlink(missing_ok=True)
        (folder / f"{name}.part").rename(folder / f"{name}-{checksum:08x}.f4")
    except OSError as error:
        raise LedgerError(
            f"{folder}: inputs on the scoring grid, {4 * math.prod(shape) / 1e6:.0f} MB, could not be written "
            f"({error}). Free some space, then open the run again."
        ) from error


def map_scratch(
    folder: Path, name: str, shape: tuple[int, ...]
) -> np.memmap[tuple[int, ...], np.dtype[np.float32]] | None:
    """A read-only map of an array that was written before; None if there is none, or if it is damaged."""
    for path in folder.glob(f"{name}-????????.f4"):
        checksum = 0
        with io.FileIO(open_regular(path, ADVICE), "r") as file:
            while content := file.read(_BYTES):
                checksum = zlib.crc32(content, checksum)
        if path.stem.endswith(f"-{checksum:08x}") and path.stat().st_size == 4 * math.prod(shape):
            return np.memmap(path, "<f4", "r", 0, shape)
    return None
