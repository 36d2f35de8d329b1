"""An append-only log of events in a folder, with arrays in files of their own: what was recorded stays recorded.

A run's folder::

    ledger.jsonl       one event a line
    arrays/<name>.npy  arrays, each on the disk as a whole before the event that names it
    lock               who writes; the system releases it when that process ends

Every line is a JSON object, so that other tools can read the file too::

    {"v":1,"n":3,"t":1735689600.25,"kind":"told","data":{...},"after":"<16 digits>","sum":"<16 digits>"}

``v`` is the version of the format, ``n`` the event's number, ``t`` seconds since the epoch. ``sum`` is the beginning of
the SHA-256 (in hex) of all that stands before its digits on the line, and ``after`` is the ``sum`` of the line before,
zeros on the first line. So a changed line does not fit its own sum, and a line that was removed, added or moved does
not fit its neighbours. What ``data`` means may change with the version; this layout does not.

A line without its end is a write that never finished, and so is a last line with zero bytes, which file systems leave
after a crash of the machine. It is no event: its append did not return. The next writer removes it.
"""

import contextlib
import io
import json
import os
import re
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from mrafno._version import __version__
from mrafno.errors import LedgerError
from mrafno.grids import Array
from mrafno.storage.arrays import ArrayFile, read_array, write_array
from mrafno.storage.checksum import seal, seal_is_valid
from mrafno.storage.files import PART, make_folder, read_bytes, write_all, write_bytes
from mrafno.storage.layout import ARRAYS, LEDGER, LOCK
from mrafno.storage.lock import Lock

_FORMAT = "mrafno run"
_FIRST = b"0" * 16
_SEPARATORS = (",", ":")
#: Where on a line the two sums stand: ``..."after":"<16 digits>","sum":"<16 digits>"}``.
_AFTER, _SUM = slice(-43, -27), slice(-18, -2)
#: Bytes from the sum to the end of the line.
_ENDING = 19


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    #: Its position in the ledger: 0, 1, 2 ...
    number: int
    #: "created", "asked", "told", ...
    kind: str
    #: Seconds since the epoch, UTC.
    time: float
    #: JSON values.
    data: dict[str, Any]


#: From each older version, how one of its events becomes one of the next version.
UPGRADES: dict[int, Callable[[Event], Event]] = {}


class Ledger:
    """Events of a run, in order. Any number of processes read, one writes.

    Made by :meth:`create` and :meth:`open`. A writer holds the folder's lock until it is closed, ends or dies.
    """

    #: Raised when a reader of the last version could misread a new event; then UPGRADES learns to read the last's.
    VERSION: ClassVar[int] = 1

    def __init__(self, folder: Path | str, *, damaged: Literal["refuse", "skip"] = "refuse") -> None:
        self.folder = Path(folder)
        #: What was recorded. Where damaged lines are left out, their numbers are missing.
        self.events: list[Event] = []
        #: What was repaired or left out, in words.
        self.damage: list[str] = []
        self._path = self.folder / LEDGER
        self._skip = damaged == "skip"
        self._lock: Lock | None = None
        self._file: io.FileIO | None = None
        self._appending = threading.Lock()
        self._rewind()

    @classmethod
    def create(cls, folder: Path | str, /, **data: Any) -> Self:
        """Begin a ledger, in a new folder or an empty one, and hold its lock.

        Args:
            data: what the first event, "created", says beside ``format``, ``version`` and ``mrafno``.
        """
        ledger = cls(folder)
        own = {"format": _FORMAT, "version": cls.VERSION, "mrafno": __version__}
        if names := sorted(own.keys() & data.keys()):
            raise LedgerError(f"run {folder}: the ledger itself says {', '.join(names)}. Choose other names.")
        line = ledger._encoded("created", {**own, **data})
        try:
            ledger._check_new()
            make_folder(ledger.folder)
            ledger._lock = Lock(ledger.folder / LOCK)
            ledger._check_new()  # somebody else may have been faster
            # In one step: there is never a ledger without its first event.
            write_bytes(ledger._path, line)
            ledger._open_file()
        except OSError as error:
            ledger.close()
            raise LedgerError(
                f"run {folder} could not be created ({error}). Make room, or choose a folder that you may write to."
            ) from error
        except BaseException:
            ledger.close()
            raise
        ledger._replay(line)
        return ledger

    @classmethod
    def open(cls, folder: Path | str, *, write: bool = False, damaged: Literal["refuse", "skip"] = "refuse") -> Self:
        """Read a ledger, and with ``write`` go on with it.

        A reader takes no lock and changes no file; a last line that is not finished, or not yet, it does not see. A
        writer removes such a line.

        Args:
            damaged: "refuse" raises an error that names the first damaged line. "skip", for readers, leaves such lines
                out and says so in :attr:`damage`.
        """
        if write and damaged != "refuse":
            raise LedgerError(f"run {folder}: only a reader can leave damaged lines out. Open it without write=True.")
        ledger = cls(folder, damaged=damaged)
        content = ledger._content()  # before a lock file is left in a folder that is no run's
        try:
            if write:
                ledger._lock = Lock(ledger.folder / LOCK)
                content = ledger._content()
            ledger._replay(content)
            if not ledger.events:
                raise LedgerError(
                    f"{ledger._path} has no whole line: it is damaged or no ledger of mrafno. Restore it from a copy, "
                    "or create the run in another folder."
                )
            if write:
                ledger._open_file()
                ledger._repair()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def append(self, kind: str, /, **data: Any) -> Event:
        """Record an event; when this returns, it is on the disk.

        An error means that nothing was recorded and that the ledger is as before; the call can be repeated.

        Args:
            data: JSON values. Tuples become lists; NaN, infinity and arrays are refused.
        """
        self._check_writer()
        with self._appending:
            line = self._encoded(kind, data)
            try:
                self._trim()
                write_all(self._handle, line)
                os.fsync(self._handle)
            except OSError as error:
                with contextlib.suppress(OSError):
                    self._trim()
                raise LedgerError(
                    f"{self._path}: event {len(self.events)} ({kind}) could not be written ({error}), and nothing of "
                    "it was recorded; what was recorded before is safe. Free some space, then open the run again."
                ) from error
            return self._replay(line)[0]

    def refresh(self) -> list[Event]:
        """Read what was appended since, and return it. A writer knows all of it already.

        If the writer's disk failed and it took back a line that was seen here, that event is gone from
        :attr:`events`, and what was recorded in its place is returned.
        """
        if self._lock is not None:
            return []
        content = self._content(self._size - len(self._ending))
        if content.startswith(self._ending):
            return self._replay(content[len(self._ending) :])
        before = dict(vars(self))
        try:
            self._rewind()
            self._replay(self._content())
        except LedgerError:
            vars(self).update(before)
            raise
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before["events"], self.events, strict=False))
        return self.events[len(list(same)) :]

    def write_array(self, name: str, values: Array) -> ArrayFile:
        """Put an array on the disk before an event names it, see :func:`mrafno.storage.arrays.write_array`."""
        self._check_writer()
        return write_array(self.folder, name, values)

    def read_array(self, array: ArrayFile) -> Array:
        """An array that an event names; one that is missing or not what the event says is an error."""
        return read_array(self.folder, array)

    def close(self) -> None:
        """Release the lock; nothing more can be appended."""
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading.

    def _content(self, start: int = 0) -> bytes:
        return read_bytes(self._path, start=start, advice="Give the folder of a run, or restore it from a copy.")

    def _rewind(self) -> None:
        """Nothing is read yet."""
        self.events, self.damage = [], []
        # Whole lines read, their bytes, and the last of these, by which a change behind our back shows.
        self._lines, self._size, self._ending = 0, 0, b""
        #: Bytes after them.
        self._torn = 0

    def _replay(self, content: bytes) -> list[Event]:
        """Take in bytes that follow those already read; on an error nothing is taken in."""
        lines, torn = _split(content)
        last: bytes | None = self._ending[:16] or _FIRST
        number = self.events[-1].number if self.events else -1
        events: list[Event] = []
        notes: list[str] = []
        for row, line in enumerate(lines, self._lines + 1):
            event, version, fault = _decoded(line)
            if event is None:
                if not self._skip:
                    raise self._damaged(row, fault)
                notes.append(f"line {row} was left out: {fault}.")
                last = None  # any line may follow
                continue
            if line[_AFTER] != last or event.number != number + 1:
                fault = "it does not follow the line before it, as if a line was removed, added, moved or changed"
                if not self._skip:
                    raise self._damaged(row, fault)
                if event.number <= number:
                    notes.append(f"line {row} was left out: event {event.number} does not belong after {number}.")
                    continue
                if last is not None:
                    notes.append(f"line {row} was read, but {fault}.")
            if event.number == 0 or version != self.VERSION:
                event = self._checked(event, version, row)
            events.append(event)
            last, number = line[_SUM], event.number
        whole = content[: len(content) - len(torn)]
        self._lines, self._size, self._torn = self._lines + len(lines), self._size + len(whole), len(torn)
        self._ending = (self._ending + whole[-_ENDING:])[-_ENDING:]
        self.events += events
        self.damage += notes
        return events

    def _checked(self, event: Event, version: int, row: int) -> Event:
        """An event as this version writes it."""
        if event.number == 0 and (event.kind != "created" or event.data.get("format") != _FORMAT):
            raise LedgerError(f"{self._path} is no ledger of mrafno. Give the folder of a run.")
        if version > self.VERSION:
            writer = f"mrafno {event.data['mrafno']}" if "mrafno" in event.data else "a newer mrafno"
            raise LedgerError(
                f"{self._path}: line {row} was written by {writer} in format {version}. This is mrafno {__version__}, "
                f"which reads formats up to {self.VERSION}: upgrade it."
            )
        while version < self.VERSION:
            if version not in UPGRADES:
                raise LedgerError(
                    f"{self._path}: line {row} is in format {version}, which mrafno {__version__} does not read. Use "
                    "the mrafno that wrote it."
                )
            event = UPGRADES[version](event)
            version += 1
        return event

    def _damaged(self, row: int, fault: str) -> LedgerError:
        foreign = ", or the file is no ledger of mrafno" if row == 1 else ""
        return LedgerError(
            f"{self._path}: line {row} is damaged: {fault}{foreign}. Restore the file from a copy, or read the rest "
            'with Ledger.open(..., damaged="skip").'
        )

    # Writing.

    @property
    def _handle(self) -> int:
        assert self._file is not None
        return self._file.fileno()

    def _check_new(self) -> None:
        if os.path.lexists(self._path):
            raise LedgerError(
                f"run {self.folder} exists already. Go on with it (mrafno resume {shlex.quote(str(self.folder))}, or "
                "Run.open from Python), or choose another folder."
            )
        found = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        # A creation that was killed leaves its lock behind, and perhaps a hidden file.
        if others := sorted(name for name in found if not name.startswith((".", LOCK))):
            raise LedgerError(
                f"run {self.folder}: the folder holds other files ({others[0]}{', ...' if others[1:] else ''}) and no "
                "run. Choose a new folder, or an empty one."
            )

    def _check_writer(self) -> None:
        if self._lock is None or not self._lock.held:
            raise LedgerError(
                f"run {self.folder} is not open for writing here: it was opened for reading, was closed, or was opened "
                "by the process that forked this one. Open it with write=True."
            )

    def _open_file(self) -> None:
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        except OSError as error:
            raise LedgerError(
                f"{self._path} cannot be opened for writing ({error.strerror}). Change its rights, or only read it."
            ) from error
        self._file = io.FileIO(handle, "a")

    def _encoded(self, kind: str, data: dict[str, Any]) -> bytes:
        """The line of the next event."""
        number, after = len(self.events), self._ending[:16] or _FIRST
        values = {"v": self.VERSION, "n": number, "t": time.time(), "kind": kind, "data": data, "after": after.decode()}
        try:
            text = json.dumps(values, separators=_SEPARATORS, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise LedgerError(
                f"{self._path}: event {number} ({kind}) was not recorded: {error}. An event holds JSON values, and of "
                "numbers finite ones; for arrays there is write_array."
            ) from error
        line = seal(text.encode(), "sum", separators=_SEPARATORS) + b"\n"
        if not kind or _decoded(line[:-1])[0] is None:
            raise LedgerError(f"{self._path}: event {number} was not recorded: its kind must be a word, not {kind!r}.")
        return line

    def _trim(self) -> None:
        """Remove what stands after the last whole line: it is of an append that did not return."""
        size = os.fstat(self._handle).st_size
        if size < self._size:
            raise LedgerError(f"{self._path} was shortened by somebody else meanwhile. Restore it from a copy.")
        if size > self._size:
            os.ftruncate(self._handle, self._size)
            os.fsync(self._handle)

    def _repair(self) -> None:
        """Leave nothing behind of a writer that died in the middle of a line or of an array."""
        arrays = self.folder / ARRAYS
        try:
            self._trim()
            for path in () if arrays.is_symlink() else arrays.glob(f".*{PART}"):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise LedgerError(f"run {self.folder}: what was not finished cannot be removed ({error}).") from error
        if self._torn:
            self.damage.append(f"line {self._lines + 1}, the last, was not finished: {self._torn} bytes were removed.")


def _split(content: bytes) -> tuple[list[bytes], bytes]:
    """Lines, and what follows them: nothing, or a write that did not finish."""
    lines = content.split(b"\n")
    torn = lines.pop()
    if not torn and lines and b"\0" in lines[-1]:
        torn = lines.pop() + b"\n"
    for end in re.finditer(rb'"sum":"[0-9a-f]{16}"}', torn):
        if torn[end.end() :].strip(b"\0\n") and _decoded(torn[: end.end()])[0] is not None:
            # It begins with an event that was recorded, and only lost the end of its line: no writer may remove it.
            return [*lines, torn], b""
    return lines, torn


def _decoded(line: bytes) -> tuple[Event | None, int, str]:
    """The event of a line and the version it is in, or what is wrong with the line."""
    if not seal_is_valid(line):
        return None, 0, "its checksum does not fit"
    try:
        values = json.loads(line.decode("ascii"))
        event = Event(values["n"], values["kind"], values["t"], values["data"])
        version = values["v"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, 0, "it is no event"
    if (
        type(event.number) is not int
        or type(version) is not int
        or not isinstance(event.kind, str)
        or not isinstance(event.time, float)
        or not isinstance(event.data, dict)
    ):
        return None, 0, "it is no event"
    return event, version, ""
