"""The call of a run, kept in a small file in its folder, so that ``resume`` needs no flags.

The ledger records the run itself; this file only has the place of the task's code, the goals, and how simulations run.
Without it, or on another machine, these are given as flags.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from mrafno.cli import config
from mrafno.cli.loading import Source, What
from mrafno.cli.trust import is_signed, signature
from mrafno.errors import LedgerError, MrafnoError
from mrafno.plot.text import listed
from mrafno.storage.files import read_bytes, write_json
from mrafno.storage.layout import TASK_SOURCE

_ADVICE = "Remove it, and give `mrafno resume` the task and the goal with --task and --steps."


@dataclass(frozen=True)
class Call:
    """The task's source, the goals, and how simulations run.

    Attributes:
        source: where the task came from; None if unknown.
        values: goals and how simulations run, by the names of their flags.
        method: where a method that is not built in came from.
        callbacks: where callbacks came from.
    """

    source: Source | None = None
    values: dict[str, Any] = field(default_factory=dict)
    method: Source | None = None
    callbacks: tuple[Source, ...] = ()
    #: Whether this person wrote it, on this machine or another one with the same home.
    signed: bool = field(default=False, compare=False)


def write_call(folder: Path, call: Call) -> None:
    """Write the call into the run's folder."""
    record: dict[str, Any] = {"task": None, "folder": None, **call.values}
    if "budget" in record:  # a file without it is of an earlier version, which counted in another way
        record.setdefault("count", "total")
    if call.source is not None:
        record["task"] = call.source.text
        record["folder"] = None if call.source.folder is None else str(call.source.folder)
    if call.method is not None:
        record["method"] = _as_json(call.method)
    if call.callbacks:
        record["callbacks"] = [_as_json(callback) for callback in call.callbacks]
    record["signature"] = signature(json.loads(json.dumps(record)))
    path = folder / TASK_SOURCE
    try:
        write_json(path, record, indent=2)
    except OSError as error:
        raise LedgerError(f"{path} could not be written ({error}). Free some space, or change permissions.") from error


def read_call(folder: Path) -> Call:
    """The last call of a run; empty if there is no such file."""
    path = folder / TASK_SOURCE
    if not path.exists() and not path.is_symlink():
        return Call()
    try:
        record = json.loads(read_bytes(path, advice=_ADVICE))
        written = record.pop("signature", None)
        signed = is_signed(record, written)
        task, where = record.pop("task"), record.pop("folder")
        method = _from_json(record.pop("method"), "method") if "method" in record else None
        callbacks = tuple(_from_json(entry, "callback") for entry in record.pop("callbacks", []))
        if not isinstance(task, str | None) or not isinstance(where, str | None):
            raise TypeError("task and folder must be strings")
        if "patience" in record:  # the name in version 0.1
            record["max_failure_rate"] = record.pop("patience")
        if "budget" in record and "count" not in record:  # versions 0.1 and 0.2 had no other way of counting
            record["count"] = "chosen"
        values = config.check_types(record, config.GOALS | config.SIMULATIONS, str(path))
    except LedgerError:
        raise
    except (MrafnoError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise LedgerError(f"{path} is damaged, or was not written by mrafno. {_ADVICE}") from error
    source = None if task is None else Source(task, None if where is None else Path(where))
    return Call(source, values, method, callbacks, signed)


def _as_json(source: Source) -> list[str | None]:
    return [source.text, None if source.folder is None else str(source.folder)]


def _from_json(entry: Any, what: What) -> Source:
    text, folder = entry
    if not isinstance(text, str) or not isinstance(folder, str | None):
        raise TypeError(f"a {what} is a text and a folder")
    return Source(text, None if folder is None else Path(folder), what)


def check_author(folder: Path, call: Call, names: Sequence[str], advice: str) -> None:
    """Ask before code is executed, or an address is connected to, that somebody else has put into the run's folder.

    Args:
        call: as it was read.
        names: of the code and the addresses; with none there is nothing to ask.
        advice: what to do where nobody can be asked.
    """
    if not names or call.signed:
        return
    what = f"{folder / TASK_SOURCE} names {listed(names)} and was not written by you, or by an earlier version"
    if sys.stdin.isatty() and typer.confirm(f"{what}. Whoever wrote it decides what that does. Go on?", err=True):
        return
    raise LedgerError(f"{what}. Its code is executed only if you trust it: {advice}")


def check_there(source: Source, folder: Path) -> None:
    """Raise if the file or the folder that the call names has been moved or removed."""
    place = source.place
    if place is not None and not place.exists():
        where, _, name = source.text.rpartition(":")
        now = f"FILE.py:{name}" if source.folder is None else f"{where}:{name}"
        raise LedgerError(
            f"run {folder}: its {source.what} came from {source.text}, and there is no {place} any more. Say where it "
            f"is now: mrafno resume {folder} --{source.what} {now}"
        )


def check_trusted(source: Source, folder: Path) -> None:
    """Raise if code is inside the run's folder: resuming a received run must not execute its code unasked."""
    place = source.place
    if place is not None and place.resolve().is_relative_to(folder.resolve()):
        raise LedgerError(
            f"{folder / TASK_SOURCE} names code inside the run's own folder ({source.text}), which is not executed "
            f"unasked. If you trust it: mrafno resume {folder} --{source.what} {source.text}"
        )
