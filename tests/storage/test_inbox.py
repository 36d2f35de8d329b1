"""Messages that processes leave without a lock: complete or not there, in order, and damage is noticed."""

import os
import time

import numpy as np
import pytest

from mrafno.errors import LedgerError
from mrafno.storage import inbox
from mrafno.storage.inbox import (
    Content,
    clear_unfinished,
    leave_message,
    list_messages,
    read_message,
    refuse_message,
    remove_message,
)


def test_a_message_comes_back_bit_for_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=(2, 5))
    left = leave_message(tmp_path, "q000012", "told", Content({"cost": 1.5, "reason": None}, values))
    [found] = list_messages(tmp_path)
    assert found == left
    assert (found.query, found.kind) == ("q000012", "told")
    content = read_message(tmp_path, found)
    assert content.data == {"cost": 1.5, "reason": None}
    np.testing.assert_array_equal(content.values, values)
    without = leave_message(tmp_path, "q000013", "failed", Content({"reason": "no"}))
    assert read_message(tmp_path, without).values is None
    assert [message.query for message in list_messages(tmp_path)] == ["q000012", "q000013"]
    remove_message(tmp_path, found)
    remove_message(tmp_path, found)
    assert list_messages(tmp_path) == [without]


def test_an_empty_folder_has_no_messages(tmp_path):
    assert list_messages(tmp_path) == []
    clear_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_changed_byte_is_noticed(tmp_path):
    message = leave_message(tmp_path, "q000000", "told", Content({"cost": 2.0}, np.arange(4.0)))
    path = tmp_path / "inbox" / message.name
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(LedgerError, match="damaged"):
            read_message(tmp_path, message)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(LedgerError, match="damaged"):
            read_message(tmp_path, message)
    # A message under another name is another message.
    path.write_bytes(whole)
    other = path.with_name(path.name.replace("q000000", "q000001"))
    path.rename(other)
    with pytest.raises(LedgerError, match="damaged"):
        read_message(tmp_path, list_messages(tmp_path)[0])


def test_what_a_process_left_that_died_is_no_message(tmp_path, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", die)
        with pytest.raises(KeyboardInterrupt):
            leave_message(tmp_path, "q000000", "told", Content())
    assert list_messages(tmp_path) == []
    part = tmp_path / "inbox" / ".x.0123.part"
    part.write_bytes(b"half")
    clear_unfinished(tmp_path)
    assert part.exists()  # its process may be at work
    monkeypatch.setattr(inbox.time, "time", lambda: time.monotonic() + 1e10)
    clear_unfinished(tmp_path)
    assert not part.exists()


def test_a_refused_message_is_kept(tmp_path):
    message = leave_message(tmp_path, "q000000", "told", Content({"cost": 2.0}))
    content = (tmp_path / "inbox" / message.name).read_bytes()
    place = refuse_message(tmp_path, message)
    assert refuse_message(tmp_path, message) == place
    assert (tmp_path / place).read_bytes() == content
    assert list_messages(tmp_path) == []


@pytest.mark.parametrize("id", ["q1", "../q000000", "q000000/x", ""])
def test_a_name_that_is_no_query_is_refused(tmp_path, id):
    with pytest.raises(LedgerError, match="not the id of a query"):
        leave_message(tmp_path, id, "told", Content())


def test_a_full_disk_and_a_link(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(LedgerError, match=r"about q000000 could not be written .*No space.*nothing of it"):
            leave_message(tmp_path, "q000000", "told", Content())
    assert list((tmp_path / "inbox").iterdir()) == []
    (tmp_path / "inbox").rmdir()
    (tmp_path / "inbox").symlink_to(tmp_path)
    with pytest.raises(LedgerError, match="symbolic link"):
        leave_message(tmp_path, "q000000", "told", Content())
