"""A person's note and tags of a run, in a file beside the ledger: they change, and the ledger does not."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mrafno.errors import LedgerError, RunError
from mrafno.storage.files import read_bytes, write_json
from mrafno.storage.layout import LEDGER, NOTES

#: Characters of a note and of a tag, and tags of a run.
LONGEST_NOTE, LONGEST_TAG, MOST_TAGS = 10_000, 40, 20
_LARGEST = 100_000


@dataclass(frozen=True)
class Notes:
    """A note and tags."""

    note: str = ""
    tags: tuple[str, ...] = ()


def read_notes(folder: Path) -> Notes:
    """The note and the tags of a run; none where the file makes no sense."""
    try:
        content = read_bytes(folder / NOTES)
        if len(content) > _LARGEST:
            return Notes()
        values = json.loads(content)
        return checked(values["note"], values["tags"])
    except (LedgerError, RunError, ValueError, KeyError, TypeError, RecursionError):
        return Notes()


def write_notes(folder: Path, note: str, tags: Sequence[str]) -> Notes:
    """Keep a note and tags with a run, in place of those before."""
    if not (folder / LEDGER).is_file():
        raise RunError(f"notes: {folder} holds no run. Give a run's folder.")
    notes = checked(note, tags)
    write_json(folder / NOTES, {"note": notes.note, "tags": list(notes.tags)})
    return notes


def checked(note: object, tags: object) -> Notes:
    """A note and tags without spaces around them, each tag once; raises RunError if they are none."""
    if not isinstance(note, str) or len(note) > LONGEST_NOTE:
        raise RunError(f"notes: a note is a text of at most {LONGEST_NOTE} characters.")
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise RunError("notes: tags are a list of words.")
    found = tuple(dict.fromkeys(" ".join(tag.split()) for tag in tags if tag.strip()))
    if len(found) > MOST_TAGS or any(len(tag) > LONGEST_TAG or "," in tag for tag in found):
        raise RunError(
            f"notes: a run has at most {MOST_TAGS} tags, of at most {LONGEST_TAG} characters each and without commas."
        )
    return Notes(note.strip(), found)
