"""Rows of all kinds give the same numbers as an array in memory, for every index, and keep nothing."""

import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.tasks.rows import (
    DrawnRows,
    Hdf5Rows,
    JoinedRows,
    MappedRows,
    SelectedRows,
    as_rows,
    blocks,
    reopened,
    select,
    unchanged,
)

VALUES = np.random.default_rng(0).standard_normal((30, 2, 5)).astype(np.float32)
INDICES = [3, 4, slice(2, 20, 3), slice(None), np.array([7, 1, 29, 1, -1]), [], np.arange(10, 15)]


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "values.npy", VALUES)
    with h5py.File(tmp_path / "values.h5", "w") as file:
        file["a/values"] = VALUES
    return tmp_path


def every_kind(folder):
    mapped = np.load(folder / "values.npy", mmap_mode="r")
    return {
        "mapped": MappedRows(mapped),
        "hdf5": Hdf5Rows(folder / "values.h5", "a/values"),
        "drawn": DrawnRows(lambda rows: VALUES[rows].astype(float), VALUES.shape),
        "selected": SelectedRows(MappedRows(mapped), np.arange(30)),
        "joined": JoinedRows([VALUES[:11].astype(float), MappedRows(mapped[11:12]), MappedRows(mapped[12:])]),
    }


@pytest.mark.parametrize("kind", ["mapped", "hdf5", "drawn", "selected", "joined"])
def test_rows_are_those_of_the_array(folder, kind):
    rows = every_kind(folder)[kind]
    assert (rows.shape, len(rows)) == (VALUES.shape, 30)
    for index in INDICES:
        index = np.asarray(index, dtype=int) if isinstance(index, list) else index
        found = rows[index]
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, VALUES[index])
    np.testing.assert_array_equal(np.asarray(rows), VALUES)
    with pytest.raises(IndexError):
        rows[30]


def test_a_selection_is_in_its_own_order(folder):
    order = np.random.default_rng(1).permutation(30)[:12]
    for source in (VALUES.astype(float), every_kind(folder)["mapped"], every_kind(folder)["hdf5"]):
        np.testing.assert_array_equal(select(source, order)[:], VALUES[order])
        np.testing.assert_array_equal(SelectedRows(source, order)[[3, 1]], VALUES[order[[3, 1]]])


def test_blocks_cover_all_rows_once(folder):
    for size in (1, 35, 10_000):
        found = list(blocks(every_kind(folder)["hdf5"], size))
        np.testing.assert_array_equal(np.concatenate([values for _, values in found]), VALUES)
        assert [part.start for part, _ in found] == list(range(0, 30, max(1, size // 10)))


def test_what_is_on_disk_is_recognised_and_stays_there(folder):
    assert isinstance(as_rows(np.load(folder / "values.npy", mmap_mode="r")), MappedRows)
    with h5py.File(folder / "values.h5") as file:
        assert isinstance(as_rows(file["a/values"]), Hdf5Rows)
    assert as_rows(VALUES) is None
    assert as_rows(np.load(folder / "values.npy", mmap_mode="c")) is None  # somebody may have changed it in memory


@pytest.mark.parametrize("kind", ["mapped", "hdf5"])
def test_a_description_finds_the_same_rows_again(folder, kind):
    rows = every_kind(folder)[kind]
    described = rows.description()
    again = reopened(described, "mine")
    np.testing.assert_array_equal(again[:], VALUES)
    assert unchanged(again.description(), described)
    part = MappedRows(np.load(folder / "values.npy", mmap_mode="r")[5:9]).description()
    np.testing.assert_array_equal(reopened(part, "mine")[:], VALUES[5:9])
    assert MappedRows(np.load(folder / "values.npy", mmap_mode="r")[::2]).description() is None


def test_a_file_that_is_gone_or_shorter_is_named(folder):
    described = every_kind(folder)["mapped"].description()
    np.save(folder / "values.npy", VALUES[:3])
    with pytest.raises(TaskError, match=r"mine: its inputs are in .*values.npy, which has \d+ bytes now and had \d+"):
        reopened(described, "mine")
    (folder / "values.npy").unlink()
    with pytest.raises(TaskError, match=r"cannot be read .*open the run with the task"):
        reopened(described, "mine")


def test_hdf5_rows_can_be_pickled(folder):
    rows = Hdf5Rows(folder / "values.h5", "a/values").reshaped((30, 1, 2, 5))
    rows[0]
    np.testing.assert_array_equal(rows[4][0], VALUES[4])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[4][0], VALUES[4])


def test_a_hundred_thousand_rows_take_no_memory(tmp_path):
    """Sizes only: the file is sparse."""
    shape = (100_000, 1, 64, 64)
    np.lib.format.open_memmap(tmp_path / "large.npy", "w+", np.float32, shape).flush()
    rows = MappedRows(np.load(tmp_path / "large.npy", mmap_mode="r"))

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    for _, values in zip(range(20), blocks(rows), strict=False):
        assert values[1].shape[1:] == shape[1:]
    assert resident() - before < 200e6
