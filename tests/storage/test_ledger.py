"""The ledger: what was recorded is there, and one process writes."""

import contextlib
import hashlib
import json
import os
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
from mrafno.storage.ledger import Ledger
from tests.storage.ledgers import file_of, filled, lines_of, put, read

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
