"""Checks everything in a run's directory: what is damaged, and what :mod:`mrafno.run.repair` would do about it."""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mrafno.data.cache import damaged_examples
from mrafno.errors import LedgerError, MrafnoError
from mrafno.run.answers import read_answer
from mrafno.run.state import RunState
from mrafno.simulation.spool import read_spool
from mrafno.storage.arrays import ArrayFile, array_bytes, read_array
from mrafno.storage.checksum import sha256
from mrafno.storage.events import Event
from mrafno.storage.files import read_bytes
from mrafno.storage.inbox import list_messages
from mrafno.storage.large_arrays import map_array
from mrafno.storage.layout import ASKED, DESCRIPTION, INBOX, LEDGER, LEDGER_COPY, LOCK, SPOOL, TASK_SOURCE, checkpoints
from mrafno.storage.lock import lock_is_damaged
from mrafno.storage.salvage import Salvage, salvage

#: What is checked, as the table names it.
What = Literal[
    "ledger", "copy", "inputs", "candidates", "arrays", "checkpoint", "inbox", "spool", "asked", "lock", "call", "cache"
]


@dataclass(frozen=True)
class Damage:
    """Something in a run's directory that is damaged.

    Attributes:
        place: the file, relative to the run's folder, or an array in it, or a line.
        fault: what is wrong with it.
        remedy: what a repair does.
        query: whose it is, if it is a query's; ``part``: "input" or "output".
        path: the file that a repair moves, if it moves one.
    """

    what: What
    place: str
    fault: str
    remedy: str
    query: str | None = None
    part: str | None = None
    path: Path | None = None


@dataclass
class Examination:
    """What a check has found.

    Attributes:
        checked: how many things of each sort were looked at.
        state: the replay of what can be read of the ledger; None if nothing can.
        salvage: the ledger's lines.
        kept: its events that make sense; ``dropped``: those that do not, because they rest on lost ones.
    """

    folder: Path
    checked: dict[What, int] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    state: RunState | None = None
    salvage: Salvage | None = None
    kept: list[Event] = field(default_factory=list)
    dropped: list[Event] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damage

    def of(self, *what: What) -> list[Damage]:
        """Damage of these sorts."""
        return [one for one in self.damage if one.what in what]


def check_run(folder: Path | str, *, watch: Callable[[float], None] | None = None) -> Examination:
    """Check every line of the ledger, every array, the checkpoint, inbox, spool and cached simulations.

    Nothing is written, and the run may advance meanwhile.

    Args:
        watch: called with the share of the arrays that is done.
    """
    folder = Path(folder)
    found = Examination(folder)
    if not (folder / LEDGER).exists() and not (folder / LEDGER_COPY).exists():
        raise LedgerError(f"{folder} holds no run: there is no {LEDGER}. Give the folder of a run.")
    _check_ledger(found)
    if lock_is_damaged(folder / LOCK):
        found.damage.append(Damage("lock", LOCK, "it is no lock of mrafno", "it is moved", path=folder / LOCK))
    if found.state is None:
        return found
    _check_arrays(found, found.state, watch)
    _check_checkpoint(found)
    _check_inbox(found)
    _check_spool(found)
    _check_asked(found, found.state)
    _check_call(found)
    _check_cache(found, found.state)
    return found


# The ledger.


def _check_ledger(found: Examination) -> None:
    lines = found.salvage = salvage(found.folder)
    found.checked["ledger"] = lines.rows
    found.state, found.kept, found.dropped = sensible(lines.events)
    remedy = "restored from its copy" if lines.whole else "taken out; what it recorded is lost"
    for row, fault in lines.faults:
        found.damage.append(Damage("ledger", LEDGER if row is None else f"{LEDGER}, line {row}", fault, remedy))
    if not found.state.task:
        fault = "the first event, which describes the run, is lost"
        found.damage.append(Damage("ledger", LEDGER, fault, "none: restore the run from a copy"))
        found.state = None
        return
    if not lines.whole and not lines.faults:
        found.damage.append(Damage("ledger", LEDGER, "events are missing", remedy))
    for event in found.dropped:
        place = f"{LEDGER}, event {event.number} ({event.kind})"
        found.damage.append(Damage("ledger", place, "it rests on what is lost", "taken out and kept apart"))
    if lines.stale:
        found.damage.append(Damage("copy", LEDGER_COPY, "it is not what the ledger says", "made again"))


def sensible(events: Iterable[Event]) -> tuple[RunState, list[Event], list[Event]]:
    """The state of those events that make sense one after another, these events, and the others.

    Fits stay, without the examples that are lost.
    """
    state = RunState()
    kept: list[Event] = []
    dropped: list[Event] = []
    for event in events:
        one = event
        if event.kind == "trained" and isinstance(event.data.get("added"), list):
            added = [id for id in event.data["added"] if id in state.queries and state.queries[id].output is not None]
            errors = event.data.get("prequential_errors", event.data.get("surprises", {}))
            known = {id: error for id, error in errors.items() if id in state.queries}
            if added != event.data["added"] or known != errors:
                name = "surprises" if "surprises" in event.data else "prequential_errors"
                one = Event(event.number, event.kind, event.time, {**event.data, "added": added, name: known})
        try:
            if not state.task and event.kind != "created":
                raise LedgerError("nothing comes before the first event")
            state.apply(one)
        except LedgerError:
            dropped.append(event)
            state = RunState.of(kept)  # it may have been applied in part
        else:
            kept.append(one)
    return state, kept, dropped


# Arrays.


def _check_arrays(found: Examination, state: RunState, watch: Callable[[float], None] | None) -> None:
    again = "drawn again when the run is opened with its task"
    lost = "kept apart; the run goes on without those that were not used"
    candidates = [array for number, array in enumerate(state.added) if number not in state.lost_added]
    arrays: list[tuple[What, ArrayFile | None, str]] = [
        ("inputs", state.inputs, again),
        ("inputs", state.available, again),
        ("inputs", state.checksums, "kept apart; they only tell what differs in other inputs"),
        *(("candidates", array, lost) for array in candidates),
    ]
    for what, array, remedy in arrays:
        if array is not None:
            found.checked[what] = found.checked.get(what, 0) + 1
            try:
                map_array(found.folder, array)
            except (LedgerError, OSError, ValueError) as error:
                path = found.folder / array.file
                found.damage.append(Damage(what, array.file, str(error), remedy, path=path))
    number = 0
    for done, query in enumerate(state.queries.values()):
        for part, array in (("input", query.input), ("output", query.output)):
            if array is None or part in query.damaged:
                continue
            number += 1
            if fault := _fault(found.folder, array):
                remedy = "made again from the run's inputs, where these are intact"
                if part == "output":
                    remedy = "kept apart; it is to be simulated or told again"
                found.damage.append(Damage("arrays", f"{part} of {query.id}", fault, remedy, query.id, part))
        if watch is not None and done % 100 == 0:
            watch(done / len(state.queries))
    found.checked["arrays"] = number


def _fault(folder: Path, array: ArrayFile) -> str | None:
    """What is wrong with an array; None if it is intact."""
    try:
        if sha256(array_bytes(folder, array)) != array.sha256:
            return f"the checksum of {array.file} does not fit" + (
                "" if array.offset is None else f" at byte {array.offset}"
            )
        read_array(folder, array)
    except LedgerError as error:
        return str(error)
    return None


# Other files.


def _check_checkpoint(found: Examination) -> None:
    from mrafno.surrogate.checkpoint import verify  # imports torch

    folders = checkpoints(found.folder)
    found.checked["checkpoint"] = len(folders)
    for folder in folders:
        try:
            verify(folder)
        except MrafnoError as error:
            remedy = "kept apart; the fits follow from the ledger"
            place = str((folder / DESCRIPTION).relative_to(found.folder))
            found.damage.append(Damage("checkpoint", place, str(error), remedy, path=folder))


def _check_inbox(found: Examination) -> None:
    messages = list_messages(found.folder)
    found.checked["inbox"] = len(messages)
    for message in messages:
        try:
            read_answer(found.folder, message)
        except LedgerError as error:
            path = found.folder / INBOX / message.name
            if path.exists():  # else it was taken in meanwhile
                remedy = f"kept apart; {message.query} is to be told again"
                place = f"{INBOX}/{message.name}"
                found.damage.append(Damage("inbox", place, str(error), remedy, message.query, path=path))


def _check_spool(found: Examination) -> None:
    spool = found.folder / SPOOL
    spooled = read_spool(spool)
    found.checked["spool"] = len(spooled.observations) + len(spooled.complaints)
    files = sorted(spool.iterdir()) if spooled.complaints else []
    for complaint in spooled.complaints:
        # A result is two files, of which one may be missing.
        path = next((path for path in files if complaint.startswith((f"{path} ", f"{path.with_suffix('')}."))), None)
        place = SPOOL if path is None else f"{SPOOL}/{path.name}"
        found.damage.append(Damage("spool", place, complaint, "kept apart; it is simulated again", path=path))


def _check_asked(found: Examination, state: RunState) -> None:
    """Inputs that were handed out and wait for their answers."""
    place = found.folder / ASKED
    waiting = [query for query in state.running if (place / f"{query.id}.npy").exists()]
    found.checked["asked"] = len(waiting)
    for query in waiting:
        path = place / f"{query.id}.npy"
        try:
            intact = sha256(read_bytes(path)) == query.input.sha256
        except LedgerError:
            intact = False
        if not intact:
            remedy = "kept apart; `mrafno ask --again` writes it again"
            fault = "it is not the input that was asked for"
            found.damage.append(Damage("asked", f"{ASKED}/{path.name}", fault, remedy, query.id, path=path))


def _check_call(found: Examination) -> None:
    path = found.folder / TASK_SOURCE
    if not os.path.lexists(path):
        return
    found.checked["call"] = 1
    try:
        intact = isinstance(json.loads(read_bytes(path)), dict)
    except (LedgerError, ValueError, RecursionError):
        intact = False
    if not intact:
        remedy = "kept apart; give `mrafno resume` the task and the goal"
        found.damage.append(Damage("call", TASK_SOURCE, "it is no JSON object", remedy, path=path))


def _check_cache(found: Examination, state: RunState) -> None:
    identity = state.task.get("identity")
    if identity is None:
        return
    number, damaged = damaged_examples(identity)
    found.checked["cache"] = number
    for path in damaged:
        found.damage.append(Damage("cache", str(path), "it is damaged", "removed; it is simulated again", path=path))
