"""Damaged ledgers and their copies."""

import numpy as np
import pytest

from mrafno.errors import LedgerError
from mrafno.storage.events import encode_line
from mrafno.storage.ledger import Ledger
from mrafno.storage.salvage import salvage


@pytest.fixture
def folder(tmp_path):
    with Ledger.create(tmp_path / "run", task="tiny") as ledger:
        for number in range(6):
            ledger.append("told", query=f"q{number}")
    return tmp_path / "run"


def ledger_of(folder):
    return folder / "ledger.jsonl"


def copy_of(folder):
    return folder / "ledger.copy.jsonl"


def queries(found):
    return [event.data.get("query") for event in found.events]


def test_the_copy_has_every_line_as_soon_as_it_is_recorded(tmp_path):
    with Ledger.create(tmp_path / "run") as ledger:
        for _ in range(3):
            assert copy_of(ledger.folder).read_bytes() == ledger_of(ledger.folder).read_bytes()
            ledger.append("told")
    with Ledger.open(ledger.folder, write=True) as again:
        again.append("told")
    assert copy_of(ledger.folder).read_bytes() == ledger_of(ledger.folder).read_bytes()


def test_an_intact_ledger_has_no_faults(folder):
    found = salvage(folder)
    assert (found.faults, found.restored, found.whole, found.stale, found.rows) == ((), 0, True, False, 7)
    assert found.rewritten(1) == ledger_of(folder).read_bytes()


@pytest.mark.parametrize("seed", range(12))
def test_any_damage_of_the_ledger_is_found_and_undone_bit_for_bit(folder, seed, record_property):
    rng = np.random.default_rng(seed)
    content = ledger_of(folder).read_bytes()
    lines = content.splitlines(keepends=True)
    row = int(rng.integers(len(lines)))
    position = int(rng.integers(len(content) - 1))
    flipped = bytearray(content)
    flipped[position] ^= 1 << int(rng.integers(8))
    damaged = [
        bytes(flipped),
        b"".join(lines[:row] + lines[row + 1 :]),  # a line was removed
        b"".join(lines[: row + 1] + lines[row:]),  # or is there twice
        b"".join(lines[:row]),  # or the end is missing
        content[:position],
        b"",
        lines[0] + encode_line(1, 1, "told", {"query": "another"}, b"0" * 16) + b"".join(lines[2:]),
    ]
    record_property("damaged ledgers", len(damaged) + 1)
    for one in damaged:
        ledger_of(folder).write_bytes(one)
        found = salvage(folder)
        assert found.faults
        assert found.whole
        assert found.rewritten(1) == content
    ledger_of(folder).unlink()
    assert salvage(folder).rewritten(1) == content


def test_damage_in_both_files_costs_only_what_both_have_lost(folder):
    content = ledger_of(folder).read_bytes().splitlines(keepends=True)
    ledger_of(folder).write_bytes(b"".join([*content[:2], b"x\n", *content[3:5], b"y\n", content[6]]))
    copy_of(folder).write_bytes(b"".join([*content[:2], b"z\n", *content[3:]]))
    found = salvage(folder)
    assert queries(found) == [None, "q0", "q2", "q3", "q4", "q5"]
    assert (found.whole, found.restored, [row for row, _ in found.faults]) == (False, 1, [3, 6])
    ledger_of(folder).write_bytes(found.rewritten(1))
    assert [event.data.get("query") for event in Ledger.open(folder).events] == queries(found)
    assert [event.time for event in Ledger.open(folder).events] == [event.time for event in found.events]


def test_without_a_copy_the_other_lines_are_kept(folder):
    copy_of(folder).unlink()
    lines = ledger_of(folder).read_bytes().splitlines(keepends=True)
    ledger_of(folder).write_bytes(b"".join(lines[:3] + lines[4:]))
    found = salvage(folder)
    assert queries(found) == [None, "q0", "q1", "q3", "q4", "q5"]
    assert not found.whole
    ledger_of(folder).write_bytes(found.rewritten(1, found.events[:-1]))
    assert len(Ledger.open(folder).events) == 5


def test_a_damaged_copy_is_noticed_and_made_again(folder):
    copy_of(folder).write_bytes(b"nonsense\n" + copy_of(folder).read_bytes())
    found = salvage(folder)
    assert (found.stale, found.faults) == (True, ())
    Ledger.open(folder, write=True).close()
    assert copy_of(folder).read_bytes() == ledger_of(folder).read_bytes()


def test_a_write_that_did_not_finish_is_no_fault(folder):
    with ledger_of(folder).open("ab") as file:
        file.write(b'{"v":1,"n":7')
    found = salvage(folder)
    assert (found.faults, found.whole, found.stale) == ((), True, False)
    Ledger.open(folder, write=True).close()


def test_a_ledger_that_was_cut_off_between_lines_is_not_written(folder):
    """Nothing in its own lines shows it."""
    lines = ledger_of(folder).read_bytes().splitlines(keepends=True)
    ledger_of(folder).write_bytes(b"".join(lines[:-2]))
    with pytest.raises(LedgerError, match=r"lacks the last 2 of its lines.*mrafno repair.*remove ledger.copy.jsonl"):
        Ledger.open(folder, write=True)
    assert len(Ledger.open(folder).events) == 5
    copy_of(folder).unlink()
    with Ledger.open(folder, write=True) as ledger:
        ledger.append("told", query="another")
    assert salvage(folder).faults == ()


def test_a_copy_that_cannot_be_written_stops_nothing(folder):
    copy_of(folder).unlink()
    copy_of(folder).mkdir()
    with Ledger.open(folder, write=True) as ledger:
        ledger.append("told", query="q6")
    assert len(Ledger.open(folder).events) == 8
