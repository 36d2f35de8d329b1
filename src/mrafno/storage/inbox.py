"""Messages to whoever holds a run's lock, left by any number of processes that do not.

One file per message, complete and on the disk before its name appears. Its name says when it was left, what it is
about and what it says, and has a random end, so that no two processes write the same file::

    inbox/01735689600250000000-q000012-told-3f2a9c0d4e5b6a71.msg

The first line is a JSON object that ends with its own checksum, and the checksum of what follows: nothing, or an array
in the .npy format.
"""

import contextlib
import json
import re
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mrafno.errors import LedgerError
from mrafno.grids import Array
from mrafno.storage.checksum import seal, seal_is_valid, sha256
from mrafno.storage.files import PART, from_npy, make_folder, read_bytes, sync_folder, to_npy, write_bytes
from mrafno.storage.layout import INBOX, REFUSED

_NAME = re.compile(r"([0-9]{20})-(q[0-9]{6,})-([a-z]+)-[0-9a-f]{16}\.msg", re.ASCII)
_ADVICE = "Move it away, and send the message again."
#: Seconds after which an unfinished file is of a process that died.
_OLD = 3600.0


@dataclass(frozen=True)
class Message:
    """A message as its file name tells it: when it was left, which query it is about, and what it says of it."""

    name: str
    time: float
    query: str
    kind: str


@dataclass(frozen=True)
class Content:
    """What a message holds: JSON values, and perhaps an array."""

    data: dict[str, Any] = field(default_factory=dict)
    values: Array | None = None


def leave_message(folder: Path, query: str, kind: str, content: Content) -> Message:
    """Leave a message in a run's folder; it is on the disk when this returns. Raises :class:`LedgerError`."""
    now = time.time_ns()
    name = f"{now:020d}-{query}-{kind}-{secrets.token_hex(8)}.msg"
    if _NAME.fullmatch(name) is None:
        raise LedgerError(f"run {folder}: {query!r} is not the id of a query, like q000012.")
    array = b"" if content.values is None else to_npy(content.values)
    head = {"v": 1, "name": name, "data": content.data, "array": sha256(array) if array else None}
    inbox = _inbox(folder)
    try:
        line = seal(json.dumps(head, allow_nan=False).encode(), "check")
        make_folder(inbox)
        write_bytes(inbox / name, line + b"\n" + array)
    except (OSError, TypeError, ValueError) as error:
        raise LedgerError(
            f"run {folder}: the message about {query} could not be written ({error}), and nothing of it was recorded. "
            "Free some space, then send it again."
        ) from error
    return Message(name, now / 1e9, query, kind)


def list_messages(folder: Path) -> list[Message]:
    """All messages that were not taken in, the earliest first; their files are not read."""
    inbox = _inbox(folder)
    try:
        names = sorted(path.name for path in inbox.iterdir())
    except FileNotFoundError:
        return []
    found = [match for name in names if (match := _NAME.fullmatch(name))]
    return [Message(match[0], int(match[1]) / 1e9, match[2], match[3]) for match in found]


def read_message(folder: Path, message: Message) -> Content:
    """What a message holds; raises :class:`LedgerError` if its file is missing or damaged."""
    path = _inbox(folder) / message.name
    line, _, array = read_bytes(path, advice=_ADVICE).partition(b"\n")
    try:
        head = json.loads(line) if seal_is_valid(line) else {}
        intact = head["name"] == message.name and head["array"] == (sha256(array) if array else None)
        data = head["data"]
    except (KeyError, TypeError, ValueError, RecursionError):
        intact = False
    if not intact or not isinstance(data, dict):
        raise LedgerError(f"{path} is damaged: its checksum does not fit. {_ADVICE}")
    values = from_npy(array, where=str(path), advice=_ADVICE) if array else None
    return Content(data, None if values is None else np.array(values, dtype=np.float64))


def remove_message(folder: Path, message: Message) -> None:
    """Remove a message that is recorded elsewhere.

    The removal is not synced: a message that reappears after a crash of the machine is recognised by its name.
    """
    (_inbox(folder) / message.name).unlink(missing_ok=True)


def refuse_message(folder: Path, message: Message) -> str:
    """Keep a message that was not accepted in a folder apart; returns its new place, relative to the run's folder."""
    place = _inbox(folder) / REFUSED
    make_folder(place)
    with contextlib.suppress(FileNotFoundError):
        (_inbox(folder) / message.name).rename(place / message.name)
        sync_folder(place)
    return refused_place(message)


def refused_place(message: Message) -> str:
    """Where a refused message is kept, relative to the run's folder."""
    return f"{INBOX}/{REFUSED}/{message.name}"


def clear_unfinished(folder: Path) -> None:
    """Remove files of processes that died before their message was complete."""
    for path in _inbox(folder).glob(f".*{PART}"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _OLD:
                path.unlink()


def _inbox(folder: Path) -> Path:
    inbox = folder / INBOX
    if inbox.is_symlink():
        raise LedgerError(f"{inbox} is a symbolic link, which is not followed. Put the folder itself there.")
    return inbox
