"""Runs under a folder: which there are, and what each of them says now.

A run is known by its path relative to the folder, and only by looking: no path is ever made from what somebody asks
for. Links to folders are not followed, so nothing outside the folder is a run.
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
from mrafno.storage.layout import LEDGER, LOCK
from mrafno.storage.lock import LockState, lock_state

#: What changes when a file does; None if there is none.
Version = tuple[int, ...] | None
#: How far below the folder runs are looked for.
DEPTH = 5
#: Seconds between two searches for runs, and how many times longer than a search the time between two is at least.
_PAUSE, _SHARE = 1.0, 10.0


def file_version(path: Path) -> Version:
    """Size and times of a file itself, not of what it links to."""
    try:
        found = path.lstat()
    except OSError:
        return None
    # The time of the last change also tells of changed rights, and the number of the file of one put in its place.
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Watched:
    """A run that may be advancing meanwhile; for any number of threads.

    Args:
        name: what it is known by.
        folder: where it is.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        #: Held while the surrogate is loaded or asked, which may take long: it is not :meth:`reading`'s.
        self.predicting = threading.Lock()
        self._lock = threading.Lock()
        self._reader: RunReader | None = None
        self._problem: MrafnoError | None = None
        self._seen: Version = None
        self._row: tuple[tuple[Version, LockState], Row] | None = None

    @property
    def version(self) -> Version:
        """Of its ledger, now; None if there is no such run any more, or a link in its place."""
        return file_version(self.folder / LEDGER) if os.path.realpath(self.folder) == str(self.folder) else None

    @property
    def lock(self) -> LockState:
        """Whether a process drives it: a driver that is killed changes nothing in the ledger."""
        return lock_state(self.folder / LOCK)

    @contextmanager
    def reading(self) -> Iterator[RunReader]:
        """The run as it is now, to be looked at by one thread at a time; an error if it cannot be read."""
        with self._lock, _sense(self.name):
            yield self._current(self.version)

    def row(self, *, read: bool = True) -> tuple[Row, bool]:
        """The run's line in a list, and whether it is up to date; nobody is waited for.

        Args:
            read: whether there is time to read what is new.
        """
        now = self.version, self.lock
        known = self._row is not None and self._row[0] == now
        if not known and read and self._lock.acquire(blocking=False):
            try:
                self._row, known = (now, self._made_row(now[0])), True
            finally:
                self._lock.release()
        return (blank_row(self.name) if self._row is None else self._row[1]), known

    def _made_row(self, version: Version) -> Row:
        try:
            with _sense(self.name):
                return row(self.name, self._current(version))
        except MrafnoError as error:
            return blank_row(self.name, str(error), None if version is None else version[2] / 1e9)

    def _current(self, version: Version) -> RunReader:
        if version is None:
            raise LedgerError(f"run {self.name} is gone.")
        if version != self._seen:
            self._seen, self._problem = version, None
            try:
                with _sense(self.name):
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
def _sense(name: str) -> Iterator[None]:
    """Anything may stand in a file that somebody calls a ledger, and the other runs must not suffer from it."""
    try:
        yield
    except MrafnoError:
        raise
    except Exception as error:
        raise LedgerError(f"run {name}: its ledger makes no sense ({type(error).__name__}: {error}).") from error


class Runs:
    """The runs under a folder, by their names.

    Args:
        folder: where to look; it may be a run itself, whose name is then ``.``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        if not self.folder.is_dir():
            raise MrafnoError(f"dashboard: {folder} is no folder. Give one that has runs in it, at any depth.")
        self._known: dict[str, Watched] = {}
        self._next = 0.0
        self._lock = threading.Lock()

    def all(self) -> list[Watched]:
        """Every run there is, by name."""
        with self._lock:
            start = time.monotonic()
            if start >= self._next:
                found = dict(_found(self.folder, self.folder, DEPTH))
                self._known = {name: self._known.get(name) or Watched(name, found[name]) for name in sorted(found)}
                took = time.monotonic() - start
                self._next = time.monotonic() + max(_PAUSE, _SHARE * took)
            return list(self._known.values())

    def get(self, name: str) -> Watched | None:
        """The run of this name, if there is one; for a known one nobody has to look around."""
        if name not in self._known:
            self.all()
        found = self._known.get(name)
        return found if found is not None and found.version is not None else None


def _found(folder: Path, top: Path, depth: int) -> Iterator[tuple[str, Path]]:
    """Names and folders of runs; there are none inside a run, nor in folders that are hidden or cannot be read."""
    if file_version(folder / LEDGER) is not None:
        # As text that an address can hold, whatever bytes the system allows in names.
        yield os.fsencode(folder.relative_to(top)).decode("utf-8", "backslashreplace"), folder
    elif depth:
        try:
            with os.scandir(folder) as entries:
                inside = [e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")]
        except OSError:
            return
        for name in inside:
            yield from _found(folder / name, top, depth - 1)
