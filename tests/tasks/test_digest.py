"""Digests of inputs, and what a change of them is called."""

import hashlib

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.tasks.digest import describe_change, digest_inputs
from mrafno.tasks.rows import MappedRows

INPUTS = np.random.default_rng(0).standard_normal((20, 1, 9))


def test_the_digest_is_that_of_all_bytes_wherever_the_inputs_are(tmp_path):
    np.save(tmp_path / "f.npy", INPUTS)
    found = digest_inputs(INPUTS, "mine")
    assert found.sha256 == hashlib.sha256(INPUTS.tobytes()).hexdigest()
    on_disk = digest_inputs(MappedRows(np.load(tmp_path / "f.npy", mmap_mode="r")), "mine")
    assert on_disk.sha256 == found.sha256
    np.testing.assert_array_equal(on_disk.checksums, found.checksums)
    assert len(set(found.checksums)) == 20


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f: f[:15], "15 inputs instead of 20: the first 15 are the same, the last ones are missing"),
        (lambda f: np.concatenate([f, f[:2] + 1]), "22 inputs instead of 20: the first 20 .* new. run.add_candidates"),
        (lambda f: f[5:], "15 inputs instead of 20, of which 15 are the same"),
        (lambda f: np.concatenate([f[:3], f[:2:-1]]), "the same 20 inputs in another order, from input 3 on"),
        (lambda f: np.where(np.arange(20)[:, None, None] >= 18, f + 1, f), "2 of 20 inputs have .* is input 18"),
    ],
)
def test_a_change_is_described(change, told):
    before, now = (digest_inputs(f, "mine") for f in (INPUTS, change(INPUTS)))
    assert before.sha256 != now.sha256
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(describe_change(before.checksums, now.checksums))


def test_nan_on_disk_is_found_with_its_input():
    bad = INPUTS.copy()
    bad[7, 0, 3] = np.nan
    with pytest.raises(TaskError, match=r"mine: 1 of the inputs 0 to 19 have values .* the first is input 7"):
        digest_inputs(bad, "mine")
