"""Arrays of a run: bit for bit, checked, and only inside the run's folder."""

import hashlib
import json
import pickle

import numpy as np
import pytest

from mrafno.errors import LedgerError
from mrafno.storage.arrays import ArrayFile
from mrafno.storage.ledger import Ledger


def changed(content, position, how):
    new = bytearray(content)
    new[position] = how(new[position])
    return bytes(new)


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
def test_arrays_come_back_bit_for_bit(tmp_path, shape):
    values = np.random.default_rng(0).standard_normal(shape)
    with Ledger.create(tmp_path) as ledger:
        for given in (values, np.asarray(values, order="F"), np.asarray(values, dtype=">f8")):
            array = ledger.write_array("q000012-output", given)
            ledger.append("told", output=array.as_json())
    assert array.file == "arrays/q000012-output.npy"
    assert (array.shape, array.dtype) == (shape, "float64")
    reader = Ledger.open(tmp_path)
    for event in reader.events[1:]:
        found = reader.read_array(ArrayFile.from_json(event.data["output"]))
        assert found.tobytes() == values.tobytes()
        assert (found.shape, found.dtype) == (shape, np.float64)
        found[...] = 0  # it is the caller's own
    np.testing.assert_array_equal(np.load(tmp_path / array.file, allow_pickle=False), values)
    assert [path.name for path in (tmp_path / "arrays").iterdir()] == ["q000012-output.npy"]


def test_integers_become_floats_and_other_things_are_refused(tmp_path):
    with Ledger.create(tmp_path) as ledger:
        assert ledger.read_array(ledger.write_array("a", np.arange(3))).tolist() == [0.0, 1.0, 2.0]
        for values in (np.array([1j]), np.array([None]), np.array(["a"])):
            with pytest.raises(LedgerError, match=r"arrays/b\.npy would hold .*real numbers"):
                ledger.write_array("b", values)


def test_a_changed_byte_in_an_array_is_found_and_other_arrays_stay_readable(tmp_path, record_property):
    with Ledger.create(tmp_path) as ledger:
        first, second = ledger.write_array("first", np.arange(3.0)), ledger.write_array("second", np.arange(4.0))
        content = (tmp_path / first.file).read_bytes()
        record_property("changed bytes", len(content))
        for position in range(len(content)):
            (tmp_path / first.file).unlink()
            (tmp_path / first.file).write_bytes(changed(content, position, lambda byte: byte ^ 4))
            with pytest.raises(LedgerError, match=r"arrays/first\.npy is damaged.*Restore it"):
                ledger.read_array(first)
            assert ledger.read_array(second).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_an_array_is_what_its_event_says(tmp_path):
    with Ledger.create(tmp_path) as ledger:
        old = ledger.write_array("a", np.zeros(3))
        assert ledger.write_array("a", np.zeros(3)) == old
        new = ledger.write_array("a", np.ones(3))
        assert ledger.read_array(new).tolist() == [1.0, 1.0, 1.0]
        with pytest.raises(LedgerError, match="checksum does not fit"):
            ledger.read_array(old)
        with pytest.raises(LedgerError, match=r"holds float64 \(3,\), not float64 \(3, 1\)"):
            ledger.read_array(ArrayFile(new.file, new.sha256, (3, 1), "float64"))
        with pytest.raises(LedgerError, match=r"holds float64 \(3,\), not float32 \(3,\)"):
            ledger.read_array(ArrayFile(new.file, new.sha256, (3,), "float32"))
        (tmp_path / new.file).unlink()
        with pytest.raises(LedgerError, match=r"arrays/a\.npy is missing. Restore it"):
            ledger.read_array(new)


def test_a_pickle_with_the_right_checksum_is_not_read(tmp_path):
    with Ledger.create(tmp_path) as ledger:
        good = ledger.write_array("a", np.zeros(3))
        content = pickle.dumps(np.zeros(3))
        (tmp_path / good.file).write_bytes(content)
        with pytest.raises(LedgerError, match=r"is no \.npy file"):
            ledger.read_array(ArrayFile(good.file, hashlib.sha256(content).hexdigest(), (3,), "float64"))


NAMES = ["", ".", "..", ".hidden", "a..b", "../a", "a/b", "/etc/passwd", "a\0", "a\n", "a b", "-a", "é", "a\\b"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with Ledger.create(tmp_path / "run") as ledger:
        good = ledger.write_array("A-1.b_c", np.zeros(3))
        with pytest.raises(LedgerError, match="is no name of an array"):
            ledger.write_array(name, np.zeros(3))
        for file in (f"arrays/{name}.npy", f"{name}.npy", name, f"arrays/{name}", f"arrays/a/../{name}.npy"):
            with pytest.raises(LedgerError, match="is no name of an array"):
                ledger.read_array(ArrayFile(file, good.sha256, good.shape, good.dtype))
            with pytest.raises(LedgerError, match="is no name of an array"):
                ArrayFile.from_json({**good.as_json(), "file": file})
    assert sorted(path.name for path in tmp_path.rglob("*.npy")) == ["A-1.b_c.npy"]


def test_links_are_not_followed(tmp_path):
    with Ledger.create(tmp_path / "run") as ledger:
        array = ledger.write_array("a", np.zeros(3))
        secret = tmp_path / "secret.npy"
        (tmp_path / "run" / array.file).rename(secret)
        (tmp_path / "run" / array.file).symlink_to(secret)
        with pytest.raises(LedgerError, match="symbolic link"):
            ledger.read_array(array)
        content = secret.read_bytes()
        ledger.write_array("a", np.ones(3))  # takes the link's place and does not write through it
        assert secret.read_bytes() == content
        (tmp_path / "run" / "arrays").rename(tmp_path / "elsewhere")
        (tmp_path / "run" / "arrays").symlink_to(tmp_path / "elsewhere")
        for work in (lambda: ledger.read_array(array), lambda: ledger.write_array("b", np.zeros(1))):
            with pytest.raises(LedgerError, match="arrays is a symbolic link"):
                work()
    Ledger.open(tmp_path / "run", write=True).close()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["a.npy"]


GOOD = {"file": "arrays/a.npy", "sha256": "0" * 64, "shape": [3, 0], "dtype": "float64"}


def test_an_array_in_json():
    assert ArrayFile.from_json(GOOD) == ArrayFile("arrays/a.npy", "0" * 64, (3, 0), "float64")
    assert ArrayFile.from_json(json.loads(json.dumps(GOOD))).as_json() == GOOD


@pytest.mark.parametrize(
    "values",
    [
        None, [], "arrays/a.npy", {}, {**GOOD, "more": 1}, {**GOOD, "file": 3}, {**GOOD, "sha256": None},
        {**GOOD, "shape": 3}, {**GOOD, "shape": [-1]}, {**GOOD, "shape": [1.5]}, {**GOOD, "shape": [True]},
        {**GOOD, "shape": "3"}, {**GOOD, "dtype": 8},
    ],
)  # fmt: skip
def test_what_does_not_name_an_array_is_refused(values):
    with pytest.raises(LedgerError, match="does not name an array"):
        ArrayFile.from_json(values)
