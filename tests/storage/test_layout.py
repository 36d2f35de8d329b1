"""File names of a run directory, compared with run directories of an earlier version."""

import json
from pathlib import Path

import pytest

from mrafno.storage import layout

EARLIER = Path(__file__).parents[1] / "data" / "v0.1"


@pytest.mark.parametrize("run", ["burgers", "own"])
def test_every_file_of_an_earlier_run_has_its_name_here(run):
    folder = EARLIER / run
    assert layout.is_run(folder)
    assert not layout.is_run(EARLIER)
    assert {path.name for path in folder.iterdir()} <= {
        layout.LEDGER, layout.LOCK, layout.ARRAYS, layout.SPOOL, layout.CHECKPOINT, layout.TASK_SOURCE, layout.ASKED,
    }  # fmt: skip
    arrays = {path.stem for path in (folder / layout.ARRAYS).iterdir()}
    queries = {name.partition("-")[0] for name in arrays if "-" in name}
    known = {name for query in queries for name in (layout.input_array(query), layout.output_array(query))}
    assert (layout.INPUTS in arrays) == (run == "own")
    assert arrays <= known | {layout.INPUTS}


@pytest.mark.parametrize("run", ["burgers", "own"])
def test_an_earlier_checkpoint_is_found(run):
    folder = EARLIER / run / layout.CHECKPOINT
    [weights] = folder.glob(layout.WEIGHTS)
    described = json.loads((folder / layout.DESCRIPTION).read_bytes())
    assert weights.name == layout.weights_file(described["tensors"])
