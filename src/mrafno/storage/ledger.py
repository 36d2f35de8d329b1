"""An append-only log of events in a folder, with arrays in files of their own: what was recorded stays recorded.

A run's folder::

    ledger.jsonl       one event a line, see :mod:`mrafno.storage.events`
    ledger.copy.jsonl  the same lines again, see :mod:`mrafno.storage.ledger_copy`
    arrays/            arrays, each complete on the disk before the event that names it
    lock               the process that writes; the system releases it when that process ends

One process writes at a time. Locks can fail: somebody may remove the lock file, and some network file systems grant
every lock. So before every write the ledger must be the file that was opened, with nothing in it that this writer did
not write. Otherwise the write raises :class:`LedgerError`: lines of another writer are never removed.
"""

import contextlib
import fcntl
import io
import os
import threading
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from mrafno._version import __version__
from mrafno.errors import LedgerError
from mrafno.grids import Array
from mrafno.storage.arrays import ArrayFile, read_array, write_array
from mrafno.storage.events import (
    AFTER,
    ENDING,
    FIRST,
    SUM,
    Event,
    decode_line,
    decode_lines,
    encode_line,
    split_lines,
)  # fmt: skip
from mrafno.storage.files import PART, make_folder, read_bytes, write_all, write_bytes
from mrafno.storage.layout import ARRAYS, LEDGER, LOCK
from mrafno.storage.ledger_copy import LedgerCopy
from mrafno.storage.lock import Lock
from mrafno.storage.new_folder import check_new
from mrafno.storage.packs import pack_arrays
from mrafno.storage.upgrades import FORMAT, UPGRADES, upgraded

__all__ = ["UPGRADES", "Event", "Ledger"]


class Ledger:
    """The events of a run, in order. Any number of processes read, one writes.

    Made by :meth:`create` and :meth:`open`. A writer holds the folder's lock until it is closed, ends or dies.
    """

    #: Increased when a reader of the last version could misread a new event; then UPGRADES needs an entry.
    VERSION: ClassVar[int] = 1

    def __init__(self, folder: Path | str, *, damaged: Literal["refuse", "skip"] = "refuse") -> None:
        # Absolute, because a simulator in this process may change the working directory. Links are not resolved.
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100
        #: The folder as the caller gave it, for messages.
        self.given = Path(folder)
        #: Recorded events. With ``damaged="skip"`` numbers of damaged ones are missing.
        self.events: list[Event] = []
        #: Messages about what was repaired or left out.
        self.damage: list[str] = []
        self._path = self.folder / LEDGER
        self._skip = damaged == "skip"
        self._lock: Lock | None = None
        self._file: io.FileIO | None = None
        self._copy: LedgerCopy | None = None
        self._appending = threading.Lock()
        #: The line of an append that has not returned; all that this writer may remove from the file.
        self._unacknowledged = b""
        self._rewind()

    @classmethod
    def create(cls, folder: Path | str, /, **data: Any) -> Self:
        """Create a ledger, in a new folder or an empty one, and hold its lock.

        Args:
            data: of the first event, "created", in addition to ``format``, ``version`` and ``mrafno``.
        """
        ledger = cls(folder)
        own = {"format": FORMAT, "version": cls.VERSION, "mrafno": __version__}
        if names := sorted(own.keys() & data.keys()):
            raise LedgerError(f"run {folder}: the ledger itself records {', '.join(names)}. Choose other names.")
        line = ledger._encoded("created", {**own, **data})
        try:
            check_new(folder)
            make_folder(ledger.folder)
            ledger._lock = Lock(ledger.folder / LOCK)
            check_new(folder)  # another process may have been faster
            # In one step, so that there is never a ledger without its first event.
            write_bytes(ledger._path, line)
            ledger._open_file()
            ledger._copy = LedgerCopy(ledger.folder, line)
        except OSError as error:
            ledger.close()
            raise LedgerError(
                f"run {folder} could not be created ({error}). Free some space, or choose a folder that you may "
                "write to."
            ) from error
        except BaseException:
            ledger.close()
            raise
        ledger._replay(line)
        return ledger

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        write: bool = False,
        damaged: Literal["refuse", "skip"] = "refuse",
        wait: float = 0.0,
        brief: bool = False,
        lock: Lock | None = None,
    ) -> Self:
        """Read a ledger; with ``write`` also open it for appending.

        A reader takes no lock and changes no file; it ignores an unfinished last line. A writer removes such a line.

        Args:
            damaged: "refuse" raises an error that names the first damaged line. "skip", for readers, leaves such lines
                out and lists them in :attr:`damage`.
            wait, brief: of the writer's lock, see :class:`~mrafno.storage.lock.Lock`.
            lock: the folder's lock, if the caller holds it already; :meth:`close` releases it.
        """
        if write and damaged != "refuse":
            raise LedgerError(f"run {folder}: only a reader can leave damaged lines out. Open it without write=True.")
        ledger = cls(folder, damaged=damaged)
        content = ledger._content()  # first, so that no lock file is made in a folder that holds no run
        try:
            if write:
                ledger._lock = lock or Lock(ledger.folder / LOCK, wait=wait, brief=brief)
                content = ledger._content()
            ledger._replay(content)
            if not ledger.events:
                raise LedgerError(
                    f"{ledger._path} has no whole line: it is damaged or no ledger of mrafno. Restore it from a copy, "
                    "or create the run in another folder."
                )
            if write:
                ledger._open_file()
                ledger._copy = LedgerCopy(ledger.folder, content[: ledger._size])
                ledger._repair()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def append(self, kind: str, /, **data: Any) -> Event:
        """Record an event; when this returns, it is on the disk.

        An error means that nothing was recorded, and the call can be repeated, unless the error says that somebody else
        has written.

        Args:
            data: JSON values. Tuples become lists; NaN, infinity and arrays are refused.
        """
        self._check_writer()
        with self._appending, self._exclusive():
            line = self._encoded(kind, data)
            try:
                self._trim()
                self._unacknowledged = line
                write_all(self._handle, line)
                os.fsync(self._handle)
                if os.fstat(self._handle).st_size != self._size + len(line):
                    # Another writer came between, which locks that work make impossible. Its line must not be cut.
                    raise self._other_writer(1)
            except OSError as error:
                with contextlib.suppress(OSError, LedgerError):
                    self._trim()
                raise LedgerError(
                    f"{self._path}: event {len(self.events)} ({kind}) could not be written ({error}), and nothing of "
                    "it was recorded; what was recorded before is safe. Free some space, then open the run again."
                ) from error
            position = self._size
            [event] = self._replay(line)
            self._unacknowledged = b""
            if self._copy is not None:
                self._copy.extend(position, line)
            return event

    def refresh(self) -> list[Event]:
        """Read events that were appended since, and return them; for a writer there are none.

        If the writer's disk failed and it removed a line that was read here, that event is removed from
        :attr:`events`, and the events recorded in its place are returned.
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
        """Write an array before the event that names it, see :func:`mrafno.storage.arrays.write_array`."""
        self._check_writer()
        with self._appending:
            self._check_file()  # an array of another writer may have the same name
        return write_array(self.folder, name, values)

    def pack_arrays(self, arrays: Sequence[Array]) -> list[ArrayFile]:
        """Write arrays before the event that names them, see :func:`mrafno.storage.packs.pack_arrays`."""
        self._check_writer()
        with self._appending, self._exclusive():
            self._check_file()
            return pack_arrays(self.folder, arrays)

    def read_array(self, array: ArrayFile) -> Array:
        """Read an array that an event names, see :func:`mrafno.storage.arrays.read_array`."""
        return read_array(self.folder, array)

    def close(self) -> None:
        """Release the lock; nothing more can be appended."""
        if self._file is not None:
            self._file.close()
        if self._copy is not None:
            self._copy.close()
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
        """Forget all events that were read."""
        self.events, self.damage = [], []
        # Number of lines read, their size in bytes, and their last bytes, which show whether the file was changed.
        self._lines, self._size, self._ending = 0, 0, b""
        #: Bytes of an unfinished line after them.
        self._torn = 0

    def _replay(self, content: bytes) -> list[Event]:
        """Decode bytes that follow those already read, and keep their events; on an error nothing is kept."""
        lines, torn = split_lines(content)
        last: bytes | None = self._ending[:16] or FIRST
        number = self.events[-1].number if self.events else -1
        events: list[Event] = []
        notes: list[str] = []
        decoded = decode_lines(lines)
        for row, (line, (event, version, fault)) in enumerate(zip(lines, decoded, strict=True), self._lines + 1):
            if event is None:
                if not self._skip:
                    raise self._damaged(row, fault)
                notes.append(f"line {row} was left out: {fault}.")
                last = None  # any line may follow
                continue
            if line[AFTER] != last or event.number != number + 1:
                fault = "it does not follow the line before it, as if a line was removed, added, moved or changed"
                if not self._skip:
                    raise self._damaged(row, fault)
                if event.number <= number:
                    notes.append(f"line {row} was left out: event {event.number} does not belong after {number}.")
                    continue
                if last is not None:
                    notes.append(f"line {row} was read, but {fault}.")
            if event.number == 0 or version != self.VERSION:
                event = upgraded(event, version, self.VERSION, f"{self._path}: line {row}")
            events.append(event)
            last, number = line[SUM], event.number
        whole = content[: len(content) - len(torn)]
        self._lines, self._size, self._torn = self._lines + len(lines), self._size + len(whole), len(torn)
        self._ending = (self._ending + whole[-ENDING:])[-ENDING:]
        self.events += events
        self.damage += notes
        return events

    def _damaged(self, row: int, fault: str) -> LedgerError:
        foreign = ", or the file is no ledger of mrafno" if row == 1 else ""
        return LedgerError(
            f"{self._path}: line {row} is damaged: {fault}{foreign}. Run `mrafno repair {self.given}`, restore the "
            'file from a copy, or read the rest with Ledger.open(..., damaged="skip").'
        )

    # Writing.

    @property
    def _handle(self) -> int:
        assert self._file is not None
        return self._file.fileno()

    def _check_writer(self) -> None:
        if self._lock is None or not self._lock.held:
            raise LedgerError(
                f"run {self.folder} is not open for writing here: it was opened for reading, was closed, or was opened "
                "by the process that forked this one. Open it with write=True."
            )

    def _open_file(self) -> None:
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        except OSError as error:
            raise LedgerError(
                f"{self._path} cannot be opened for writing ({error.strerror}). Change its permissions, or open "
                "the run without write=True."
            ) from error
        self._file = io.FileIO(handle, "r+")

    def _encoded(self, kind: str, data: dict[str, Any]) -> bytes:
        """The line of the next event."""
        number, after = len(self.events), self._ending[:16] or FIRST
        try:
            line = encode_line(self.VERSION, number, kind, data, after)
        except (TypeError, ValueError, RecursionError) as error:
            raise LedgerError(
                f"{self._path}: event {number} ({kind}) was not recorded: {error}. An event holds JSON values, and of "
                "numbers finite ones; for arrays there is write_array."
            ) from error
        if not kind or decode_line(line[:-1])[0] is None:
            raise LedgerError(f"{self._path}: event {number} was not recorded: its kind must be a word, not {kind!r}.")
        return line

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold a lock on the ledger file itself: another writer, whose lock file may be another one, waits."""
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _check_file(self) -> bool:
        """Raise unless the ledger is the file that was opened, and as this writer left it.

        Returns whether something of this writer's own last append is left, which did not return.
        """
        opened = os.fstat(self._handle)
        try:
            found = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116
        except FileNotFoundError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino):
            raise LedgerError(
                f"{self._path} was replaced or removed by somebody else, so nothing more is recorded here. Open the "
                "run again to continue with the file that is there now."
            )
        if opened.st_size < self._size:
            raise LedgerError(f"{self._path} was shortened by somebody else meanwhile. Restore it from a copy.")
        if opened.st_size == self._size:
            return False
        surplus = os.pread(self._handle, opened.st_size - self._size, self._size)
        if not self._unacknowledged.startswith(surplus):
            raise self._other_writer(surplus.count(b"\n"))
        return True

    def _other_writer(self, lines: int) -> LedgerError:
        number = "1 line" if lines == 1 else f"{lines} lines"
        return LedgerError(
            f"{self._path}: somebody else has written to it ({number}) while this process held the run. Nothing of "
            "theirs was changed, and this run stops here. Make sure that one process at a time writes the run (was its "
            "lock file removed, or does its file system ignore locks?), then open it again."
        )

    def _trim(self) -> None:
        """Remove what is left of this writer's own last append, if that did not return."""
        if self._check_file():
            os.ftruncate(self._handle, self._size)
            os.fsync(self._handle)
        self._unacknowledged = b""

    def _repair(self) -> None:
        """Remove what a writer left that died in the middle of a line or of an array."""
        arrays = self.folder / ARRAYS
        try:
            with self._exclusive():
                self._unacknowledged = os.pread(self._handle, self._torn, self._size)
                self._trim()
            for path in () if arrays.is_symlink() else arrays.glob(f".*{PART}"):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise LedgerError(f"run {self.folder}: what was not finished cannot be removed ({error}).") from error
        if self._torn:
            self.damage.append(f"line {self._lines + 1}, the last, was not finished: {self._torn} bytes were removed.")
