"""Files that outlive a crash, arrays from anybody, and a lock that the dead do not hold."""

import errno
import fcntl
import io
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import LedgerError, LedgerLockedError
from mrafno.storage.files import Lock, from_npy, lock_state, make_folder, read_bytes, read_npy, to_npy, write_bytes


def npy(values, **settings):
    file = io.BytesIO()
    np.save(file, values, **settings)
    return file.getvalue()


def with_header(shape, dtype="<f8"):
    """A .npy file that claims a shape and has no numbers."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def named(handle):
    return str(Path(f"/proc/self/fd/{handle}").readlink())


# Writing.


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    write_bytes(path, b"new and longer")
    assert path.read_bytes() == b"new and longer"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_others_may_read_it_if_the_umask_says_so(tmp_path):
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "open"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space"):
        write_bytes(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_the_content_is_on_the_disk_before_the_name_and_the_name_before_the_return(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append(named(handle)) or fsync(handle))
    monkeypatch.setattr(os, "replace", lambda *names: calls.append("replace") or replace(*names))
    write_bytes(tmp_path / "file", b"content")
    assert calls[0].endswith(".part")
    assert calls[1:] == ["replace", str(tmp_path)]


def test_a_short_write_goes_on(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:7]))
    write_bytes(tmp_path / "file", bytes(range(100)))
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == bytes(range(100))


def test_folders_are_made_with_those_above(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(named(handle)) or fsync(handle))
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [str(tmp_path), str(tmp_path / "a")]


# Reading.


def test_only_regular_files_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    assert read_bytes(tmp_path / "file", start=4) == b"456789"
    assert read_bytes(tmp_path / "file", start=40) == b""
    for name, text in (
        ("link", "is a symbolic link, which is not followed"), ("none", "is missing"), ("pipe", "is no regular file"),
        ("", "is no regular file"), ("file/below", "cannot be read \\(Not a directory\\)"),
    ):  # fmt: skip
        with pytest.raises(LedgerError, match=f"{tmp_path}.*{text}. Do this.$"):
            read_bytes(tmp_path / name, advice="Do this.")


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i8", "<i2", "|u1"])
def test_real_numbers_are_read_as_float64(tmp_path, shape, dtype):
    values = (100 * np.random.default_rng(0).random(shape)).astype(dtype)
    for order in "CF":
        (tmp_path / "a.npy").write_bytes(npy(np.asarray(values, order=order)))
        found = read_npy(tmp_path / "a.npy")
        np.testing.assert_array_equal(found, values)
        assert (found.dtype, found.shape) == (np.float64, shape)
        assert found.flags.writeable
        assert found.flags.c_contiguous


def test_what_is_written_is_little_endian_and_bit_for_bit():
    values = np.array([[0.1, np.nan, -0.0], [np.inf, 5e-324, 1 / 3]])
    for given in (values, values.astype(">f8"), np.asfortranarray(values)):
        content = to_npy(given)
        assert content == npy(values)
        assert from_npy(content, where="", advice="").tobytes() == values.tobytes()
    assert from_npy(to_npy(np.float64(3)), where="", advice="").shape == ()


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_nothing_is_unpickled(tmp_path):
    sprung = tmp_path / "sprung"
    path = tmp_path / "a.npy"
    objects = np.array([Trap(sprung)], dtype=object)
    zipped = io.BytesIO()
    np.savez(zipped, values=np.zeros(3))
    for content in (pickle.dumps(Trap(sprung)), npy(objects, allow_pickle=True), zipped.getvalue()):
        path.write_bytes(content)
        with pytest.raises(LedgerError, match=r"a\.npy (is no \.npy file|holds object).*Give a \.npy file"):
            read_npy(path)
    assert not sprung.exists()
    np.load(io.BytesIO(npy(objects, allow_pickle=True)), allow_pickle=True)
    assert sprung.exists()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is no .npy file"),
        (b"\x93NUMPY", "is no .npy file"),
        (b"\x93NUMPY\x03\x00\x00\x00\x00\x00", "is no .npy file"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, "header is damaged"),
        (npy(np.array([1j])), "holds complex128, which are no real numbers"),
        (npy(np.array([True])), "holds bool"),
        (npy(np.array(["a"])), "holds <U1"),
        (npy(np.zeros(2, dtype="f8,f8")), "which are no real numbers"),
        (npy(np.zeros(1, dtype="M8[s]")), "which are no real numbers"),
        (npy(np.zeros(3)) + b"\0", "cut off or too long"),
        (with_header((10**12,)), "cut off or too long"),
        (with_header((2**62, 4)), "cut off or too long"),
        (with_header((-2, -3)) + bytes(48), "cut off or too long"),
        (with_header((-1,)) + bytes(48), "cut off or too long"),
    ],
)
def test_other_content_is_refused(tmp_path, content, text):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(LedgerError, match=text):
        read_npy(tmp_path / "a.npy")


def test_an_array_cut_at_any_byte_is_refused(tmp_path):
    content = npy(np.arange(3.0))
    for size in range(len(content)):
        (tmp_path / f"{size}.npy").write_bytes(content[:size])
        with pytest.raises(LedgerError, match=r"is no \.npy file|is cut off"):
            read_npy(tmp_path / f"{size}.npy")


# The lock.

HOLD = """
import os, subprocess, sys, time
from pathlib import Path
from mrafno.storage.files import Lock
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


def test_a_second_process_is_refused_and_told_who_holds_it_until_that_is_killed(tmp_path):
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


def test_one_process_has_it_once(tmp_path, monkeypatch):
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


def test_a_look_at_a_lock_tells_who_lives(tmp_path):
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
    with pytest.raises(LedgerError, match="somebody else's"):
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

    def test_one_has_it_at_a_time(self, tmp_path, monkeypatch):
        lock = Lock(tmp_path / "lock")
        monkeypatch.chdir(tmp_path)
        for path in (tmp_path / "lock", Path("lock")):
            with pytest.raises(LedgerLockedError, match=f"this very process, {os.getpid()}.*remove .*lock.pid by hand"):
                Lock(path)
        lock.release()
        assert not (tmp_path / "lock.pid").exists()
        Lock(tmp_path / "lock").release()

    def test_a_look_tells_who_lives(self, tmp_path):
        lock = Lock(tmp_path / "lock")
        assert lock_state(tmp_path / "lock") == "held"
        lock.release()
        assert lock_state(tmp_path / "lock") == "free"
        (tmp_path / "lock.pid").write_text(json.dumps(dead()))
        assert lock_state(tmp_path / "lock") == "left"

    def test_a_dead_process_of_this_host_has_it_no_more(self, tmp_path):
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
    def test_one_that_may_live_keeps_it(self, tmp_path, holder):
        (tmp_path / "lock.pid").write_text(json.dumps(holder))
        with pytest.raises(LedgerLockedError, match=f"remove {tmp_path}/lock.pid by hand"):
            Lock(tmp_path / "lock")
        assert json.loads((tmp_path / "lock.pid").read_bytes()) == holder

    def test_a_holder_that_comes_meanwhile_keeps_it(self, tmp_path, monkeypatch):
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
