"""A lock on a folder, held by one process at a time and released by its death."""

import contextlib
import errno
import fcntl
import io
import json
import os
import random
import secrets
import shlex
import socket
import sys
import time
import weakref
from pathlib import Path
from typing import Any, Literal

from mrafno.errors import LedgerError, LedgerLockedError
from mrafno.storage.files import read_bytes, write_all

#: Errors of flock on a file system without it (ENOSYS on Lustre mounted without it), and of a lock that is held.
_NO_FLOCK = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS)
_TAKEN = (errno.EAGAIN, errno.EACCES)
#: First bytes of a lock's file: none, those of a holder, or what a crash of the machine left.
_BEGINNINGS = (b"", b"{", b"\0")
#: Seconds to wait for a holder that releases the lock in a moment, and for one that did not say yet who it is.
_BRIEF, _UNKNOWN = 10.0, 0.2
#: States of a lock, see :func:`lock_state`.
LockState = Literal["free", "held", "left"]


class Lock:
    """The exclusive right to write in a folder.

    It is a ``flock`` on a file, which the kernel releases when the holder ends, however it ends; the file itself stays.
    Its content says who holds it, for people and for the error message. Processes that the holder starts or forks do
    not hold the lock: they would keep it after the holder's death.

    Where the file system has no ``flock``, the existence of a second file, ``<name>.pid``, is the lock. It is taken
    over if the process it names was on this host and is dead; for a process of another host that cannot be known.

    Args:
        wait: seconds to wait for a lock that is held. A holder that said it is brief is waited for in any case.
        brief: say that the lock will be released in a moment.

    Raises:
        LedgerLockedError: another process, or this one, holds the lock.
    """

    def __init__(self, path: Path, *, wait: float = 0.0, brief: bool = False) -> None:
        self.path, self.brief = path, brief
        self._substitute: Path | None = None
        start = time.monotonic()
        while True:
            try:
                self._open()
                return
            except LedgerLockedError as error:
                left = start + max(wait, 0.0 if brief else error.patience) - time.monotonic()
                if left <= 0:
                    raise
                # At random, so that many who wait do not try at the same moments.
                time.sleep(min(left, random.uniform(0.02, 0.1)))

    def _open(self) -> None:
        path = self.path
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError as error:
            raise LedgerError(
                f"{path} cannot be opened for writing ({error.strerror}). It must be a file, in a folder that you may "
                "write to; to read a run you need not."
            ) from error
        self._file = io.FileIO(handle, "r+")
        try:
            self._take()
        except BaseException:
            self._file.close()
            raise
        _LOCKS.add(self)

    @property
    def held(self) -> bool:
        """Whether this process holds the lock: not after release, and not in a forked child."""
        return not self._file.closed

    def release(self) -> None:
        """Release the lock; nothing happens in a process that does not hold it."""
        if not self.held:
            return
        with contextlib.suppress(OSError):
            self._file.truncate(0) if self._substitute is None else self._substitute.unlink(missing_ok=True)
        self._file.close()

    def _take(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _TAKEN:
                raise self._refusal(self._file.readall()) from None
            if error.errno not in _NO_FLOCK:
                raise LedgerError(f"{self.path} cannot be locked ({error}). Use another file system.") from error
            self._take_substitute()
            return
        if self._file.read(1) not in _BEGINNINGS:
            raise LedgerError(f"{self.path} is not a lock of mrafno. Choose another folder, or move it away.")
        # The lock is held even if the disk is too full to write who holds it.
        with contextlib.suppress(OSError):
            self._file.truncate(0)
            os.pwrite(self._file.fileno(), _holder(self.brief), 0)

    def _take_substitute(self) -> None:
        path = self.path.with_name(f"{self.path.name}.pid")
        for _ in range(2):
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
                with io.FileIO(handle, "w"):
                    self._substitute = path
                    write_all(handle, _holder(self.brief))
                return
            except FileExistsError:
                self._clear_substitute(path)
            except OSError as error:
                self.release()
                raise LedgerError(
                    f"{path} cannot be written ({error}). Free some space, or change its permissions."
                ) from error
        raise self._refusal(b"", path)

    def _clear_substitute(self, path: Path) -> None:
        """Remove the file of a dead process; raise if the process may be alive."""
        content = read_bytes(path, advice="Try again.")
        if not self._stale(path, content):
            raise self._refusal(content, path)
        # Two processes may do this at once: the second must not remove the new file of the first.
        aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        with contextlib.suppress(FileNotFoundError):
            path.rename(aside)
            if aside.read_bytes() != content:
                aside.rename(path)
                raise self._refusal(b"", path)
            aside.unlink()

    def _stale(self, path: Path, content: bytes) -> bool:
        holder = _parsed(content)
        if (holder.get("pid"), holder.get("host")) == (os.getpid(), socket.gethostname()):
            # Ours, or of an earlier process with the same id, which is common after a restart in a container.
            return not any(lock.held and lock._substitute and lock._substitute.samefile(path) for lock in _LOCKS)
        return _dead(holder)

    def _refusal(self, content: bytes, substitute: Path | None = None) -> LedgerLockedError:
        holder = _parsed(content)
        who = "another process"
        if holder:
            mine = (holder.get("pid"), holder.get("host")) == (os.getpid(), socket.gethostname())
            who = "this very process, " if mine else "process "
            who += "{pid} on host {host} since {started}".format(
                **{name: holder.get(name, "?") for name in ("pid", "host", "started")}
            )
            command = holder.get("command")
            who += f" ({command})" if command not in (None, "", "-") else ""
        text = (
            f"run {self.path.parent} is being written by {who}. Wait for it or stop it (close the run there); to read, "
            "open the run with write=False."
        )
        if substitute is not None:
            text += f" This file system has no locks of its own: if that process is gone, remove {substitute} by hand."
        # A holder writes who it is a moment after it has the lock.
        unknown = not content and substitute is None
        patience = _BRIEF if holder.get("brief") else _UNKNOWN if unknown else 0.0
        return LedgerLockedError(text, holder=who, patience=patience)


def lock_state(path: Path) -> LockState:
    """The state of a :class:`Lock`, without taking it and without writing anything.

    ``held``: a process holds it; ``left``: its last holder died with it; ``free``: neither.
    """
    left = False
    for file in (path, path.with_name(f"{path.name}.pid")):
        try:
            holder = _parsed(read_bytes(file))
        except LedgerError:
            continue
        if holder and not _dead(holder) and (file != path or _taken(path)):
            return "held"
        left = left or bool(holder)
    return "left" if left else "free"


def lock_is_damaged(path: Path) -> bool:
    """Whether a lock's file is none that :class:`Lock` accepts, and nobody holds it."""
    if not os.path.lexists(path):
        return False
    try:
        return read_bytes(path)[:1] not in _BEGINNINGS and not _taken(path)
    except LedgerError:
        return True


def _taken(path: Path) -> bool:
    """Whether a process holds the flock: the process id in the file may belong to another process by now."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _TAKEN
    return False


def _dead(holder: dict[str, Any]) -> bool:
    """Whether the holder was a process of this host that has ended; unknown, so False, for another host."""
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int) or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's process, or not a process id
        pass
    return False


#: Locks of this process.
_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


def _close_in_child() -> None:
    # Closing a forked copy does not unlock; left open, it would keep the lock after the parent's death.
    for lock in _LOCKS:
        lock._file.close()


os.register_at_fork(after_in_child=_close_in_child)


def _holder(brief: bool) -> bytes:
    """JSON that describes this process, for those who find the lock held."""
    started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else ""
    about = {"pid": os.getpid(), "host": socket.gethostname(), "started": started, "command": command}
    return json.dumps(about | ({"brief": True} if brief else {})).encode()


def _parsed(content: bytes) -> dict[str, Any]:
    """The holder as a lock file describes it; empty if it does not."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
