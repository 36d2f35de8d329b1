"""Arrays in packs: bit for bit, checked, in few files, and never overwritten."""

import errno
import os

import numpy as np
import pytest

from mrafno.errors import LedgerError
from mrafno.storage import packs
from mrafno.storage.arrays import ArrayFile
from mrafno.storage.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "run") as ledger:
        yield ledger


def some(n=5, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in [(), (0, 3), (5,), (2, 3, 4), (1, 129)][:n]]


def test_arrays_come_back_bit_for_bit_also_in_another_process(ledger):
    given = some()
    files = ledger.pack_arrays(given) + ledger.pack_arrays(given[::-1])
    ledger.append("told", outputs=[file.as_json() for file in files])
    reader = Ledger.open(ledger.folder)
    for values, recorded in zip(given + given[::-1], reader.events[1].data["outputs"], strict=True):
        found = reader.read_array(ArrayFile.from_json(recorded))
        assert (found.tobytes(), found.shape) == (values.tobytes(), values.shape)
        found[...] = 0  # it is the caller's own
    assert [path.name for path in (ledger.folder / "arrays").iterdir()] == ["000000.pack"]


def test_several_arrays_take_one_sync(ledger, monkeypatch):
    ledger.pack_arrays(some())
    syncs, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (syncs.append(handle), sync(handle)))
    ledger.pack_arrays(some())
    assert len(syncs) == 1


def test_a_pack_has_a_bounded_size_and_files_are_few(ledger, monkeypatch):
    monkeypatch.setattr(packs, "PACK_BYTES", 10_000)
    files = [file for seed in range(100) for file in ledger.pack_arrays(some(seed=seed))]
    found = sorted((ledger.folder / "arrays").iterdir())
    assert [path.name for path in found] == [f"{n:06d}.pack" for n in range(len(found))]
    assert 5 < len(found) < 30
    assert all(path.stat().st_size < 10_000 + 3000 for path in found)
    for number, file in enumerate(files):
        np.testing.assert_array_equal(ledger.read_array(file), some(seed=number // 5)[number % 5])


def test_a_changed_byte_damages_one_array_only(ledger, record_property):
    files = ledger.pack_arrays(some())
    path = ledger.folder / files[0].file
    content = path.read_bytes()
    record_property("changed bytes", len(range(0, len(content), 7)))
    for position in range(0, len(content), 7):
        path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        for file in files:
            if file.offset <= position < file.offset + file.size:
                with pytest.raises(LedgerError, match=rf"000000.pack at byte {file.offset} is damaged.*Restore it"):
                    ledger.read_array(file)
            else:
                ledger.read_array(file)
    path.write_bytes(content[: files[3].offset + 10])
    ledger.read_array(files[2])
    with pytest.raises(LedgerError, match="is damaged"):
        ledger.read_array(files[4])


def test_what_a_full_disk_left_harms_nothing(ledger, monkeypatch):
    first = ledger.pack_arrays(some())
    write = os.write

    def full(handle, content):
        write(handle, content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(LedgerError, match=r"5 arrays could not be written .*No space.*is safe"):
            ledger.pack_arrays(some())
    for values, file in zip(some() + some(), first + ledger.pack_arrays(some()), strict=True):
        np.testing.assert_array_equal(ledger.read_array(file), values)


def test_what_another_writer_adds_at_the_same_moment_is_not_overwritten(ledger, monkeypatch):
    """As on a file system whose locks always succeed."""
    write, others = os.write, []

    def late(handle, content):
        if not others:
            others.append(None)
            others[0] = packs.pack_arrays(ledger.folder, [np.full(4, 7.0)])[0]
        return write(handle, content)

    monkeypatch.setattr(os, "write", late)
    [mine] = ledger.pack_arrays([np.arange(3.0)])
    assert ledger.read_array(mine).tolist() == [0.0, 1.0, 2.0]
    assert ledger.read_array(others[0]).tolist() == [7.0] * 4


def test_other_things_than_numbers_are_refused_and_nothing_is_written(ledger):
    for values in (np.array([1j]), np.array([None]), np.array(["a"])):
        with pytest.raises(LedgerError, match="real numbers"):
            ledger.pack_arrays([np.zeros(3), values])
    assert not (ledger.folder / "arrays").exists()
    assert ledger.pack_arrays([]) == []


def test_links_are_not_followed(ledger, tmp_path):
    [file] = ledger.pack_arrays([np.zeros(3)])
    elsewhere = tmp_path / "elsewhere.pack"
    (ledger.folder / file.file).rename(elsewhere)
    (ledger.folder / file.file).symlink_to(elsewhere)
    content = elsewhere.read_bytes()
    with pytest.raises(LedgerError, match="symbolic link"):
        ledger.read_array(file)
    with pytest.raises(LedgerError, match="could not be written"):
        ledger.pack_arrays([np.zeros(3)])
    assert elsewhere.read_bytes() == content


def test_places_that_lead_elsewhere_are_refused(ledger):
    file, _ = ledger.pack_arrays([np.zeros(3), np.zeros(3)])
    good = file.as_json()
    assert ArrayFile.from_json(good) == file
    for name in ("../ledger.pack", "arrays/000000.npy", "arrays/../x.pack", "ledger.jsonl"):
        with pytest.raises(LedgerError, match="is no name of an array"):
            ArrayFile.from_json({**good, "file": name})
    for wrong in ({"offset": -1}, {"offset": None}, {"size": 1.5}, {"size": True}):
        with pytest.raises(LedgerError, match="does not name an array"):
            ArrayFile.from_json({**good, **wrong})
    with pytest.raises(LedgerError, match="is damaged"):
        ledger.read_array(ArrayFile.from_json({**good, "size": 10**15}))
