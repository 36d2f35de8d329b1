"""Exported files: written atomically, and never inside the run's folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from mrafno.errors import ExportError
from mrafno.storage.files import replace_file, write_bytes


def check_path(path: Path, folder: Path | None = None) -> None:
    """Raise if a file cannot be written to a path, or if the path is inside the run's folder."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ExportError(f"export: {path} is a folder, or in one that does not exist. Give a file in a folder.")
    if folder is not None and path.resolve().is_relative_to(folder.resolve()):
        raise ExportError(f"export: {path} is inside the run's own folder, which is only read. Choose another path.")


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically; an existing one is replaced."""
    try:
        write_bytes(path, content)
    except OSError as error:
        raise ExportError(
            f"export: {path} could not be written ({error}). Free some space, or choose another path."
        ) from error


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary file that replaces ``path`` when the context ends, and is removed if it fails."""
    try:
        with replace_file(path) as temporary:
            yield temporary
    except OSError as error:
        raise ExportError(
            f"export: {path} could not be written ({error}). Free some space, or choose another path."
        ) from error
