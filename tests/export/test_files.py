"""Files that leave a run."""

import os

import pytest

from mrafno.errors import ExportError
from mrafno.export.files import atomic_file, check_path, write_file


def test_invalid_paths(tmp_path):
    check_path(tmp_path / "file", tmp_path / "run")
    for path in (tmp_path, tmp_path / "none" / "file"):
        with pytest.raises(ExportError, match="is a folder, or in one that does not exist"):
            check_path(path)
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for path in (tmp_path / "run" / "file", tmp_path / "link" / "file", tmp_path / "run" / ".." / "run" / "file"):
        with pytest.raises(ExportError, match="inside the run's own folder"):
            check_path(path, tmp_path / "run")


def test_files_are_written_atomically(tmp_path):
    path = tmp_path / "file"
    write_file(path, b"old")
    with atomic_file(path) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("file", b"new")]

    def half(temporary):
        temporary.write_bytes(b"half")
        raise OSError(28, os.strerror(28))

    with pytest.raises(ExportError, match="No space left"), atomic_file(path) as temporary:
        half(temporary)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("file", b"new")]
    with pytest.raises(ExportError, match="could not be written"):
        write_file(tmp_path / "none" / "file", b"")
