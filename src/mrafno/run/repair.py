"""Makes a damaged run open again: what is damaged is kept apart, what can be is restored, the rest is done again.

Nothing is removed but damaged files of the cache. The ledger as it was, and every file and array that is taken out of
use, go into a folder ``damaged/<time>/`` of the run, and the repair is an event of the ledger. A repair that is
interrupted is begun again by the next one.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mrafno.errors import LedgerError, MrafnoError
from mrafno.run.check import Damage, Examination, check_run
from mrafno.run.inputs import own_candidates, stored_inputs
from mrafno.run.recorder import Recorder
from mrafno.run.session import Session
from mrafno.run.state import QueryRecord
from mrafno.storage.arrays import ArrayFile, array_bytes, replace_bytes
from mrafno.storage.checksum import sha256
from mrafno.storage.files import is_regular, make_folder, read_bytes, sync_folder, to_npy, write_bytes
from mrafno.storage.layout import ARRAYS, DAMAGED, LAST, LEDGER, LEDGER_COPY, LOCK, input_array, output_array
from mrafno.storage.ledger import Ledger
from mrafno.storage.lock import Lock
from mrafno.tasks.base import Task
from mrafno.tasks.stored import task_from_json


@dataclass(frozen=True)
class Repair:
    """What a repair did.

    Attributes:
        kept: the folder with what was damaged; None if nothing was.
        restored: arrays that were made again, bit for bit.
        again: queries whose outputs were damaged: they are to be simulated, or told, again.
        unusable: queries whose inputs were damaged and could not be made again.
        dropped: events that were taken out of the ledger.
        inputs: whether the inputs of the run are to be drawn again.
        candidates: how many candidates that were added and not used are lost: the run goes on without them.
    """

    kept: Path | None = None
    restored: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    dropped: int = 0
    inputs: bool = False
    candidates: int = 0


@dataclass
class _Outcome:
    restored: list[str] = field(default_factory=list)
    again: set[str] = field(default_factory=set)
    unusable: dict[str, list[str]] = field(default_factory=dict)
    inputs: bool = False
    checksums: bool = False
    candidates: int = 0


def repair_run(folder: Path | str, task: Task | None = None, *, watch: Callable[[float], None] | None = None) -> Repair:
    """Check a run and repair what is damaged; raises :class:`LedgerError` if nothing can be read of its beginning.

    Args:
        task: a task of your own, from which damaged inputs are drawn again; for a built-in one it is not needed.
        watch: called with the share of the arrays that was checked.
    """
    folder = Path(folder)
    found = check_run(folder, watch=watch)
    if found.intact:
        return Repair()
    if found.state is None and found.of("ledger"):
        raise LedgerError(
            f"run {folder}: the first event, which describes the run, is lost, and {LEDGER_COPY} does not have it. "
            "Restore the run from a copy."
        )
    locks = found.of("lock")
    place = _new_folder(folder) if locks else None
    for damage in locks:
        assert place is not None
        _move(damage, place)
    with contextlib.ExitStack() as held:
        lock = Lock(folder / LOCK)
        held.callback(lock.release)
        # Again, because whoever held the run may have recorded something meanwhile, or have repaired it.
        found = check_run(folder, watch=watch)
        found.damage += locks
        if found.intact:
            return Repair()
        place = place or _new_folder(folder)
        _clear(folder, place)
        if found.of("ledger", "copy"):
            _mend_ledger(found, place)
        return _mend(found, held.enter_context(Ledger.open(folder, write=True, lock=lock)), task, place)


def _mend(found: Examination, ledger: Ledger, task: Task | None, place: Path) -> Repair:
    """Repair all but the ledger, and record it."""
    recorder, outcome = Recorder(ledger), _Outcome()
    _give_up_candidates(recorder, found, place, outcome)
    session = _session(recorder, task)
    _mend_inputs(recorder, session, {damage.place for damage in found.of("inputs")}, place, outcome)
    for damage in found.of("arrays"):
        assert damage.query is not None
        if damage.query in recorder.state.queries:
            _mend_array(recorder, session, damage, place, outcome)
    for damage in found.of("checkpoint", "inbox", "spool", "asked", "call"):
        _move(damage, place)
    for damage in found.of("cache"):
        assert damage.path is not None
        damage.path.unlink(missing_ok=True)
    outcome.again -= outcome.unusable.keys()
    dropped = len(found.dropped) + _lost(found)
    recorder.record(
        "repaired",
        again=sorted(outcome.again),
        unusable=outcome.unusable,
        inputs=outcome.inputs,
        checksums=outcome.checksums,
        next_query=_next_query(found),
        restored=outcome.restored,
        dropped=dropped,
        damage=[f"{damage.place}: {damage.fault}" for damage in found.damage],
        kept=str(place.relative_to(found.folder)),
    )
    return Repair(
        place,
        tuple(outcome.restored),
        tuple(sorted(outcome.again)),
        tuple(sorted(id for id, parts in outcome.unusable.items() if "input" in parts)),
        dropped,
        outcome.inputs,
        outcome.candidates,
    )


# The ledger.


def _mend_ledger(found: Examination, place: Path) -> None:
    """Keep the ledger as it is, and put one in its place that has the events that can be read and make sense."""
    assert found.salvage is not None
    folder = found.folder
    with contextlib.suppress(LedgerError):
        write_bytes(place / LEDGER, read_bytes(folder / LEDGER))
    if found.dropped:
        lines = [json.dumps({"n": e.number, "t": e.time, "kind": e.kind, "data": e.data}) for e in found.dropped]
        write_bytes(place / "dropped.jsonl", "".join(f"{line}\n" for line in lines).encode())
    if found.of("ledger"):
        events = None if found.salvage.whole and not found.dropped else found.kept
        write_bytes(folder / LEDGER, found.salvage.rewritten(Ledger.VERSION, events))
    # The next writer makes the copy again.
    if os.path.lexists(folder / LEDGER_COPY):
        (folder / LEDGER_COPY).rename(place / LEDGER_COPY)


def _lost(found: Examination) -> int:
    """How many damaged lines nothing was found in place of."""
    lines = found.salvage
    return 0 if lines is None or lines.whole else max(1, len(lines.faults) - lines.restored)


def _next_query(found: Examination) -> int:
    """A number that no query of the run had, as far as events tell, those included that were taken out."""
    ids = [str(event.data.get("id", "")) for event in found.dropped]
    numbers = [int(id[1:]) for id in ids if id[:1] == "q" and id[1:].isdecimal()]
    assert found.state is not None
    return max([found.state.next_query, *(number + 1 for number in numbers)])


# Arrays.


def _session(recorder: Recorder, task: Task | None) -> Session | None:
    """A session that makes inputs again; None where the run's inputs cannot be had."""
    state = recorder.state
    try:
        if task is None:
            task = task_from_json(state.task, stored_inputs(recorder.ledger, state))
        return Session(recorder, task)
    except MrafnoError:
        return None


def _give_up_candidates(recorder: Recorder, found: Examination, place: Path, outcome: _Outcome) -> None:
    """Go on without candidates that were added, and that nobody has any more. What was asked has inputs of its own."""
    damaged = {damage.place: damage for damage in found.of("candidates")}
    first = own_candidates(recorder.state)
    for number, array in enumerate(recorder.state.added):
        rows = range(first, first + array.shape[0])
        first = rows.stop
        if array.file in damaged:
            outcome.candidates += len(set(rows) - recorder.state.used_rows("pool"))
            _move(damaged[array.file], place)
            recorder.record("candidates_lost", number=number, first=rows.start)


def _mend_inputs(
    recorder: Recorder, session: Session | None, damaged: set[str], place: Path, outcome: _Outcome
) -> None:
    """Make the run's inputs again, and what is kept beside them, if its task is given; else it is done when it is."""
    folder, state = recorder.ledger.folder, recorder.state
    for name, array in (("inputs", state.inputs), ("available", state.available), ("checksums", state.checksums)):
        if array is None or array.file not in damaged:
            continue
        _keep_bytes(folder, array, place / Path(array.file).name)
        content = None
        with contextlib.suppress(MrafnoError):  # a task with other inputs, or with too few
            values = None if session is None else session.store.made_again(name, array)
            content = None if values is None else to_npy(np.asarray(values))
        if content is not None and sha256(content) == array.sha256:
            replace_bytes(folder, array, content)
            outcome.restored.append(name)
        elif name == "checksums":
            outcome.checksums = True
        else:
            outcome.inputs = True


def _mend_array(recorder: Recorder, session: Session | None, damage: Damage, place: Path, outcome: _Outcome) -> None:
    """Make an input again, or give the query back: its output is to be simulated or told again."""
    folder, query = recorder.ledger.folder, recorder.state.queries[str(damage.query)]
    array = query.output if damage.part == "output" else query.input
    if array is None:
        return
    names = {"input": input_array, "output": output_array}
    _keep_bytes(folder, array, place / f"{names[str(damage.part)](query.id)}.npy")
    if damage.part == "output":
        if query.status == "told":
            outcome.again.add(query.id)
        else:
            outcome.unusable.setdefault(query.id, []).append("output")  # of a second answer, which does not count
        return
    content = _input_again(session, query)
    if content is not None and sha256(content) == query.input.sha256:
        replace_bytes(folder, query.input, content)
        outcome.restored.append(f"the input of {query.id}")
    else:
        outcome.unusable.setdefault(query.id, []).append("input")


def _input_again(session: Session | None, query: QueryRecord) -> bytes | None:
    if session is None or query.imported:
        return None
    try:
        f = session.inputs.of("pool" if query.from_pool else query.kind, query.row)
        return to_npy(session.task.restrict(f[None], query.level)[0])
    except (MrafnoError, IndexError):
        return None


def _keep_bytes(folder: Path, array: ArrayFile, path: Path) -> None:
    """Keep what is left of an array."""
    with contextlib.suppress(LedgerError):
        write_bytes(path, array_bytes(folder, array))


# Files.


def _new_folder(folder: Path) -> Path:
    name = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    for number in range(1000):
        place = folder / DAMAGED / (name if not number else f"{name}-{number}")
        if not os.path.lexists(place):
            make_folder(place)
            return place
    raise LedgerError(f"{folder / DAMAGED} has too many folders of one second. Move some away.")


def _clear(folder: Path, place: Path) -> None:
    """Move away what is no file, a folder or a link, and stands where the ledger or arrays are to be written again."""
    arrays = folder / ARRAYS
    for path in [folder / LEDGER, *([] if arrays.is_symlink() else sorted(arrays.glob("*")))]:
        if os.path.lexists(path) and not is_regular(path):
            path.rename(place / path.name)


def _move(damage: Damage, place: Path) -> None:
    """Move a file out of use; of a spooled result, and of a checkpoint, all of its files."""
    if damage.path is None:
        return
    path, aside = damage.path, place / damage.what
    paths = sorted(path.parent.glob(f"{path.stem}.*")) if damage.what == "spool" else [path]
    if damage.what == "checkpoint":  # another one may be in a folder inside
        paths, aside = sorted(one for one in path.iterdir() if one.name != LAST), aside / path.name
    make_folder(aside)
    for one in paths:
        if os.path.lexists(one):
            one.rename(aside / one.name)
    sync_folder(aside)
    sync_folder(path.parent)
