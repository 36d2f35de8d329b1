"""What can be read of a damaged ledger: its intact lines, and from its copy the lines in place of the damaged ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mrafno.errors import LedgerError
from mrafno.storage.events import AFTER, FIRST, SUM, Event, decode_lines, encode_line, split_lines
from mrafno.storage.files import read_bytes
from mrafno.storage.layout import LEDGER, LEDGER_COPY
from mrafno.storage.ledger_copy import copy_is_no_file, read_copy


@dataclass(frozen=True)
class Salvage:
    """What can be read of a ledger.

    Attributes:
        events: its events in order, those from the copy included.
        lines: their lines, without newlines.
        rows: how many lines the ledger's file has.
        faults: what is wrong with it: a line's number from 1, None for the whole file, and words.
        restored: how many events were taken from the copy.
        whole: whether all events are there, each following the one before it.
        stale: whether the copy is damaged, and so is to be made again.
    """

    events: tuple[Event, ...]
    lines: tuple[bytes, ...]
    rows: int
    faults: tuple[tuple[int | None, str], ...]
    restored: int
    whole: bool
    stale: bool

    def rewritten(self, version: int, events: Sequence[Event] | None = None) -> bytes:
        """A ledger of these events: bit for bit as it was where it is whole, else numbered again.

        Args:
            version: of the format.
            events: those to keep; all of them by default.
        """
        if events is None and self.whole:
            return b"".join(line + b"\n" for line in self.lines)
        content, after = [], FIRST
        for number, event in enumerate(self.events if events is None else events):
            line = encode_line(version, number, event.kind, event.data, after, at=event.time)
            content.append(line)
            after = line[:-1][SUM]
        return b"".join(content)


def salvage(folder: Path) -> Salvage:
    """Read a ledger and its copy; a write that did not finish is left out, and is no fault."""
    copy = read_copy(folder)  # first, because a writer adds to the ledger before it adds to the copy
    faults: list[tuple[int | None, str]] = []
    content = b""
    try:
        content = read_bytes(folder / LEDGER)
    except LedgerError as error:
        faults.append((None, str(error)))
    rows, torn = split_lines(content)
    own: dict[int, tuple[bytes, Event]] = {}
    last: bytes | None = FIRST
    for row, (line, (event, _, fault)) in enumerate(zip(rows, decode_lines(rows), strict=True), 1):
        if event is None:
            faults.append((row, fault))
            last = None  # any line may follow
            continue
        if event.number in own:
            faults.append((row, f"event {event.number} is there twice"))
        elif last is not None and line[AFTER] != last:
            faults.append((row, "it does not follow the line before it"))
        own.setdefault(event.number, (line, event))
        last = line[SUM]
    kept, _ = split_lines(copy)
    spare = {e.number: (line, e) for line, (e, *_) in zip(kept, decode_lines(kept), strict=True) if e is not None}
    found = dict(own)
    if faults or _continued(own, spare):
        # Where the copy is whole it counts: a changed line can have a checksum that fits.
        counts = spare if _follow([line for line, _ in spare.values()]) else {}
        found = {**spare, **own, **counts}
    missing = found.keys() - own.keys()
    if missing and not faults:
        faults.append((None, f"it lacks {len(missing)} events that {LEDGER_COPY} has"))
    numbers = sorted(found)
    lines = tuple(found[number][0] for number in numbers)
    return Salvage(
        events=tuple(found[number][1] for number in numbers),
        lines=lines,
        rows=len(rows),
        faults=tuple(faults),
        restored=sum(number not in own or own[number][0] != found[number][0] for number in numbers),
        whole=_follow(lines) and numbers == list(range(len(numbers))),
        stale=not faults and (not content[: len(content) - len(torn)].startswith(copy) or copy_is_no_file(folder)),
    )


def _follow(lines: Sequence[bytes]) -> bool:
    """Whether each line follows the one before it."""
    return all(line[AFTER] == last for line, last in zip(lines, [FIRST, *(one[SUM] for one in lines)], strict=False))


def _continued(own: dict[int, tuple[bytes, Event]], spare: dict[int, tuple[bytes, Event]]) -> bool:
    """Whether the copy has an event that follows the ledger's last one."""
    last = max(own, default=-1)
    return last + 1 in spare and spare[last + 1][0][AFTER] == (own[last][0][SUM] if own else FIRST)
