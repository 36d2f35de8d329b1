"""Ledgers of earlier and of newer versions."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mrafno.errors import LedgerError
from mrafno.storage import ledger as module
from mrafno.storage.arrays import ArrayFile
from mrafno.storage.ledger import Event, Ledger
from tests.storage.ledgers import file_of, filled, lines_of, read

SAMPLE = Path(__file__).parents[1] / "data" / "ledger-v1"


def test_a_ledger_of_version_1_is_read(tmp_path):
    """The sample in tests/data/ledger-v1 was written once by mrafno 0.1.0 and is never written again.

    It is what these calls gave: ``Ledger.create(folder, task="burgers", seed=0)``, ``append("asked", query="q000000",
    level=1)``, ``write_array("q000000-output", [[0.1, -2.5, 1/3]])``, ``append("told", query="q000000", cost=41.2,
    output=<that array>)`` and ``append("failed", query="q000001", reason="the solver said: ∞ \\n in cell 3")``. A new
    version of the format gets a sample and a test of its own beside this one.
    """
    shutil.copytree(SAMPLE, tmp_path / "run")
    with Ledger.open(tmp_path / "run", write=True) as ledger:
        kinds = ["created", "asked", "told", "failed"]
        assert [(e.number, e.kind) for e in ledger.events] == list(enumerate(kinds))
        created, asked, told, failed = (event.data for event in ledger.events)
        assert created == {"format": "mrafno run", "version": 1, "mrafno": "0.1.0", "task": "burgers", "seed": 0}
        assert asked == {"query": "q000000", "level": 1}
        assert (told["query"], told["cost"]) == ("q000000", 41.2)
        np.testing.assert_array_equal(ledger.read_array(ArrayFile.from_json(told["output"])), [[0.1, -2.5, 1 / 3]])
        assert failed == {"query": "q000001", "reason": "the solver said: ∞ \n in cell 3"}
        times = [event.time for event in ledger.events]
        assert times == sorted(times)
        assert times[0] > 1.7e9
        assert ledger.append("told").number == 4
    assert len(read(tmp_path / "run")) == 5


def test_a_newer_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Ledger, "VERSION", 2)
    monkeypatch.setattr(module, "__version__", "9.8.7")
    filled(tmp_path)
    monkeypatch.undo()
    content = file_of(tmp_path).read_bytes()
    for settings in ({}, {"write": True}, {"damaged": "skip"}):
        with pytest.raises(LedgerError, match=r"written by mrafno 9\.8\.7 in format 2.*up to 1: upgrade"):
            Ledger.open(tmp_path, **settings)
    assert file_of(tmp_path).read_bytes() == content


def test_an_older_version_is_upgraded_when_read_and_goes_on_in_the_new_one(tmp_path, monkeypatch):
    filled(tmp_path)

    def renamed(event):
        return Event(event.number, event.kind.upper(), event.time, event.data)

    monkeypatch.setattr(Ledger, "VERSION", 2)
    with pytest.raises(LedgerError, match=r"line 1 is in format 1, which mrafno .* does not read"):
        Ledger.open(tmp_path)
    monkeypatch.setitem(module.UPGRADES, 1, renamed)
    with Ledger.open(tmp_path, write=True) as ledger:
        ledger.append("told")
    assert [event.kind for event in read(tmp_path)] == ["CREATED", *["TOLD"] * 5, "told"]
    assert [json.loads(line)["v"] for line in lines_of(tmp_path)] == [1] * 6 + [2]
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="line 7 was written by a newer mrafno in format 2"):
        Ledger.open(tmp_path)
