from pathlib import Path

import pytest

from mrafno.errors import LedgerError
from mrafno.storage.new_folder import check_new


def test_a_folder_that_is_missing_or_empty_is_free(tmp_path):
    check_new(tmp_path)
    check_new(tmp_path / "missing")
    # What a creation leaves that was killed.
    (tmp_path / "lock").touch()
    (tmp_path / ".part").touch()
    check_new(str(tmp_path))


def test_a_run_or_other_files_are_not_disturbed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(LedgerError, match=r"the folder holds other files \(notes.txt\) and no run"):
        check_new(Path())
    (tmp_path / "ledger.jsonl").touch()
    with pytest.raises(LedgerError, match=rf"run {tmp_path} exists already. Go on with it \(mrafno resume {tmp_path}"):
        check_new(Path())
