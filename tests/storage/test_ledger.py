"""The ledger: what was recorded is there, what was not is not, and damage has a line number."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from mrafno._version import __version__
from mrafno.errors import LedgerError, LedgerLockedError
from mrafno.storage import ledger as module
from mrafno.storage.arrays import ArrayFile
from mrafno.storage.ledger import Event, Ledger

SAMPLE = Path(__file__).parents[1] / "data" / "ledger-v1"


@pytest.fixture
def quick(monkeypatch):
    """Thousands of files need not reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def filled(folder, events=6):
    with Ledger.create(folder, task="burgers") as ledger:
        for number in range(1, events):
            ledger.append("told", query=f"q{number}", cost=number / 3)
        return ledger.events


def file_of(folder):
    return folder / "ledger.jsonl"


def put(folder, content):
    # In a new file: to write over an old one, some file systems wait for the disk.
    file_of(folder).unlink(missing_ok=True)
    file_of(folder).write_bytes(content)
    (folder / "ledger.copy.jsonl").unlink(missing_ok=True)


def lines_of(folder):
    return file_of(folder).read_bytes().splitlines(keepends=True)


def read(folder, **settings):
    return Ledger.open(folder, **settings).events


# Recording.


def test_events_come_back_as_they_were_written(tmp_path):
    data = {"a": [1, 2.5, None, True, {"b": "ü\n\x00\ud800"}], "kind": "k", "self": 1, "folder": 2, "empty": {}}
    with Ledger.create(tmp_path / "new" / "run", seed=7) as ledger:
        event = ledger.append("asked", **data)
        assert event == ledger.events[1]
        assert (event.number, event.kind, event.data) == (1, "asked", data)
        assert ledger.refresh() == []
    again = Ledger.open(tmp_path / "new" / "run")
    assert again.events == ledger.events
    assert again.damage == []
    first = again.events[0]
    assert (first.number, first.kind) == (0, "created")
    assert first.data == {"format": "mrafno run", "version": 1, "mrafno": __version__, "seed": 7}


def test_the_line_is_as_described(tmp_path):
    filled(tmp_path)
    after = "0" * 16
    for number, line in enumerate(lines_of(tmp_path)):
        values = json.loads(line)
        assert list(values) == ["v", "n", "t", "kind", "data", "after", "sum"]
        assert (values["v"], values["n"], values["after"]) == (1, number, after)
        after = values["sum"]
        assert after == hashlib.sha256(line[: line.index(b'"sum":"') + 7]).hexdigest()[:16]


def test_floats_are_exact(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2**63, 2000).view(np.float64)
    values = [*bits[np.isfinite(bits)].tolist(), -0.0, 5e-324, 1.7976931348623157e308, np.float64(0.1)]
    with Ledger.create(tmp_path) as ledger:
        ledger.append("told", values=values)
    found = read(tmp_path)[1].data["values"]
    assert np.array(found).tobytes() == np.array(values).tobytes()
    assert read(tmp_path)[1].time == ledger.events[1].time


def test_an_event_equals_what_a_reader_sees_and_shares_no_object_with_the_caller(tmp_path):
    mine = {"list": [1]}
    with Ledger.create(tmp_path) as ledger:
        event = ledger.append("told", pair=(1, 2), mine=mine)
        mine["list"].append(2)
        assert event.data == {"pair": [1, 2], "mine": {"list": [1]}}
    assert read(tmp_path)[1] == event


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), [-float("inf")], np.zeros(2), np.int64(3), {1, 2}, b"bytes", {(1, 2): 3}, Path("a")],
    ids=repr,
)
def test_what_json_cannot_hold_is_refused_before_anything_is_written(tmp_path, value):
    with Ledger.create(tmp_path) as ledger:
        before = file_of(tmp_path).read_bytes()
        with pytest.raises(LedgerError, match=r"event 1 \(told\) was not recorded: .*finite"):
            ledger.append("told", value=value)
        assert file_of(tmp_path).read_bytes() == before
        assert ledger.append("told").number == 1
    with pytest.raises(LedgerError, match="finite"):
        Ledger.create(tmp_path / "other", value=value)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("kind", ["", None, 3])
def test_a_kind_is_a_word(tmp_path, kind):
    with Ledger.create(tmp_path) as ledger, pytest.raises(LedgerError, match="its kind must be a word"):
        ledger.append(kind)
    assert len(read(tmp_path)) == 1


def test_an_event_is_on_the_disk_when_append_returns_in_one_write(tmp_path, monkeypatch):
    calls = []
    write, fsync = os.write, os.fsync
    with Ledger.create(tmp_path) as ledger:
        monkeypatch.setattr(os, "write", lambda handle, text: calls.append(bytes(text)) or write(handle, text))
        monkeypatch.setattr(os, "fsync", lambda handle: calls.append(os.fstat(handle).st_size) or fsync(handle))
        ledger.append("told", values=list(range(10_000)))
    assert calls == [lines_of(tmp_path)[1], file_of(tmp_path).stat().st_size]


def test_many_threads_may_append(tmp_path, quick):
    with Ledger.create(tmp_path) as ledger:

        def work(name):
            for step in range(50):
                ledger.append("told", name=name, step=step)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = read(tmp_path)
    assert events == ledger.events
    assert len(events) == 201
    assert [e.data["step"] for e in events[1:] if e.data["name"] == 2] == list(range(50))


# Creating and opening.


def test_a_run_is_created_once(tmp_path):
    events = filled(tmp_path)
    advice = rf"Go on with it \(mrafno resume {tmp_path}, or Run.open"
    with pytest.raises(LedgerError, match=rf"run {tmp_path} exists already. {advice}"):
        Ledger.create(tmp_path)
    with Ledger.open(tmp_path, write=True), pytest.raises(LedgerError, match="exists already"):
        Ledger.create(tmp_path)
    assert read(tmp_path) == events


def test_a_folder_with_other_files_is_no_place_for_a_run(tmp_path):
    for name in ("thesis.tex", "data.csv"):
        (tmp_path / name).touch()
    with pytest.raises(
        LedgerError, match=rf"run {tmp_path}: the folder holds other files \(data.csv, ...\) and no run"
    ):
        Ledger.create(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.tex", "data.csv"}


def test_files_of_a_killed_creation_do_not_prevent_a_new_one(tmp_path):
    for name in ("lock", ".ledger.jsonl.abc.part", ".gitignore"):
        (tmp_path / name).touch()
    Ledger.create(tmp_path).close()
    assert len(read(tmp_path)) == 1


def test_of_two_that_create_at_once_one_is_refused(tmp_path, monkeypatch):
    """The other one is done before we have the lock."""
    make = module.make_folder
    monkeypatch.setattr(module, "make_folder", lambda folder: (make(folder), monkeypatch.undo(), filled(tmp_path)))
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(tmp_path)
    assert len(read(tmp_path)) == 6


def test_names_that_the_ledger_records_itself_are_refused(tmp_path):
    with pytest.raises(LedgerError, match="itself records format, version"):
        Ledger.create(tmp_path / "run", version=3, format="x")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("write", [False, True])
def test_a_folder_without_a_run_is_refused_and_left_alone(tmp_path, write):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(LedgerError, match=r"ledger\.jsonl is missing\. Give the folder of a run"):
            Ledger.open(folder, write=write)
    assert list(tmp_path.iterdir()) == []


FOREIGN = (b"", b"\n", b"not a ledger", b"not a ledger\n", b'{"n":0,"t":1.0}\n{"n":1}\n', b"\0" * 50)


@pytest.mark.parametrize("content", FOREIGN)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path, content):
    put(tmp_path, content)
    for settings in ({}, {"write": True}, {"damaged": "skip"}):
        with pytest.raises(LedgerError, match=r"ledger\.jsonl.*no ledger of mrafno.*[Rr]estore"):
            Ledger.open(tmp_path, **settings)
        assert file_of(tmp_path).read_bytes() == content


def test_another_programs_ledger_is_refused(tmp_path):
    put(tmp_path, Ledger(tmp_path)._encoded("created", {"format": "something else"}))
    for settings in ({}, {"write": True}, {"damaged": "skip"}):
        with pytest.raises(LedgerError, match="is no ledger of mrafno"):
            Ledger.open(tmp_path, **settings)


def test_a_link_in_place_of_the_ledger_is_refused(tmp_path):
    filled(tmp_path / "run")
    (tmp_path / "other").mkdir()
    file_of(tmp_path / "other").symlink_to(file_of(tmp_path / "run"))
    for settings in ({}, {"write": True}):
        with pytest.raises(LedgerError, match="symbolic link"):
            Ledger.open(tmp_path / "other", **settings)
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(tmp_path / "other")


def test_readers_and_closed_writers_cannot_write(tmp_path):
    filled(tmp_path)
    closed = Ledger.open(tmp_path, write=True)
    closed.close()
    closed.close()
    for ledger in (Ledger.open(tmp_path), closed):
        with pytest.raises(LedgerError, match="not open for writing"):
            ledger.append("told")
        with pytest.raises(LedgerError, match="not open for writing"):
            ledger.write_array("a", np.zeros(1))
    with pytest.raises(LedgerError, match="only a reader"):
        Ledger.open(tmp_path, write=True, damaged="skip")


def test_a_reader_changes_nothing(tmp_path):
    filled(tmp_path)
    with file_of(tmp_path).open("ab") as file:
        file.write(b'{"v":1,"n":6')
    (tmp_path / "lock").unlink()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path, file_of(tmp_path))}
    ledger = Ledger.open(tmp_path)
    assert ledger.refresh() == []
    assert (len(ledger.events), ledger.damage) == (6, [])
    assert {path: path.stat().st_mtime_ns for path in before} == before


# One writer.


def test_a_second_writer_is_refused(tmp_path):
    filled(tmp_path)
    with Ledger.open(tmp_path, write=True) as first:
        with pytest.raises(LedgerLockedError, match="this very process"):
            Ledger.open(tmp_path, write=True)
        first.append("told")
        assert len(read(tmp_path)) == 7
    with Ledger.open(tmp_path, write=True) as second:
        assert second.append("told").number == 7


def test_a_refused_open_gives_the_lock_back(tmp_path):
    filled(tmp_path)
    good = file_of(tmp_path).read_bytes()
    put(tmp_path, good.replace(b"q2", b"q3"))
    with pytest.raises(LedgerError, match="line 3"):
        Ledger.open(tmp_path, write=True)
    put(tmp_path, good)
    Ledger.open(tmp_path, write=True).close()


WRITE = """
import sys, time
from mrafno.storage.ledger import Ledger
with Ledger.open(sys.argv[1], write=True) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(1, 301):
        ledger.append("told", i=i, text="x" * (i * i % 20_000))
    print("done", flush=True)
    sys.stdin.readline()
"""


def test_a_reader_sees_whole_events_in_order_while_another_process_writes(tmp_path):
    Ledger.create(tmp_path).close()
    script = [sys.executable, "-c", WRITE, str(tmp_path)]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        with pytest.raises(LedgerLockedError, match=rf"written by process {writer.pid} on host .* \(-c {tmp_path}\)"):
            Ledger.open(tmp_path, write=True)
        reader = Ledger.open(tmp_path)
        print(file=writer.stdin, flush=True)
        seen, looks = list(reader.events), 0
        while len(seen) < 301 and writer.poll() is None:
            seen += reader.refresh()
            looks += 1
        assert writer.stdout.readline() == "done\n"
        # Killed: whatever it was doing, its lock is free.
        writer.kill()
        writer.wait()
    assert [event.number for event in seen] == list(range(301))
    assert all(e.data == {"i": e.number, "text": "x" * (e.number**2 % 20_000)} for e in seen[1:])
    assert looks > 1
    with Ledger.open(tmp_path, write=True) as ledger:
        assert ledger.events == reader.events == seen
        ledger.append("told")
    assert [event.number for event in reader.refresh()] == [301]
    assert reader.refresh() == []


def test_a_run_can_be_copied_and_resumed_elsewhere(tmp_path):
    with Ledger.create(tmp_path / "here") as here:
        array = here.write_array("a", np.arange(3.0))
        here.append("told", output=array.as_json())
        shutil.copytree(tmp_path / "here", tmp_path / "there")
        with Ledger.open(tmp_path / "there", write=True) as there:
            np.testing.assert_array_equal(
                there.read_array(ArrayFile.from_json(there.events[1].data["output"])), range(3)
            )
            there.append("told")
    assert (len(read(tmp_path / "here")), len(read(tmp_path / "there"))) == (2, 3)


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


# Arrays.


def test_a_writer_that_died_in_an_array_leaves_nothing(tmp_path, monkeypatch):
    def die(*_):
        os._exit(1)

    filled(tmp_path)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            ledger = Ledger.open(tmp_path, write=True)
            os.replace = die
            ledger.write_array("a", np.zeros(3))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    [left] = (tmp_path / "arrays").iterdir()
    assert left.name.endswith(".part")
    assert len(read(tmp_path)) == 6
    assert left.exists()
    with Ledger.open(tmp_path, write=True) as ledger:
        assert not left.exists()
        ledger.write_array("a", np.zeros(3))


def test_a_forked_child_does_not_write(tmp_path):
    with Ledger.create(tmp_path) as ledger:
        child = os.fork()
        if child == 0:
            try:
                ledger.append("told", by="the child")
            except LedgerError:
                ledger.close()
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with pytest.raises(LedgerLockedError):
            Ledger.open(tmp_path, write=True)
        ledger.append("told", by="the parent")
    assert [event.data.get("by") for event in read(tmp_path)] == [None, "the parent"]


# Versions.


def test_a_ledger_of_version_1_is_read(tmp_path):
    """The sample in tests/data/ledger-v1 was written once by mrafno 0.1.0 and is never written again.

    It is what these calls gave: ``Ledger.create(folder, task="burgers", seed=0)``, ``append("asked", query="q000000",
    level=1)``, ``write_array("q000000-output", [[0.1, -2.5, 1/3]])``, ``append("told", query="q000000", cost=41.2,
    output=<that array>)`` and ``append("failed", query="q000001", reason="the solver said: ∞ \\n in cell 3")``. A new
    version of the format gets a sample and a test of its own beside this one.
    """
    shutil.copytree(SAMPLE, tmp_path / "run")
    with Ledger.open(tmp_path / "run", write=True) as ledger:
        kinds = ["created", "asked", "told", "failed"]
        assert [(e.number, e.kind) for e in ledger.events] == list(enumerate(kinds))
        created, asked, told, failed = (event.data for event in ledger.events)
        assert created == {"format": "mrafno run", "version": 1, "mrafno": "0.1.0", "task": "burgers", "seed": 0}
        assert asked == {"query": "q000000", "level": 1}
        assert (told["query"], told["cost"]) == ("q000000", 41.2)
        np.testing.assert_array_equal(ledger.read_array(ArrayFile.from_json(told["output"])), [[0.1, -2.5, 1 / 3]])
        assert failed == {"query": "q000001", "reason": "the solver said: ∞ \n in cell 3"}
        times = [event.time for event in ledger.events]
        assert times == sorted(times)
        assert times[0] > 1.7e9
        assert ledger.append("told").number == 4
    assert len(read(tmp_path / "run")) == 5


def test_a_newer_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Ledger, "VERSION", 2)
    monkeypatch.setattr(module, "__version__", "9.8.7")
    filled(tmp_path)
    monkeypatch.undo()
    content = file_of(tmp_path).read_bytes()
    for settings in ({}, {"write": True}, {"damaged": "skip"}):
        with pytest.raises(LedgerError, match=r"written by mrafno 9\.8\.7 in format 2.*up to 1: upgrade"):
            Ledger.open(tmp_path, **settings)
    assert file_of(tmp_path).read_bytes() == content


def test_an_older_version_is_upgraded_when_read_and_goes_on_in_the_new_one(tmp_path, monkeypatch):
    filled(tmp_path)

    def renamed(event):
        return Event(event.number, event.kind.upper(), event.time, event.data)

    monkeypatch.setattr(Ledger, "VERSION", 2)
    with pytest.raises(LedgerError, match=r"line 1 is in format 1, which mrafno .* does not read"):
        Ledger.open(tmp_path)
    monkeypatch.setitem(module.UPGRADES, 1, renamed)
    with Ledger.open(tmp_path, write=True) as ledger:
        ledger.append("told")
    assert [event.kind for event in read(tmp_path)] == ["CREATED", *["TOLD"] * 5, "told"]
    assert [json.loads(line)["v"] for line in lines_of(tmp_path)] == [1] * 6 + [2]
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="line 7 was written by a newer mrafno in format 2"):
        Ledger.open(tmp_path)


# The working directory.


def test_a_change_of_the_working_directory_does_not_redirect_writes(tmp_path, monkeypatch):
    """As by a simulator that calls os.chdir while the run was given by a relative path."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Ledger.create("run") as ledger:
        monkeypatch.chdir(tmp_path / "elsewhere")
        array = ledger.write_array("a", np.arange(3.0))
        ledger.append("told", output=array.as_json())
        assert ledger.read_array(array).tolist() == [0.0, 1.0, 2.0]
    assert list((tmp_path / "elsewhere").iterdir()) == []
    monkeypatch.chdir(tmp_path)
    reader = Ledger.open("run")
    assert (reader.folder, reader.given) == (tmp_path / "run", Path("run"))
    with Ledger.open("run", write=True) as ledger:
        monkeypatch.chdir(tmp_path / "elsewhere")
        new = ledger.append("trained")
    assert reader.refresh() == [new]
    assert reader.read_array(array).tolist() == [0.0, 1.0, 2.0]
