"""Two runs open for writing at once, because locks fail: nothing that was told is lost, the second one is stopped."""

import fcntl
import os
import shutil

import pytest

from mrafno.errors import LedgerError
from mrafno.run import Run
from tests import runs


@pytest.fixture
def asked(tmp_path):
    """A run with four queries that wait for their answers."""
    with runs.create(tmp_path / "run") as run:
        yield run, run.ask(4)


def answer(run, query):
    run.tell(query.id, run.task.solve(query.f[None], query.level)[0])


def told(folder):
    with Run.open(folder, write=False) as run:
        for record in run.state.queries.values():
            if record.status == "told":
                run.recorder.example(record)  # its arrays are intact
        return sorted(record.id for record in run.state.queries.values() if record.status == "told")


@pytest.mark.parametrize("how", ["removed", "granted"])
def test_a_lock_that_fails_loses_no_result(asked, how, monkeypatch):
    """The lock file is removed, or the file system grants every lock."""
    run, queries = asked
    if how == "removed":
        (run.path / "lock").unlink()
    else:
        monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with Run.open(run.path, runs.tiny()) as second:
        answer(second, queries[0])
        with pytest.raises(LedgerError, match="somebody else has written"):
            answer(run, queries[1])
        with pytest.raises(LedgerError, match="somebody else has written"):
            run.ask(1)
        answer(second, queries[2])
    assert told(run.path) == [queries[0].id, queries[2].id]
    run.close()
    monkeypatch.undo()
    # The run that was stopped is opened again, and has everything.
    with Run.open(run.path, runs.tiny()) as again:
        answer(again, queries[1])
    assert told(run.path) == [query.id for query in queries[:3]]


def test_a_ledger_that_was_replaced_under_an_open_run_is_not_written(asked, tmp_path):
    run, queries = asked
    answer(run, queries[0])
    path = run.path / "ledger.jsonl"
    shutil.copy(path, tmp_path / "copy")
    os.replace(tmp_path / "copy", path)  # noqa: PTH105
    with pytest.raises(LedgerError, match="was replaced or removed"):
        answer(run, queries[1])
    run.close()
    with Run.open(run.path, runs.tiny()) as again:
        answer(again, queries[1])
    assert told(run.path) == [queries[0].id, queries[1].id]
