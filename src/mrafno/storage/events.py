"""Events, and the lines of a ledger that hold them.

Every line is a JSON object, so that other tools can read the file too::

    {"v":1,"n":3,"t":1735689600.25,"kind":"told","data":{...},"after":"<16 digits>","sum":"<16 digits>"}

``v`` is the version of the format, ``n`` the event's number, ``t`` seconds since the epoch. ``sum`` is the beginning of
the SHA-256 (in hex) of all bytes before its digits on the line, and ``after`` is the ``sum`` of the line before, zeros
on the first line. So a changed line does not match its own sum, and a line that was removed, added or moved does not
match its neighbours. What ``data`` means may change with the version; this format does not.

A line without its end is a write that never finished, and so is a last line with zero bytes, which file systems leave
after a crash of the machine. It is no event: its append did not return.
"""

import json
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from mrafno.storage.checksum import seal, seal_is_valid
from mrafno.storage.garbage import no_collection

#: ``after`` of the first line.
FIRST = b"0" * 16
#: Where on a line the two sums are: ``..."after":"<16 digits>","sum":"<16 digits>"}``.
AFTER, SUM = slice(-43, -27), slice(-18, -2)
#: Bytes from the sum's first digit to the end of the line, newline included.
ENDING = 19

_SEPARATORS = (",", ":")
#: Lines that are worth parsing at once.
_MANY = 100


class Event(NamedTuple):
    """Something that happened in a run."""

    #: Its position in the ledger: 0, 1, 2 ...
    number: int
    #: "created", "asked", "told", ...
    kind: str
    #: Seconds since the epoch, UTC.
    time: float
    #: JSON values.
    data: dict[str, Any]


class Decoded(NamedTuple):
    """The event of a line and its version, or None, 0, and what is wrong with the line."""

    event: Event | None
    version: int
    fault: str


_NO_EVENT = Decoded(None, 0, "it is no event")


def encode_line(
    version: int, number: int, kind: str, data: dict[str, Any], after: bytes, *, at: float | None = None
) -> bytes:
    """The line of an event, newline included; raises what :func:`json.dumps` raises.

    Args:
        after: the sum of the line before it.
        at: when it happened; now by default.
    """
    now = time.time() if at is None else at
    values = {"v": version, "n": number, "t": now, "kind": kind, "data": data, "after": after.decode()}
    text = json.dumps(values, separators=_SEPARATORS, allow_nan=False)
    return seal(text.encode(), "sum", separators=_SEPARATORS) + b"\n"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


#: Python reads NaN and infinity, which no writer of a ledger writes.
_decoder = json.JSONDecoder(parse_constant=_refuse)


def decode_line(line: bytes) -> Decoded:
    """The event of a line without its newline."""
    if not seal_is_valid(line):
        return Decoded(None, 0, "its checksum does not fit")
    try:
        return _event(_decoder.decode(line.decode("ascii")))
    except (ValueError, RecursionError):
        return _NO_EVENT


def decode_lines(lines: Sequence[bytes]) -> list[Decoded]:
    """What :func:`decode_line` gives for each line, in half the time for many of them."""
    if len(lines) < _MANY or not all(map(seal_is_valid, lines)):
        return [decode_line(line) for line in lines]
    try:
        with no_collection():
            values = _decoder.decode((b"[" + b",".join(lines) + b"]").decode("ascii"))
            found = [_event(one) for one in values]
    except (ValueError, RecursionError):
        found = []
    whole = len(found) == len(lines) and all(line[:1] == b"{" for line in lines)
    return found if whole else [decode_line(line) for line in lines]


def _event(values: Any) -> Decoded:
    try:
        number, kind, at, data, version = values["n"], values["kind"], values["t"], values["data"], values["v"]
    except (KeyError, TypeError):
        return _NO_EVENT
    right = type(number) is type(version) is int and type(kind) is str and type(at) is float and type(data) is dict
    return Decoded(Event(number, kind, at, data), version, "") if right else _NO_EVENT


def split_lines(content: bytes) -> tuple[list[bytes], bytes]:
    """Complete lines without their newlines, and what follows them: nothing, or a write that did not finish."""
    lines = content.split(b"\n")
    torn = lines.pop()
    if not torn and lines and b"\0" in lines[-1]:
        torn = lines.pop() + b"\n"
    for end in re.finditer(rb'"sum":"[0-9a-f]{16}"}', torn):
        if torn[end.end() :].strip(b"\0\n") and decode_line(torn[: end.end()])[0] is not None:
            # It begins with a recorded event that only lost its newline: no writer may remove it.
            return [*lines, torn], b""
    return lines, torn
