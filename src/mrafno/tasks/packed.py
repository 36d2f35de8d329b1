"""Packed files that anybody may have made: a small one must not fill the memory."""

import zipfile

from mrafno.errors import MrafnoError

#: Bytes that any file may unpack to, and the multiple of its own bytes that a larger one may.
_MOST_UNPACKED, _MOST_TIMES = 2**28, 20


def check_unpacked(file: zipfile.ZipFile, packed: int, where: str, error: type[MrafnoError]) -> None:
    """Raise ``error`` for a small file that would unpack to gigabytes, before it does.

    Args:
        packed: how many bytes the file has.
    """
    unpacked = sum(member.file_size for member in file.infolist())
    if unpacked > max(_MOST_UNPACKED, _MOST_TIMES * packed):
        raise error(
            f"{where}: {packed / 1e6:.3g} MB unpack to {unpacked / 1e6:.6g} MB, more than {_MOST_TIMES} times as many. "
            "If this is your own file, write it with numpy.savez, which does not compress."
        )
