"""Arrays of a run, one after another in a few files: a run of many steps has not many files.

A pack is only ever added to. An array that was not finished, because its writer died or the disk was full, stays in it
as bytes that no event names. So a pack never holds less than the ledger says, whoever writes.
"""

import errno
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

from mrafno.errors import LedgerError
from mrafno.grids import Array
from mrafno.storage.arrays import ArrayFile, as_npy, check_folder
from mrafno.storage.checksum import sha256
from mrafno.storage.files import make_folder, sync_folder, write_all
from mrafno.storage.layout import ARRAYS, pack_file

#: Size from which on a pack is not added to: what one damaged file can take with it.
PACK_BYTES = 16 * 2**20


def pack_arrays(folder: Path, arrays: Sequence[Array]) -> list[ArrayFile]:
    """Add arrays to a run's last pack, with one sync; they are on the disk when this returns.

    Args:
        folder: the run's folder.
        arrays: real numbers of any shapes; they are stored as float64.
    """
    contents = [as_npy(folder, values) for values in arrays]
    if not contents:
        return []
    try:
        file, start = _add(folder, b"".join(contents))
    except OSError as error:
        raise LedgerError(
            f"run {folder}: {len(contents)} arrays could not be written ({error}); what was recorded before is safe. "
            "Free some space, then open the run again."
        ) from error
    found = []
    for values, content in zip(arrays, contents, strict=True):
        found.append(ArrayFile(file, sha256(content), values.shape, "float64", start, len(content)))
        start += len(content)
    return found


def _add(folder: Path, content: bytes) -> tuple[str, int]:
    """Add to the last pack, or begin another one: its name, and where the content begins."""
    check_folder(folder)
    make_folder(folder / ARRAYS)
    number = max([_number(name) for name in os.listdir(folder / ARRAYS)], default=-1)  # noqa: PTH208
    if number < 0 or (folder / pack_file(number)).lstat().st_size >= PACK_BYTES:
        number += 1
    path = folder / pack_file(number)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    with io.FileIO(handle, "r+"):
        new = os.fstat(handle).st_size == 0
        write_all(handle, content)
        # Where it begins is known only now: another writer can have added something before.
        start = os.lseek(handle, 0, os.SEEK_CUR) - len(content)
        os.fsync(handle)
        if os.pread(handle, len(content), start) != content:
            raise OSError(errno.EIO, "another process wrote to it at the same moment", str(path))
    if new:
        sync_folder(path.parent)
    return pack_file(number), start


def _number(name: str) -> int:
    """The number of a pack; -1 for another file."""
    match = re.fullmatch(r"([0-9]{6})\.pack", name, re.ASCII)
    return int(match[1]) if match else -1
