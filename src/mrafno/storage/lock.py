"""The right to write in a folder, held by one process at a time and released by its death."""

import contextlib
import errno
import fcntl
import io
import json
import os
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

#: What flock answers where the file system has none (Lustre mounted without it says ENOSYS), and where it is taken.
_NO_FLOCK = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS)
_TAKEN = (errno.EAGAIN, errno.EACCES)
#: What can be seen of a lock, see :func:`lock_state`.
LockState = Literal["free", "held", "left"]


class Lock:
    """The right to write in a folder, held by one process at a time.

    It is a ``flock`` on a file, which the kernel releases when the holder ends, however it ends; the file itself stays.
    Its content, for people and for the error message, says who holds it. Neither a program that the holder starts nor
    a process that it forks holds the lock: they would keep it after the holder's death.

    Where the file system has no ``flock``, the existence of a second file, ``<name>.pid``, is the lock. It is taken
    over when the process it names was of this host and is dead; of another host nobody here can tell.

    Raises:
        LedgerLockedError: another process, or this one, holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._substitute: Path | None = None
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
        """Whether this process holds it: not after release, and not in a forked child."""
        return not self._file.closed

    def release(self) -> None:
        """Let others have it; in a process that does not hold it nothing happens."""
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
        if self._file.read(1) not in (b"", b"{", b"\0"):
            raise LedgerError(f"{self.path} is a file of somebody else's. Choose another folder, or move it away.")
        # The lock is held whether or not there is room for saying so.
        with contextlib.suppress(OSError):
            self._file.truncate(0)
            os.pwrite(self._file.fileno(), _holder(), 0)

    def _take_substitute(self) -> None:
        path = self.path.with_name(f"{self.path.name}.pid")
        for _ in range(2):
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
                with io.FileIO(handle, "w"):
                    self._substitute = path
                    write_all(handle, _holder())
                return
            except FileExistsError:
                self._clear_substitute(path)
            except OSError as error:
                self.release()
                raise LedgerError(f"{path} cannot be written ({error}). Make room or change rights.") from error
        raise self._refusal(b"", path)

    def _clear_substitute(self, path: Path) -> None:
        """Move a dead process's file out of the way; refuse to touch that of one that may live."""
        content = read_bytes(path, advice="Try again.")
        if not self._stale(path, content):
            raise self._refusal(content, path)
        # Two may do this at once, and the slower must not remove what the faster has put there by now.
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
            # Ours, or of a process that had our number before: after a restart that is common.
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
        return LedgerLockedError(text)


def lock_state(path: Path) -> LockState:
    """What a look at a :class:`Lock` tells; nothing is written, and one that a living process holds is not touched.

    ``held``: a process has it; ``left``: one died with it, and nobody took it since; ``free``: neither.
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


def _taken(path: Path) -> bool:
    """Whether somebody has the flock: a number in the file may be that of another process by now."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _TAKEN
    return False


def _dead(holder: dict[str, Any]) -> bool:
    """Whether it was a process of this host that is gone; of another host nobody here can tell."""
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int) or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's process, or no number of one
        pass
    return False


#: Locks of this process.
_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    # Closing a forked copy does not unlock; leaving it open would, after the parent's death, keep the lock.
    for lock in _LOCKS:
        lock._file.close()


os.register_at_fork(after_in_child=_let_go_in_child)


def _holder() -> bytes:
    """This process, described for those who find the lock taken."""
    started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else ""
    return json.dumps(
        {"pid": os.getpid(), "host": socket.gethostname(), "started": started, "command": command}
    ).encode()


def _parsed(content: bytes) -> dict[str, Any]:
    """Who holds a lock, or nothing where it does not say."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
