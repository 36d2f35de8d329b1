"""Two writers in one run, because the lock failed or files were replaced: no acknowledged event or array is lost."""

import fcntl
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import LedgerError
from mrafno.storage import ledger as module
from mrafno.storage.ledger import Ledger

OTHER = r"ledger.jsonl: somebody else has written"
REPLACED = r"ledger.jsonl was replaced or removed"


@pytest.fixture
def first(tmp_path):
    with Ledger.create(tmp_path / "run", task="tiny") as ledger:
        ledger.append("asked", query="q0")
        yield ledger


def second_writer(ledger):
    """As on a file system whose locks always succeed, or after somebody removed the lock file."""
    (ledger.folder / "lock").unlink()
    return Ledger.open(ledger.folder, write=True)


def kinds(folder):
    return [event.kind for event in Ledger.open(folder).events]


def test_an_append_does_not_cut_the_lines_of_another_writer(first):
    with second_writer(first) as second:
        told = second.append("told", query="q0")
        with pytest.raises(LedgerError, match=f"{OTHER}.*1 line.*stop"):
            first.append("told", query="q1")
        assert Ledger.open(first.folder).events[-1] == told
        # The first one stays stopped, and the second one goes on.
        with pytest.raises(LedgerError, match=OTHER):
            first.append("told", query="q1")
        second.append("trained")
    assert kinds(first.folder) == ["created", "asked", "told", "trained"]


def test_an_array_of_another_writer_is_not_replaced(first):
    with second_writer(first) as second:
        array = second.write_array("q0-output", np.ones(3))
        second.append("told", query="q0", output=array.as_json())
        with pytest.raises(LedgerError, match=OTHER):
            first.write_array("q0-output", np.zeros(3))
        np.testing.assert_array_equal(second.read_array(array), np.ones(3))


def test_an_unfinished_line_of_another_writer_is_not_cut_either(first):
    with (first.folder / "ledger.jsonl").open("ab") as file:
        file.write(b'{"v":1,"n":2,')
    before = (first.folder / "ledger.jsonl").read_bytes()
    with pytest.raises(LedgerError, match=OTHER):
        first.append("told")
    assert (first.folder / "ledger.jsonl").read_bytes() == before
    # It is a write that did not finish, so the next writer that opens the run removes it.
    first.close()
    with Ledger.open(first.folder, write=True) as ledger:
        assert ledger.damage == ["line 3, the last, was not finished: 13 bytes were removed."]
        ledger.append("told")
    assert kinds(first.folder) == ["created", "asked", "told"]


def test_a_failed_append_of_our_own_does_not_excuse_cutting_others(first, monkeypatch):
    def refuse(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        with pytest.raises(LedgerError, match="could not be written"):
            first.append("told", query="q1")
    with second_writer(first) as second:
        second.append("told", query="q0")
    with pytest.raises(LedgerError, match=OTHER):
        first.append("told", query="q1")
    assert kinds(first.folder) == ["created", "asked", "told"]


@pytest.mark.parametrize("how", ["replaced", "removed", "link"])
def test_a_ledger_that_was_replaced_is_not_written(first, tmp_path, how):
    """Otherwise events would go into a file that has no name any more."""
    path = first.folder / "ledger.jsonl"
    copy = Path(shutil.copy(path, tmp_path / "copy"))
    if how == "replaced":
        copy.replace(path)
    else:
        path.unlink()
    if how == "link":
        path.symlink_to(copy)
    with pytest.raises(LedgerError, match=f"{REPLACED}.*Open the run again"):
        first.append("told", query="q1")
    with pytest.raises(LedgerError, match=REPLACED):
        first.write_array("q1-output", np.zeros(3))
    assert not (first.folder / "arrays").exists()
    if how == "replaced":
        assert kinds(first.folder) == ["created", "asked"]


def test_two_writers_that_append_at_once_take_turns(first, monkeypatch):
    """The second one waits for the first one's append, and then sees it."""
    with second_writer(first) as second:
        write = module.write_all
        taken = []

        def look(handle, content):
            with open(first.folder / "ledger.jsonl", "rb") as file:  # noqa: PTH123
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    taken.append(True)
            write(handle, content)

        monkeypatch.setattr(module, "write_all", look)
        second.append("told", query="q0")
        assert taken == [True]
        monkeypatch.undo()
        with pytest.raises(LedgerError, match=OTHER):
            first.append("told", query="q1")


def test_an_append_of_another_host_at_the_same_moment_is_noticed_and_not_cut(first, monkeypatch):
    """Without locks that work, a line can come between the check and the write."""
    with second_writer(first) as second:
        monkeypatch.setattr(fcntl, "flock", lambda *_: None)
        write = module.write_all

        def late(handle, content):
            monkeypatch.setattr(module, "write_all", write)
            second.append("told", query="q0")
            write(handle, content)

        monkeypatch.setattr(module, "write_all", late)
        with pytest.raises(LedgerError, match=OTHER):
            first.append("told", query="q1")
    content = (first.folder / "ledger.jsonl").read_bytes()
    assert content.count(b"\n") == 4
    assert [e.data.get("query") for e in Ledger.open(first.folder, damaged="skip").events] == [None, "q0", "q0"]
