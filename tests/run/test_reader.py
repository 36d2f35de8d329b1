"""A run is seen as its ledger tells, while it advances, and without changing a byte of it."""

import numpy as np
import pytest

from mrafno.errors import LedgerError
from mrafno.grids import relative_l2
from mrafno.run.reader import RunReader
from mrafno.storage.layout import LEDGER, LEDGER_COPY
from mrafno.storage.ledger import Ledger
from tests import runs
from tests.made_runs import made_run, made_task, real_run


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return real_run(tmp_path_factory)


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_real_run(real):
    before = content(real)
    reader = RunReader(real)
    assert (reader.state.step, reader.state.seed, reader.task.name) == (4, 3, "darcy")
    assert reader.task.grids == reader.grids
    assert reader.task.costs == reader.costs
    f, y = reader.tests(3)
    assert f.shape == y.shape == (3, 1, 8, 8)
    np.testing.assert_array_equal(y, reader.task.solve(f, 1))
    query = reader.state.of_kind("pool", "told")[0]
    solved = reader.task.solve(reader.input(query)[None], query.level)
    np.testing.assert_array_equal(reader.output(query), solved[0])
    surrogate = reader.surrogate
    assert surrogate is not None
    assert reader.surrogate is surrogate  # loaded once
    prediction = reader.predict(f, 1)
    np.testing.assert_array_equal(prediction.samples, surrogate.predict(f, 1).samples)
    np.testing.assert_array_equal(reader.errors(prediction.mean, y), relative_l2(prediction.mean, y))
    assert reader.errors(prediction.mean, 0 * y).max() < 1000
    assert not reader.refresh()
    assert content(real) == before


def test_a_checkpoint_is_loaded_again_when_it_has_changed(real, tmp_path):
    folder = tmp_path / "run"
    made_run(folder)
    reader = RunReader(folder)
    assert (reader.surrogate, reader.trouble, reader.predict(np.zeros((1, 1, 9)), 1)) == (None, None, None)
    # One of another run does not fit; it is not used, and the reason is told.
    RunReader(real).surrogate.save(folder / "surrogate")
    assert reader.surrogate is None
    assert "another run" in reader.trouble
    (folder / "surrogate" / "surrogate.json").write_text("{}")
    assert reader.surrogate is None
    assert "surrogate" in reader.trouble


def test_what_a_person_simulates_is_known_without_the_simulator(tmp_path):
    task = made_task("mine")
    reader = RunReader(made_run(tmp_path / "run", task=task))
    assert reader.task.name == "mine"
    np.testing.assert_array_equal(reader.task.inputs, task.inputs)
    assert reader.meshes == ["5 points", "9 points"]


def test_how_many_candidates_there_are(real, tmp_path):
    """A task of 40 inputs cannot give 990; one of ours draws as many as are wanted."""
    with runs.create(tmp_path / "run", pool=990) as run:
        assert RunReader(tmp_path / "run").pool == len(run.inputs.pool) < 40
    with runs.create(tmp_path / "few", pool=5) as run:
        assert RunReader(tmp_path / "few").pool == len(run.inputs.pool) == 5
    assert RunReader(real).pool == RunReader(real).state.settings.pool


def test_a_run_is_followed(tmp_path):
    reader = RunReader(made_run(tmp_path / "run", levels=(0,), running=True))
    assert (reader.lock, reader.activity) == ("free", "waiting for answers")
    assert reader.output(reader.state.running[0]) is None
    with Ledger.open(tmp_path / "run", write=True) as ledger:
        assert (reader.lock, reader.activity) == ("held", "running")
        ledger.append("failed", id=reader.state.running[0].id, reason="it fell over")
        ledger.append("stopped", reason="enough")
    assert reader.refresh()
    assert (reader.activity, reader.state.running) == ("enough", [])
    assert not reader.refresh()


def test_an_event_that_was_taken_back_is_forgotten(tmp_path):
    folder = made_run(tmp_path / "run")
    whole = (folder / "ledger.jsonl").read_bytes()
    with Ledger.open(folder, write=True) as ledger:
        ledger.append("stopped", reason="a disk that failed")
    reader = RunReader(folder)
    for name in (LEDGER, LEDGER_COPY):  # a writer takes a line back before it adds it to the copy
        (folder / name).write_bytes(whole)
    with Ledger.open(folder, write=True) as ledger:
        ledger.append("stopped", reason="in its place")
        ledger.append("stopped", reason="and more")
    assert reader.refresh()
    assert reader.state.stopped == "and more"
    (folder / LEDGER).write_bytes(whole)
    assert reader.refresh()
    assert reader.state.stopped is None


def test_an_event_of_tomorrow_stays_an_error(tmp_path):
    reader = RunReader(made_run(tmp_path / "run"))
    with Ledger.open(tmp_path / "run", write=True) as ledger:
        ledger.append("danced")
    for _ in range(2):
        with pytest.raises(LedgerError, match="danced"):
            reader.refresh()


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(LedgerError, match="missing"):
        RunReader(tmp_path)
