"""Atomic writes, and .npy files from anybody."""

import errno
import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import LedgerError
from mrafno.storage.files import (
    from_npy,
    make_folder,
    read_bytes,
    read_npy,
    replace_file,
    to_npy,
    write_bytes,
    write_json,
)


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


# Files of JSON, and files that a library writes.


def test_json_is_written_in_one_step_and_ends_with_a_newline(tmp_path):
    path = tmp_path / "values.json"
    write_json(path, {"a": [1, 2.5]})
    assert path.read_bytes() == b'{"a": [1, 2.5]}\n'
    write_json(path, {"a": {1}}, indent=1, default=sorted)
    assert path.read_bytes() == b'{\n "a": [\n  1\n ]\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, float("nan"), allow_nan=False)
    assert path.read_bytes() == b'{\n "a": [\n  1\n ]\n}\n'
    assert [p.name for p in tmp_path.iterdir()] == ["values.json"]


def test_a_file_that_a_library_writes_takes_its_place_at_the_end(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    calls = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append(named(handle)) or fsync(handle))
    with replace_file(path) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert calls == [str(temporary), str(tmp_path)]


def test_a_library_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write_half():
        with replace_file(path) as temporary:
            temporary.write_bytes(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_only_a_durable_write_waits_for_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write_bytes(tmp_path / "file", b"cache", durable=False)
    assert (tmp_path / "file").read_bytes() == b"cache"
    assert synced == []
    write_bytes(tmp_path / "file", b"ledger")
    assert len(synced) == 2
