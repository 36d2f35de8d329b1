"""A second copy of a ledger's lines, in the same folder, from which damaged lines are restored.

The writer adds each line after it is on the disk in the ledger itself, and does not sync the copy: after a crash of the
machine its end may be missing. So the copy is never ahead of an intact ledger. Where it is, the ledger was cut off,
which nothing in the ledger's own lines shows.
"""

import contextlib
import io
import os
from pathlib import Path

from mrafno.errors import LedgerError
from mrafno.storage.events import AFTER, SUM, decode_line, split_lines
from mrafno.storage.files import is_regular, read_bytes, write_bytes
from mrafno.storage.layout import LEDGER, LEDGER_COPY


class LedgerCopy:
    """The copy, as the ledger's writer keeps it. Nothing that goes wrong with it stops the writer.

    Args:
        content: all lines of the ledger, which are intact.

    Raises:
        LedgerError: the ledger lacks lines at its end that the copy has.
    """

    def __init__(self, folder: Path, content: bytes) -> None:
        path = folder / LEDGER_COPY
        self._file: io.FileIO | None = None
        known = read_copy(folder)
        if lines := missing_lines(content, known):
            raise LedgerError(
                f"run {folder}: {LEDGER} lacks the last {len(lines)} of its lines, which {LEDGER_COPY} has: it was cut "
                f"off, or replaced by an older one. `mrafno repair {folder}` restores them. If the older one is "
                f"wanted, remove {LEDGER_COPY}."
            )
        with contextlib.suppress(OSError):
            if not content.startswith(known):
                write_bytes(path, content, durable=False)
                known = content
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            self._file = io.FileIO(handle, "r+")
            self.extend(len(known), content[len(known) :])

    def extend(self, position: int, content: bytes) -> None:
        """Add what the ledger has from this position on."""
        if self._file is not None and content:
            # If some of it does not fit, the next writer finds the difference.
            with contextlib.suppress(OSError):
                os.pwrite(self._file.fileno(), content, position)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def read_copy(folder: Path) -> bytes:
    """The bytes of the copy; nothing if there is none that can be read."""
    try:
        return read_bytes(folder / LEDGER_COPY)
    except LedgerError:
        return b""


def copy_is_no_file(folder: Path) -> bool:
    """Whether something else is in the place of the copy, a folder or a link, so that none can be kept."""
    path = folder / LEDGER_COPY
    return os.path.lexists(path) and not is_regular(path)


def missing_lines(content: bytes, copy: bytes) -> list[bytes]:
    """Whole lines that follow the ledger's last one in the copy, without their newlines."""
    if len(copy) <= len(content) or not copy.startswith(content):
        return []
    last = content[-1 + SUM.start : -1 + SUM.stop]
    found: list[bytes] = []
    for line in split_lines(copy[len(content) :])[0]:
        if decode_line(line)[0] is None or (last and line[AFTER] != last):
            break
        found.append(line)
        last = line[SUM]
    return found
