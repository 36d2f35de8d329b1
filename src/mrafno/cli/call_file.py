"""How a run was called, in a small file in its folder, so that ``resume`` needs no flags.

The ledger says what a run is; this only says where its task's code lay and what the caller wanted. Without it, or on
another machine, flags say it again.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrafno.cli import config
from mrafno.cli.loading import Source
from mrafno.errors import LedgerError, MrafnoError
from mrafno.storage.files import read_bytes, write_json
from mrafno.storage.layout import TASK_SOURCE

_ADVICE = "Remove it, and tell `mrafno resume` with --task and --steps what it should know."


@dataclass(frozen=True)
class Call:
    """What a run was asked for.

    Attributes:
        source: where the task came from; None if nobody knows.
        values: goals and how simulations run, by the names of their flags.
    """

    source: Source | None = None
    values: dict[str, Any] = field(default_factory=dict)


def remember(folder: Path, call: Call) -> None:
    """Keep it with the run."""
    record: dict[str, Any] = {"task": None, "folder": None, **call.values}
    if call.source is not None:
        record["task"] = call.source.text
        record["folder"] = None if call.source.folder is None else str(call.source.folder)
    path = folder / TASK_SOURCE
    try:
        write_json(path, record, indent=2)
    except OSError as error:
        raise LedgerError(f"{path} could not be written ({error}). Make room, or change rights.") from error


def recall(folder: Path) -> Call:
    """What is known of the call; nothing, where there is no such file."""
    path = folder / TASK_SOURCE
    if not path.exists() and not path.is_symlink():
        return Call()
    try:
        record = json.loads(read_bytes(path, advice=_ADVICE))
        task, where = record.pop("task"), record.pop("folder")
        if not isinstance(task, str | None) or not isinstance(where, str | None):
            raise TypeError("task and folder are texts")
        if "patience" in record:  # the name in version 0.1
            record["max_failure_rate"] = record.pop("patience")
        values = config.checked(record, config.GOALS | config.SIMULATIONS, str(path))
    except LedgerError:
        raise
    except (MrafnoError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise LedgerError(f"{path} is damaged or of somebody else's making. {_ADVICE}") from error
    return Call(None if task is None else Source(task, None if where is None else Path(where)), values)


def trusted(source: Source, folder: Path) -> None:
    """Raise if a task's code lies in the run's own folder: to open somebody's run must not be to run their code."""
    place = source.place
    if place is not None and place.resolve().is_relative_to(folder.resolve()):
        raise LedgerError(
            f"{folder / TASK_SOURCE} names code inside the run's own folder ({source.text}), which is not run unasked. "
            f"If you trust it, say so: mrafno resume {folder} --task {source.text}"
        )
