"""Files that leave a run: whole or not at all, and never inside the run's own folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from mrafno.errors import ExportError
from mrafno.storage.files import replace_file, write_bytes


def check_place(path: Path, folder: Path | None = None) -> None:
    """Raise where a file cannot be put: in a folder that does not exist, or in that of the run."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ExportError(f"export: {path} is a folder, or in one that does not exist. Name a file in a folder.")
    if folder is not None and path.resolve().is_relative_to(folder.resolve()):
        raise ExportError(f"export: {path} is inside the run's own folder, which is only read. Choose another place.")


def write_file(path: Path, content: bytes) -> None:
    """Put a file in its place in one step; one that was there before is replaced."""
    try:
        write_bytes(path, content)
    except OSError as error:
        raise ExportError(
            f"export: {path} could not be written ({error}). Make room, or choose another place."
        ) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of ``path`` when that is done, and is removed when it fails."""
    try:
        with replace_file(path) as temporary:
            yield temporary
    except OSError as error:
        raise ExportError(
            f"export: {path} could not be written ({error}). Make room, or choose another place."
        ) from error
