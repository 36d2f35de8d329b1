"""Inputs on the scoring grid: resampled block by block into a file that is checked, and made again if need be."""

import numpy as np
import pytest

from mrafno.grids import resample
from mrafno.run import scoring
from mrafno.run.scoring import scored_inputs, scoring_grid
from mrafno.storage.large_arrays import map_scratch
from tests import runs


@pytest.fixture
def run(tmp_path):
    with runs.create(tmp_path / "run") as run:
        yield run


def expected(run):
    fine, coarse = run.task.grids[-1], scoring_grid(run.task, 256)
    return np.concatenate([resample(np.asarray(f), fine, coarse) for f in (run.inputs.pool, run.inputs.initial)])


@pytest.mark.parametrize("kept", [True, False])
def test_a_large_pool_is_the_same_in_single_precision(run, kept, monkeypatch):
    folder, grid = run.path if kept else None, scoring_grid(run.task, 256)
    np.testing.assert_array_equal(scored_inputs(run.task, run.inputs, grid), expected(run))
    monkeypatch.setattr(scoring, "_MOST_NUMBERS", 10)
    found = scored_inputs(run.task, run.inputs, grid, folder)
    np.testing.assert_allclose(found[:], expected(run), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found[[3, 1]], found[:][[3, 1]])
    assert (run.path / "scoring").exists() == kept


def test_the_file_is_used_again_and_made_again_if_it_is_damaged(run, monkeypatch):
    monkeypatch.setattr(scoring, "_MOST_NUMBERS", 10)
    grid = scoring_grid(run.task, 256)
    scored_inputs(run.task, run.inputs, grid, run.path)
    [path] = (run.path / "scoring").iterdir()
    made = path.stat().st_mtime_ns
    scored_inputs(run.task, run.inputs, grid, run.path)
    assert path.stat().st_mtime_ns == made
    content = path.read_bytes()
    path.write_bytes(content[:8] + b"\0\0\0\1" + content[12:])
    assert map_scratch(path.parent, "pool-12x1x9", (12, 1, 9)) is None
    found = scored_inputs(run.task, run.inputs, grid, run.path)
    np.testing.assert_allclose(found[:], expected(run), rtol=1e-6, atol=1e-6)
    assert path.read_bytes() == content
