"""Notes and tags beside a run: kept as written, checked, and never in the ledger."""

import pytest

from mrafno.errors import RunError
from mrafno.run.notes import Notes, read_notes, write_notes
from tests.runs import create, ledger_bytes


def test_notes_are_kept_and_the_ledger_does_not_change(tmp_path):
    with create(tmp_path / "run") as run:
        before = ledger_bytes(run)
        kept = write_notes(tmp_path / "run", "  why: <b>viscosity</b> too low ", ["good", " to  repeat", "good", ""])
        assert ledger_bytes(run) == before
    assert kept == read_notes(tmp_path / "run") == Notes("why: <b>viscosity</b> too low", ("good", "to repeat"))


@pytest.mark.parametrize(
    ("note", "tags", "message"),
    [("x" * 10_001, [], "at most 10000"), (3, [], "a note is a text"), ("", "ab", "a list of words"),
     ("", ["x" * 41], "at most 40"), ("", ["a,b"], "without commas"), ("", [str(i) for i in range(21)], "at most 20")],
)  # fmt: skip
def test_what_is_no_note_is_refused(tmp_path, note, tags, message):
    create(tmp_path / "run").close()
    with pytest.raises(RunError, match=message):
        write_notes(tmp_path / "run", note, tags)
    assert read_notes(tmp_path / "run") == Notes()


def test_only_runs_have_notes(tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        write_notes(tmp_path, "x", [])


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"note": 1, "tags": []}', "[" * 10_000, "x" * 200_000])
def test_files_that_make_no_sense_are_no_notes(tmp_path, content):
    (tmp_path / "notes.json").write_text(content)
    assert read_notes(tmp_path) == Notes()
