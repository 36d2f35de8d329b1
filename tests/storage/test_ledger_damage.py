"""Ledgers that were cut off, changed, or met a full disk: nothing recorded is lost, and damage has a line number."""

import errno
import hashlib
import json
import os
import re
import subprocess
import sys

import pytest

from mrafno.errors import LedgerError
from mrafno.storage.arrays import ArrayFile
from mrafno.storage.ledger import Ledger
from tests.storage.ledgers import file_of, filled, lines_of, put, read

# Cut, full, interrupted.


def test_cut_at_every_byte_of_the_last_three_lines(tmp_path, quick):
    """Whole lines are kept, the one being written is lost, and the next append is sound."""
    events = filled(tmp_path)
    lines = lines_of(tmp_path)
    good = b"".join(lines)
    for size in range(len(b"".join(lines[:3])), len(good) + 1):
        put(tmp_path, good[:size])
        whole = good[:size].count(b"\n")
        torn = size - len(b"".join(lines[:whole]))
        assert read(tmp_path) == events[:whole]
        with Ledger.open(tmp_path, write=True) as ledger:
            assert ledger.events == events[:whole]
            text = f"line {whole + 1}, the last, was not finished: {torn} bytes were removed."
            assert ledger.damage == ([text] if torn else [])
            assert file_of(tmp_path).read_bytes() == b"".join(lines[:whole])
            new = ledger.append("told", after="the cut")
        again = Ledger.open(tmp_path, write=True)
        assert (again.events, again.damage) == ([*events[:whole], new], [])
        again.close()


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_zero_bytes_at_the_end_are_a_torn_write(tmp_path, quick, end):
    """After a crash of the machine a file may have its new size and not its new content."""
    events = filled(tmp_path)
    lines = lines_of(tmp_path)
    for kept in range(0, len(lines[-1]) - 1, 10):
        for zeros in (b"\0" * (len(lines[-1]) - 1 - kept), b"\0" * 5000, b"\0" * 10 + lines[-1][kept + 10 : -1]):
            put(tmp_path, b"".join(lines[:-1]) + lines[-1][:kept] + zeros + end)
            assert read(tmp_path) == events[:-1]
            with Ledger.open(tmp_path, write=True) as ledger:
                assert ledger.events == events[:-1]
                assert len(ledger.damage) == 1
            assert lines_of(tmp_path) == lines[:-1]


def test_a_last_line_that_has_its_end_is_no_torn_write(tmp_path):
    filled(tmp_path)
    damaged = file_of(tmp_path).read_bytes().replace(b"q5", b"q6")
    put(tmp_path, damaged)
    for settings in ({}, {"write": True}):
        with pytest.raises(LedgerError, match="line 6 is damaged: its checksum does not fit"):
            Ledger.open(tmp_path, **settings)
        assert file_of(tmp_path).read_bytes() == damaged


def broken_write(room):
    """A disk with room for so many bytes more."""
    write, left = os.write, [room]

    def short(handle, content):
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(handle, bytes(content)[: min(left[0], 40)])
        left[0] -= done
        return done

    return short


def refused(*_):
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("also", [(), ("ftruncate",), ("fsync",), ("ftruncate", "fsync")])
def test_a_full_disk_leaves_a_sound_ledger_wherever_the_write_stops(tmp_path, monkeypatch, also):
    """Even where taking back the part that was written fails too."""
    events = filled(tmp_path)
    good = file_of(tmp_path).read_bytes()
    ledger = Ledger.open(tmp_path, write=True)
    for room in [*range(0, 120, 13), 10_000]:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", broken_write(room))
            patch.setattr(os, "fsync", refused)
            for call in also:
                patch.setattr(os, call, refused)
            with pytest.raises(
                LedgerError, match=r"event 6 \(told\) could not be written.*nothing.*recorded.*Free some space.*open"
            ):
                ledger.append("told", query="q6")
            assert ledger.events == events
        if not also:
            assert file_of(tmp_path).read_bytes() == good
        assert read(tmp_path)[:6] == events
    new = ledger.append("told", query="q6")
    ledger.close()
    assert read(tmp_path) == [*events, new]


def test_opening_after_a_full_disk_goes_on(tmp_path, monkeypatch):
    events = filled(tmp_path)
    with Ledger.open(tmp_path, write=True) as ledger, monkeypatch.context() as patch:
        patch.setattr(os, "write", broken_write(50))
        patch.setattr(os, "ftruncate", refused)
        with pytest.raises(LedgerError, match="No space left"):
            ledger.append("told")
    with Ledger.open(tmp_path, write=True) as ledger:
        assert ledger.events == events
        assert ledger.damage == ["line 7, the last, was not finished: 50 bytes were removed."]
        assert ledger.append("told").number == 6


def test_an_interrupted_append_can_be_repeated(tmp_path, monkeypatch):
    events = filled(tmp_path)

    def interrupt(*_):
        raise KeyboardInterrupt

    with Ledger.open(tmp_path, write=True) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", interrupt)
            with pytest.raises(KeyboardInterrupt):
                ledger.append("told", query="q6")
        new = ledger.append("told", query="q6 again")
    assert read(tmp_path) == [*events, new]


FULL = """
import resource, sys
import numpy as np
from mrafno.errors import LedgerError
from mrafno.storage.ledger import Ledger
def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
with Ledger.open(sys.argv[1], write=True) as ledger:
    size = (ledger.folder / "ledger.jsonl").stat().st_size
    room(size + 1000)
    for work in (lambda: ledger.append("told", text="x" * 2000), lambda: ledger.write_array("a", np.zeros(9000))):
        try:
            work()
        except LedgerError as error:
            print(error)
        assert (ledger.folder / "ledger.jsonl").stat().st_size == size
    ledger.append("told", text="small")
    room(resource.RLIM_INFINITY)
    ledger.append("told", text="x" * 2000)
    ledger.append("told", output=ledger.write_array("a", np.zeros(9000)).as_json())
"""


def test_no_room_for_real(tmp_path):
    """A limit on the size of files: the kernel takes a part of the line and then refuses."""
    events = filled(tmp_path)
    script = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert re.search(r"event 6 \(told\) could not be written \(.*File too large\), and nothing of it was", first)
    assert re.search(r"arrays/a\.npy could not be written \(.*File too large\)", second)
    found = Ledger.open(tmp_path)
    assert found.events[:6] == events
    assert [e.data.get("text") for e in found.events[6:]] == ["small", "x" * 2000, None]
    assert not found.read_array(ArrayFile.from_json(found.events[8].data["output"])).any()
    assert [path.name for path in (tmp_path / "arrays").iterdir()] == ["a.npy"]


def test_a_run_that_cannot_be_created_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", broken_write(20))
    with pytest.raises(LedgerError, match=r"could not be created .*No space left.*Free some space"):
        Ledger.create(tmp_path / "run")
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["lock"]
    Ledger.create(tmp_path / "run").close()
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="could not be created"):
        Ledger.create(tmp_path / "file" / "run")


def test_a_ledger_that_somebody_shortened_is_not_written(tmp_path):
    filled(tmp_path)
    with Ledger.open(tmp_path, write=True) as ledger:
        os.truncate(file_of(tmp_path), 10)
        with pytest.raises(LedgerError, match="was shortened by somebody else"):
            ledger.append("told")
    assert file_of(tmp_path).stat().st_size == 10


def test_a_line_that_the_writer_took_back_is_gone_for_readers_too(tmp_path, monkeypatch):
    """The reader looks between the write and the fsync that fails."""
    events = filled(tmp_path)
    reader = Ledger.open(tmp_path)
    seen = []

    def fail(_):
        seen.extend(reader.refresh())
        raise OSError(errno.EIO, "Input/output error")

    with Ledger.open(tmp_path, write=True) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(LedgerError, match="Input/output"):
                ledger.append("told", query="q6")
        assert [event.number for event in seen] == [6]
        assert reader.refresh() == []
        assert reader.events == events
        new = [ledger.append("told", query="r6"), ledger.append("told", query="r7")]
        assert reader.refresh() == new
        assert reader.events == ledger.events


# Damage.


def changed(content, position, how):
    new = bytearray(content)
    new[position] = how(new[position])
    return bytes(new)


CHANGES = {
    "flipped": lambda byte: byte ^ 0xFF,
    "one bit": lambda byte: byte ^ 1,
    "zero": lambda byte: 0,
    "line end": lambda byte: 11 if byte == 10 else 10,
}


@pytest.mark.parametrize(
    ("line", "change"),
    [(3, "flipped"), (3, "one bit"), (3, "zero"), (3, "line end"), (1, "flipped"), (5, "zero"), (6, "flipped")],
)
def test_a_changed_byte_is_found_and_the_rest_stays_readable(tmp_path, line, change, record_property):
    """Each byte of a line in turn."""
    events = filled(tmp_path)
    lines = lines_of(tmp_path)
    start = len(b"".join(lines[: line - 1]))
    record_property("changed bytes", len(lines[line - 1]))
    for position in range(start, start + len(lines[line - 1])):
        damaged = changed(b"".join(lines), position, CHANGES[change])
        put(tmp_path, damaged)
        for settings in ({}, {"write": True})[: 1 if position % 8 else 2]:
            with pytest.raises(LedgerError, match=rf"ledger\.jsonl: line {line} is damaged.*repair.*skip"):
                Ledger.open(tmp_path, **settings)
        rest = Ledger.open(tmp_path, damaged="skip")
        # Where the end of the line itself is gone, the next line goes with it.
        lost = 2 if position == start + len(lines[line - 1]) - 1 else 1
        assert rest.events == [*events[: line - 1], *events[line - 1 + lost :]]
        assert rest.damage[0] == f"line {line} was left out: its checksum does not fit."
        assert len(rest.damage) == 1 + (damaged.count(b"\n") > len(lines))
        assert file_of(tmp_path).read_bytes() == damaged


MOVES = {
    "removed": (lambda a, b, c, d, e, f: [a, b, d, e, f], 3, [0, 1, 3, 4, 5], "line 3 was read, but it"),
    "first removed": (lambda a, b, c, d, e, f: [b, c, d, e, f], 1, [1, 2, 3, 4, 5], "line 1 was read, but"),
    "repeated": (lambda a, b, c, d, e, f: [a, b, c, c, d, e, f], 4, [0, 1, 2, 3, 4, 5], "line 4 was left out: event 2"),
    "added again": (lambda a, b, c, d, e, f: [a, b, c, d, b, e, f], 5, [0, 1, 2, 3, 4, 5], "line 5 was left out"),
    "swapped": (lambda a, b, c, d, e, f: [a, b, d, c, e, f], 3, [0, 1, 3, 4, 5], "line 3 was read, but"),
    "empty": (lambda a, b, c, d, e, f: [a, b, b"\n", c, d, e, f], 3, [0, 1, 2, 3, 4, 5], "line 3 was left out: its"),
}  # fmt: skip


@pytest.mark.parametrize(("move", "line", "kept", "text"), MOVES.values(), ids=MOVES)
def test_lines_cannot_be_moved(tmp_path, move, line, kept, text):
    events = filled(tmp_path)
    put(tmp_path, b"".join(move(*lines_of(tmp_path))))
    with pytest.raises(LedgerError, match=f"line {line} is damaged"):
        Ledger.open(tmp_path)
    rest = Ledger.open(tmp_path, damaged="skip")
    assert rest.events == [events[number] for number in kept]
    assert rest.damage[0].startswith(text)


def test_a_line_cannot_be_rewritten_with_a_checksum_of_its_own(tmp_path):
    filled(tmp_path)
    lines = lines_of(tmp_path)
    (tmp_path / "forged").mkdir()
    forger = Ledger(tmp_path / "forged")
    forger._replay(b"".join(lines[:2]))
    lines[2] = forger._encoded("told", {"query": "q2", "cost": 0.0})
    put(tmp_path, b"".join(lines))
    with pytest.raises(LedgerError, match="line 4 is damaged: it does not follow the line before it"):
        Ledger.open(tmp_path)
    # What cannot be trusted is named, and read as it stands.
    rest = Ledger.open(tmp_path, damaged="skip")
    assert (len(rest.events), len(rest.damage)) == (6, 1)


@pytest.mark.parametrize(
    "text",
    ["[]", '{"n":1}', '{"v":1,"n":1,"t":1.0,"kind":"k","data":[]}', '{"v":1,"n":true,"t":1.0,"kind":"k","data":{}}'],
)
def test_a_line_with_a_right_checksum_that_is_no_event(tmp_path, text):
    filled(tmp_path, events=1)
    after = json.loads(lines_of(tmp_path)[0])["sum"]
    content = f'{text[:-1]},"after":"{after}","sum":"'.encode()
    with file_of(tmp_path).open("ab") as file:
        file.write(content + hashlib.sha256(content).hexdigest()[:16].encode() + b'"}\n')
    with pytest.raises(LedgerError, match="line 2 is damaged: it is no event"):
        Ledger.open(tmp_path)


def test_a_reader_that_meets_damage_keeps_what_it_has(tmp_path):
    events = filled(tmp_path)
    lines = lines_of(tmp_path)
    put(tmp_path, b"".join(lines[:3]))
    reader, lenient = Ledger.open(tmp_path), Ledger.open(tmp_path, damaged="skip")
    put(tmp_path, b"".join(lines).replace(b"q4", b"q3"))
    for _ in range(2):
        with pytest.raises(LedgerError, match="line 5 is damaged"):
            reader.refresh()
        assert reader.events == events[:3]
    assert lenient.refresh() == [events[3], events[5]]
    assert lenient.damage == ["line 5 was left out: its checksum does not fit."]
    put(tmp_path, b"".join(lines[:2]) + b"damaged\n")
    with pytest.raises(LedgerError, match="line 3 is damaged"):
        reader.refresh()
    assert reader.events == events[:3]
    put(tmp_path, b"".join(lines))
    assert reader.refresh() == events[3:]
