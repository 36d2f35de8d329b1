"""Results of simulations on disk, written by workers before the results go anywhere else.

A worker spools its own result, so that the death of the driver does not lose simulations that finish without it. A
spool is a folder for each run, with, for the query q000012::

    q000012.npy    the output, where there is one
    q000012.json   seconds, reason and checksums, written last: without it there is no result
    q000012.lock   held during the simulation; a second process that wants the same one waits, and takes the result
"""

import contextlib
import fcntl
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mrafno.errors import LedgerError, MrafnoError, TaskError
from mrafno.simulation.query import Observation, Query
from mrafno.storage.checksum import seal, seal_is_valid, sha256
from mrafno.storage.files import PART, from_npy, read_bytes, to_npy, write_bytes

_ID = "q[0-9]{6,}"
#: What to do about a spooled result that cannot be used.
_ADVICE = "Remove it: the query is simulated again."


class Spooled(NamedTuple):
    """What a spool contains.

    Attributes:
        observations: complete results by the id of their query.
        complaints: for each file that is no such result a message that says what is wrong with it.
    """

    observations: dict[str, Observation]
    complaints: list[str]


def read_spool(folder: Path, queries: Iterable[Query] | None = None) -> Spooled:
    """Read all complete results; those still being written are left out.

    Damaged and foreign files stay where they are and are listed in ``complaints``. No link is followed, and nothing is
    unpickled.

    Args:
        folder: the spool; one that does not exist has no results.
        queries: those that were asked. With it, a result of any other query is listed in ``complaints``.
    """
    check_spool(folder)
    asked = None if queries is None else {query.id: query for query in queries}
    observations: dict[str, Observation] = {}
    complaints: list[str] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith(".") and path.name.endswith(PART):
            continue
        match = re.fullmatch(rf"({_ID})\.(npy|json|lock)", path.name, re.ASCII)
        try:
            if match is None:
                raise LedgerError(f"{path} is not a spooled result. Keep other files elsewhere.")
            name, kind = match.groups()
            if kind == "json" and asked is not None and name not in asked:
                raise LedgerError(f"{path} answers a query that was not asked. {_ADVICE}")
            if kind == "json":
                observations[name] = _read(folder, name, None if asked is None else asked[name])
        except MrafnoError as error:
            if os.path.lexists(path):  # else its query was recorded meanwhile, and its result removed
                complaints.append(str(error))
    return Spooled(observations, complaints)


def read_result(folder: Path, query: Query) -> Observation | None:
    """The spooled result of a query; None where there is none, or none that can be used."""
    try:
        return _read(folder, _checked_id(query.id), query)
    except MrafnoError:
        return None


def clear_spool(folder: Path, ids: Iterable[str]) -> None:
    """Remove the results of these queries, because they are recorded elsewhere.

    The removal is not synced: a result that reappears after a crash of the machine is ignored as recorded already.
    """
    check_spool(folder)
    parts = list(folder.glob(f".*{PART}")) if folder.is_dir() else []
    for name in ids:
        _checked_id(name)
        # The .json goes first: without it there is no result, so there is never half of one.
        whole = [folder / f"{name}.{kind}" for kind in ("json", "npy", "lock")]
        for path in whole + [part for part in parts if part.name.startswith(f".{name}.")]:
            path.unlink(missing_ok=True)


def _checked_id(name: str) -> str:
    """``name`` if it is the id of a query, else :class:`TaskError`: it becomes part of file names."""
    if not isinstance(name, str) or not re.fullmatch(_ID, name, re.ASCII):
        raise TaskError(f"{name!r} is not the id of a query. An id is a q and at least six digits, like q000012.")
    return name


def check_spool(folder: Path) -> None:
    """Raise :class:`LedgerError` if the spool is a symbolic link."""
    if folder.is_symlink():
        raise LedgerError(f"the spool {folder} is a symbolic link, which is not followed. Give the folder itself.")


@contextlib.contextmanager
def claim_query(folder: Path, query: Query) -> Iterator[None]:
    """Hold the lock of a query during its simulation, so that no other process simulates it at the same time.

    Otherwise that would happen when a run is resumed while a worker of its dead driver still runs. On a file system
    without locks it may happen.
    """
    path = folder / f"{_checked_id(query.id)}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        # Closing is not enough if the simulator has left a forked process behind, which shares the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def write_result(folder: Path, query: Query, observation: Observation) -> None:
    """Put a result on the disk; raises OSError where that fails."""
    record: dict[str, Any] = {
        "id": query.id,
        "input": _input_digest(query),
        "seconds": float(observation.seconds),
        "reason": observation.reason,
    }
    if observation.output is not None:
        content = to_npy(observation.output)
        record |= {"shape": observation.output.shape, "sha256": sha256(content)}
        write_bytes(folder / f"{query.id}.npy", content)
    write_bytes(folder / f"{query.id}.json", _encode(record))


def _read(folder: Path, name: str, query: Query | None) -> Observation:
    """A complete, unchanged result, of this query where one is given; raises :class:`LedgerError` otherwise."""
    path = folder / f"{name}.json"
    record = _decode(read_bytes(path, advice=_ADVICE))
    if record is None or not _is_complete(record, name):
        raise LedgerError(f"{path} is damaged, or was not written by mrafno. {_ADVICE}")
    if query is not None and record["input"] != _input_digest(query):
        raise LedgerError(f"{path} is the result of another input or level than that of {name}. {_ADVICE}")
    if record["reason"] is not None:
        return Observation(name, None, record["seconds"], record["reason"])
    path = folder / f"{name}.npy"
    content = read_bytes(path, advice=_ADVICE)
    if sha256(content) != record["sha256"]:
        raise LedgerError(f"{path} is damaged: its checksum is wrong. {_ADVICE}")
    output = np.array(from_npy(content, where=str(path), advice=_ADVICE), dtype=np.float64)
    if list(output.shape) != record["shape"] or not np.isfinite(output).all():
        raise LedgerError(f"{path} does not hold what its .json says. {_ADVICE}")
    return Observation(name, output, record["seconds"])


def _is_complete(record: dict[str, Any], name: str) -> bool:
    """Whether a record has the members it needs; a checksum alone proves nothing, since anybody can compute it."""
    seconds, reason = record.get("seconds"), record.get("reason")
    return (
        record.get("id") == name
        and type(seconds) is float
        and 0 <= seconds < math.inf
        and (type(reason) is str if "sha256" not in record else reason is None and "shape" in record)
        and "input" in record
    )


def _input_digest(query: Query) -> str:
    """Digest of level and input: another run may have a query with the same id."""
    f = np.ascontiguousarray(query.f, dtype=np.float64)
    return sha256(f"{query.level} {f.shape} ".encode() + f.tobytes())


def _encode(record: dict[str, Any]) -> bytes:
    """JSON whose last member is a checksum of all bytes before it."""
    return seal(json.dumps(record).encode(), "check")


def _decode(content: bytes) -> dict[str, Any] | None:
    """The record, or None if a byte was changed."""
    if not seal_is_valid(content):
        return None
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
