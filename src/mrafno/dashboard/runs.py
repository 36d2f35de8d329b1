"""The runs under a folder and their current state.

A run is known by its path relative to the folder. Names in requests are looked up among the runs that were found, and
never made into paths. Links to folders are not followed, so nothing outside the folder is a run.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mrafno.dashboard.views import Row, blank_row, row
from mrafno.errors import LedgerError, MrafnoError
from mrafno.run.reader import RunReader
from mrafno.storage.layout import LEDGER, LOCK, NOTES, STATUS
from mrafno.storage.lock import LockState, lock_state

#: Identifies the content of a file; None if there is no file.
Version = tuple[int, ...] | None
#: Identifies a ledger, the state of its lock, the driver's status and the notes.
Standpoint = tuple[Version, LockState, Version, Version]
#: Depth of the search for runs below the folder.
DEPTH = 5
#: Least seconds between two searches for runs, absolute and as a multiple of the duration of a search.
_SEARCH_SECONDS, _SEARCH_SHARE = 1.0, 10.0


def file_version(path: Path) -> Version:
    """Size and times of a file itself, not of the target of a link."""
    try:
        found = path.lstat()
    except OSError:
        return None
    # The change time detects changed permissions, and the inode number a replaced file.
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class WatchedRun:
    """A run that may be advancing; safe for any number of threads.

    Args:
        name: its path below the folder of all runs.
        folder: the run's directory.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        #: Held while the surrogate is loaded or predicts, which may take long; not the lock of :meth:`reading`.
        self.predicting = threading.Lock()
        self._lock = threading.Lock()
        self._reader: RunReader | None = None
        self._problem: MrafnoError | None = None
        self._seen: Version = None
        self._row: tuple[Standpoint, Row] | None = None

    @property
    def version(self) -> Version:
        """Version of its ledger; None if the run is gone, or replaced by a link."""
        return file_version(self.folder / LEDGER) if os.path.realpath(self.folder) == str(self.folder) else None

    @property
    def lock(self) -> LockState:
        """Whether a process advances it; the ledger alone does not show that a process was killed."""
        return lock_state(self.folder / LOCK)

    @property
    def standpoint(self) -> Standpoint:
        """Changes with everything that a row and the key figures are made of."""
        return self.version, self.lock, file_version(self.folder / STATUS), file_version(self.folder / NOTES)

    @contextmanager
    def reading(self) -> Iterator[RunReader]:
        """The current reader of the run, for one thread at a time; raises LedgerError if it cannot be read."""
        with self._lock, _as_ledger_error(self.name):
            yield self._current(self.version)

    def row(self, *, read: bool = True) -> tuple[Row, bool]:
        """The run's row of the list, and whether it is up to date; never blocks.

        Args:
            read: whether to read new events.
        """
        now = self.standpoint
        known = self._row is not None and self._row[0] == now
        if not known and read and self._lock.acquire(blocking=False):
            try:
                self._row, known = (now, self._made_row(now[0])), True
            finally:
                self._lock.release()
        return (blank_row(self.name) if self._row is None else self._row[1]), known

    def _made_row(self, version: Version) -> Row:
        try:
            with _as_ledger_error(self.name):
                return row(self.name, self._current(version))
        except MrafnoError as error:
            return blank_row(self.name, str(error), None if version is None else version[2] / 1e9)

    def _current(self, version: Version) -> RunReader:
        if version is None:
            raise LedgerError(f"run {self.name} does not exist any more.")
        if version != self._seen:
            self._seen, self._problem = version, None
            try:
                with _as_ledger_error(self.name):
                    if self._reader is None:
                        self._reader = RunReader(self.folder)
                    else:
                        self._reader.refresh()
            except MrafnoError as error:
                self._reader, self._problem = None, error
        if self._reader is None:
            raise self._problem or LedgerError(f"run {self.name} cannot be read.")
        return self._reader


@contextmanager
def _as_ledger_error(name: str) -> Iterator[None]:
    """Turn unexpected errors into LedgerError: a file named like a ledger may have any content."""
    try:
        yield
    except MrafnoError:
        raise
    except Exception as error:
        raise LedgerError(f"run {name}: its ledger cannot be interpreted ({type(error).__name__}: {error}).") from error


class Runs:
    """The runs under a folder, by their names.

    Args:
        folder: to search; it may be a run itself, whose name is then ``.``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        if not self.folder.is_dir():
            raise MrafnoError(f"dashboard: {folder} is not a folder. Give a folder with runs in it, at any depth.")
        self._known: dict[str, WatchedRun] = {}
        self._next = 0.0
        self._lock = threading.Lock()

    def all(self) -> list[WatchedRun]:
        """All runs, by name."""
        with self._lock:
            start = time.monotonic()
            if start >= self._next:
                found = dict(_search(self.folder, self.folder, DEPTH))
                self._known = {name: self._known.get(name) or WatchedRun(name, found[name]) for name in sorted(found)}
                took = time.monotonic() - start
                self._next = time.monotonic() + max(_SEARCH_SECONDS, _SEARCH_SHARE * took)
            return list(self._known.values())

    def get(self, name: str) -> WatchedRun | None:
        """The run of this name, if it exists; a known one needs no search."""
        if name not in self._known:
            self.all()
        found = self._known.get(name)
        return found if found is not None and found.version is not None else None


def _search(folder: Path, top: Path, depth: int) -> Iterator[tuple[str, Path]]:
    """Names and folders of runs; hidden and unreadable folders and the insides of runs are skipped."""
    if file_version(folder / LEDGER) is not None:
        # As text for addresses, whatever bytes the file system allows in names.
        yield os.fsencode(folder.relative_to(top)).decode("utf-8", "backslashreplace"), folder
    elif depth:
        try:
            with os.scandir(folder) as entries:
                inside = [e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")]
        except OSError:
            return
        for name in inside:
            yield from _search(folder / name, top, depth - 1)
