"""The lock of a folder: one holder at a time, and released by the death of its holder."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mrafno.errors import LedgerError, LedgerLockedError
from mrafno.storage.lock import Lock, lock_state


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


HOLD = """
import os, subprocess, sys, time
from pathlib import Path
from mrafno.storage.lock import Lock
lock = Lock(Path(sys.argv[1]) / "lock")
program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
child = os.fork()
if child == 0:
    held = lock.held
    lock.release()
    (Path(sys.argv[1]) / "child").write_text(str(held))
    time.sleep(60)
    os._exit(0)
while not (Path(sys.argv[1]) / "child").exists() or not (Path(sys.argv[1]) / "child").read_text():
    time.sleep(0.01)
print(program.pid, child, flush=True)
time.sleep(60)
"""


def test_a_second_process_is_refused_with_the_holders_name_until_the_holder_is_killed(tmp_path):
    """The holder's children, forked or started, live on; they must not keep the lock for it."""
    script = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as holder:
        children = [int(pid) for pid in holder.stdout.readline().split()]
        try:
            assert (tmp_path / "child").read_text() == "False"
            who = rf"process {holder.pid} on host {socket.gethostname()} since 2.* UTC \(-c {tmp_path}\)"
            with pytest.raises(LedgerLockedError, match=f"run {tmp_path} is being written by {who}. Wait for it"):
                Lock(tmp_path / "lock")
            holder.kill()
            assert holder.wait() == -signal.SIGKILL
            lock = Lock(tmp_path / "lock")
            assert lock.held
            lock.release()
            for pid in children:
                os.kill(pid, 0)
        finally:
            for pid in children:
                os.kill(pid, signal.SIGKILL)


def dead():
    """A holder that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return {"pid": process.pid, "host": socket.gethostname()}


def test_one_process_cannot_take_the_lock_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-"])
    first = Lock(tmp_path / "lock")
    advice = r"Wait for it or stop it \(close the run there\); to read, open the run with write=False\."
    with pytest.raises(
        LedgerLockedError, match=rf"this very process, {os.getpid()} on host \S+ since .* UTC\. {advice}"
    ):
        Lock(tmp_path / "lock")
    assert json.loads((tmp_path / "lock").read_bytes())["pid"] == os.getpid()
    first.release()
    first.release()
    assert not first.held
    assert (tmp_path / "lock").read_bytes() == b""
    Lock(tmp_path / "lock").release()


def test_the_state_of_a_lock_is_seen_without_taking_it(tmp_path):
    path = tmp_path / "lock"
    assert lock_state(path) == "free"
    lock = Lock(path)
    before = path.read_bytes()
    assert (lock_state(path), path.read_bytes(), lock.held) == ("held", before, True)
    lock.release()
    assert lock_state(path) == "free"
    # A number that another process has by now, one of another host, and one of nobody.
    for holder in ({"pid": 1, "host": socket.gethostname()}, {"pid": 1, "host": "elsewhere"}, dead()):
        path.write_text(json.dumps(holder))
        assert lock_state(path) == "left"
    Lock(path).release()
    assert lock_state(path) == "free"
    (tmp_path / "link").symlink_to(path)
    assert lock_state(tmp_path / "link") == "free"


@pytest.mark.parametrize("content", [b"", b'{"pid":1,"host":"elsewhere"}', b'{"pi', b"\0\0\0"])
def test_what_a_dead_holder_left_in_the_file_does_not_matter(tmp_path, content):
    (tmp_path / "lock").write_bytes(content)
    Lock(tmp_path / "lock").release()


def test_a_file_that_is_no_lock_is_left_alone(tmp_path):
    (tmp_path / "lock").write_text("precious")
    with pytest.raises(LedgerError, match="is not a lock of mrafno"):
        Lock(tmp_path / "lock")
    (tmp_path / "link").symlink_to(tmp_path / "lock")
    with pytest.raises(LedgerError, match="cannot be opened"):
        Lock(tmp_path / "link")
    assert (tmp_path / "lock").read_text() == "precious"


def test_a_full_disk_does_not_keep_the_lock_away(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwrite", full)
    lock = Lock(tmp_path / "lock")
    with pytest.raises(LedgerLockedError, match="written by another process"):
        Lock(tmp_path / "lock")
    lock.release()


class TestWithoutFlock:
    """File systems without flock: the existence of a file is the lock."""

    @pytest.fixture(autouse=True, params=[errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS])
    def _no_flock(self, request, monkeypatch):
        def flock(*_):
            raise OSError(request.param, "no flock")

        monkeypatch.setattr(fcntl, "flock", flock)

    def test_one_process_at_a_time_holds_the_lock(self, tmp_path, monkeypatch):
        lock = Lock(tmp_path / "lock")
        monkeypatch.chdir(tmp_path)
        for path in (tmp_path / "lock", Path("lock")):
            with pytest.raises(LedgerLockedError, match=f"this very process, {os.getpid()}.*remove .*lock.pid by hand"):
                Lock(path)
        lock.release()
        assert not (tmp_path / "lock.pid").exists()
        Lock(tmp_path / "lock").release()

    def test_the_state_is_seen_without_taking_it(self, tmp_path):
        lock = Lock(tmp_path / "lock")
        assert lock_state(tmp_path / "lock") == "held"
        lock.release()
        assert lock_state(tmp_path / "lock") == "free"
        (tmp_path / "lock.pid").write_text(json.dumps(dead()))
        assert lock_state(tmp_path / "lock") == "left"

    def test_the_lock_of_a_dead_process_of_this_host_is_taken_over(self, tmp_path):
        for pid in (dead()["pid"], os.getpid()):  # or it had the number that is ours now
            (tmp_path / "lock.pid").write_text(json.dumps({"pid": pid, "host": socket.gethostname()}))
            lock = Lock(tmp_path / "lock")
            assert json.loads((tmp_path / "lock.pid").read_bytes())["pid"] == os.getpid()
            lock.release()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["lock"]

    @pytest.mark.parametrize(
        "holder",
        [
            {"pid": 1, "host": socket.gethostname()},
            {"pid": 999999999, "host": "elsewhere"},
            {"pid": 10**30, "host": socket.gethostname()},
            {"pid": -1, "host": socket.gethostname()},
            {},
            [],
        ],
    )
    def test_the_lock_of_a_process_that_may_be_alive_is_not_taken_over(self, tmp_path, holder):
        (tmp_path / "lock.pid").write_text(json.dumps(holder))
        with pytest.raises(LedgerLockedError, match=f"remove {tmp_path}/lock.pid by hand"):
            Lock(tmp_path / "lock")
        assert json.loads((tmp_path / "lock.pid").read_bytes()) == holder

    def test_a_process_that_takes_the_lock_meanwhile_keeps_it(self, tmp_path, monkeypatch):
        """Between our look at a dead process's file and its removal, somebody else takes the lock."""
        path = tmp_path / "lock.pid"
        path.write_text("{}")

        def look(*_):
            path.write_text('{"pid":7}')
            return True

        monkeypatch.setattr(Lock, "_stale", look)
        with pytest.raises(LedgerLockedError):
            Lock(tmp_path / "lock")
        assert path.read_text() == '{"pid":7}'

    def test_no_room_for_it(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(LedgerError, match="No space"):
            Lock(tmp_path / "lock")
        monkeypatch.undo()
        assert not (tmp_path / "lock.pid").exists()


def test_a_lock_is_waited_for(tmp_path):
    lock = Lock(tmp_path / "lock")
    threading.Timer(0.2, lock.release).start()
    Lock(tmp_path / "lock", wait=30).release()


def test_a_holder_that_said_it_is_brief_is_waited_for(tmp_path):
    lock = Lock(tmp_path / "lock", brief=True)
    with pytest.raises(LedgerLockedError):
        Lock(tmp_path / "lock", brief=True)  # two such do not wait for each other
    threading.Timer(0.2, lock.release).start()
    Lock(tmp_path / "lock").release()
