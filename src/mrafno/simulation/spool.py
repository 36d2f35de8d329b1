"""Query -> Observation: a simulation that is timed, checked, and on the disk before its result goes anywhere.

A worker spools its own result, so that a driver that dies does not lose simulations that finish without it. A spool is
a folder of its own for each run, with, for the query q000012::

    q000012.npy    the output, where there is one
    q000012.json   how it went, with checksums, written last: without it there is no result
    q000012.lock   held while it is being simulated; whoever wants the same simulation waits, and takes the result
"""

import contextlib
import fcntl
import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mrafno.errors import LedgerError, MrafnoError, TaskError
from mrafno.simulation.child_process import Parcel, attempt, isolated, pack, unpack
from mrafno.simulation.query import Observation, Query
from mrafno.storage.checksum import seal, seal_is_valid, sha256
from mrafno.storage.files import PART, from_npy, read_bytes, to_npy, write_bytes
from mrafno.tasks.base import Task

_ID = "q[0-9]{6,}"
#: What to do about a spooled result that cannot be used.
_ADVICE = "Remove it: the query is simulated again."


def simulate(
    task: Task | Parcel,
    query: Query,
    *,
    limit: float | None = None,
    isolate: bool = False,
    memory: int | None = None,
    spool: Path | None = None,
) -> Observation:
    """Simulate a query, in a worker; whatever the simulator does, it gives an observation.

    Only what is no fault of the simulator is raised: KeyboardInterrupt, and :class:`TaskError` for a task that cannot
    reach the process it is to run in.

    Args:
        task: a task, or one that was packed to travel to this process.
        limit: seconds after which the simulation is ended, with everything it started; None for no limit.
        isolate: give the simulation a process of its own, so that it may crash; that takes about a second more. A
            limit of time or memory implies it.
        memory: bytes that the simulation may take, see :func:`mrafno.simulation.child_process.isolated`.
        spool: folder to put the result in. It must exist; where workers are on several machines, they share it.
    """
    if spool is None:
        return _simulate(task, query, limit, isolate, memory)
    check_folder(spool)
    _checked(query.id)
    with _claim(spool, query):
        known = read_result(spool, query)
        if known is not None and known.output is not None:
            return known
        observation = _simulate(task, query, limit, isolate, memory)
        try:
            _write(spool, query, observation)
        except OSError as error:
            # The result in memory is as good as before, so it goes on, even where warnings are errors.
            with contextlib.suppress(RuntimeWarning):
                warnings.warn(
                    f"{query.id}: its result could not be kept in the spool {spool} ({error}), so it is lost if the "
                    "driver stops now. The spool must have space, and be a folder that all workers see.",
                    RuntimeWarning,
                    stacklevel=2,
                )
    return observation


def _simulate(task: Task | Parcel, query: Query, limit: float | None, isolate: bool, memory: int | None) -> Observation:
    if isolate or limit is not None or memory is not None:
        return isolated(task if isinstance(task, Parcel) else pack(task), query, limit=limit, memory=memory)
    return attempt(unpack(task) if isinstance(task, Parcel) else task, query)


# The spool.


class Spooled(NamedTuple):
    """What was found in a spool.

    Attributes:
        observations: complete results by the id of their query.
        complaints: files that are no such result, each with what is wrong with it.
    """

    observations: dict[str, Observation]
    complaints: list[str]


def read_spool(folder: Path, queries: Iterable[Query] | None = None) -> Spooled:
    """All results that workers have left, without those they were still writing.

    What is damaged or foreign is left where it is and complained about. No link is followed and nothing is unpickled.

    Args:
        folder: the spool; one that does not exist has no results.
        queries: what was asked. With it, a result that answers anything else is complained about.
    """
    check_folder(folder)
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
            complaints.append(str(error))
    return Spooled(observations, complaints)


def read_result(folder: Path, query: Query) -> Observation | None:
    """The spooled result of a query; None where there is none, or none that can be used."""
    try:
        return _read(folder, _checked(query.id), query)
    except MrafnoError:
        return None


def clear_spool(folder: Path, ids: Iterable[str]) -> None:
    """Remove the results of these queries, because they are safe elsewhere.

    Nothing is forced to the disk here: a result that is back after a crash of the machine is a result found twice.
    """
    check_folder(folder)
    parts = list(folder.glob(f".*{PART}")) if folder.is_dir() else []
    for name in ids:
        _checked(name)
        # The .json goes first: without it there is no result, so there is never half of one.
        whole = [folder / f"{name}.{kind}" for kind in ("json", "npy", "lock")]
        for path in whole + [part for part in parts if part.name.startswith(f".{name}.")]:
            path.unlink(missing_ok=True)


def _checked(name: str) -> str:
    """``name`` if it is a query's id: it becomes part of file names, so nothing else may pass."""
    if not isinstance(name, str) or not re.fullmatch(_ID, name, re.ASCII):
        raise TaskError(f"{name!r} is not the id of a query. An id is a q and at least six digits, like q000012.")
    return name


def check_folder(folder: Path) -> None:
    """Raise where the spool is a link."""
    if folder.is_symlink():
        raise LedgerError(f"the spool {folder} is a symbolic link, which is not followed. Give the folder itself.")


@contextlib.contextmanager
def _claim(folder: Path, query: Query) -> Iterator[None]:
    """Hold a query while it is simulated, so that it is not simulated twice at once.

    That would happen when a driver is resumed while a worker of its dead predecessor still runs. Where the file system
    has no locks, it may happen.
    """
    path = folder / f"{query.id}.lock"
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
        # Closing is not enough where the simulator has left a forked process behind.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _write(folder: Path, query: Query, observation: Observation) -> None:
    record: dict[str, Any] = {
        "id": query.id,
        "input": _digest(query),
        "seconds": float(observation.seconds),
        "reason": observation.reason,
    }
    if observation.output is not None:
        content = to_npy(observation.output)
        record |= {"shape": observation.output.shape, "sha256": sha256(content)}
        write_bytes(folder / f"{query.id}.npy", content)
    write_bytes(folder / f"{query.id}.json", _sealed(record))


def _read(folder: Path, name: str, query: Query | None) -> Observation:
    """A result, whole and unchanged, and of this query where one is given; :class:`LedgerError` otherwise."""
    path = folder / f"{name}.json"
    record = _unsealed(read_bytes(path, advice=_ADVICE))
    if record is None or not _sound(record, name):
        raise LedgerError(f"{path} is damaged or of somebody else's making. {_ADVICE}")
    if query is not None and record["input"] != _digest(query):
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


def _sound(record: dict[str, Any], name: str) -> bool:
    """Whether a record has what it must have. Who means harm can make a checksum too."""
    seconds, reason = record.get("seconds"), record.get("reason")
    return (
        record.get("id") == name
        and type(seconds) is float
        and 0 <= seconds < math.inf
        and (type(reason) is str if "sha256" not in record else reason is None and "shape" in record)
        and "input" in record
    )


def _digest(query: Query) -> str:
    """Of what is simulated: another run may have a query of the same id."""
    f = np.ascontiguousarray(query.f, dtype=np.float64)
    return sha256(f"{query.level} {f.shape} ".encode() + f.tobytes())


def _sealed(record: dict[str, Any]) -> bytes:
    """JSON whose last member is a checksum of every byte before it."""
    return seal(json.dumps(record).encode(), "check")


def _unsealed(content: bytes) -> dict[str, Any] | None:
    """The record, or None where a byte was changed."""
    if not seal_is_valid(content):
        return None
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
