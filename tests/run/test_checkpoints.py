"""What predicts is the best surrogate by the run's own estimate; what is trained further is the last one."""

import os
import shutil

import numpy as np
import pytest

from mrafno.run import Run, RunReader
from mrafno.run.trainer import Trainer
from mrafno.surrogate import Surrogate
from tests import runs
from tests.cli.conftest import mrafno

SETTINGS = {"initial": 20, "test": 10, "members": 5, "iterations": 60, "pool": 30, "batch": 10, "refit_growth": 0.0}


fit = Trainer._fit


def failing_fit(trainer, surrogate, ids, kind, watch):
    """A fit that goes wrong the second time, as one with too large a step would: always in the same way."""
    found = fit(trainer, surrogate, ids, kind, watch)
    if surrogate.fits == 2:
        surrogate.weights = {name: 1.5 * value for name, value in surrogate.weights.items()}
    return found


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(Trainer, "_fit", failing_fit)


def task():
    return runs.tiny(n=100)


def bits(surrogate):
    return {name: value.numpy().tobytes() for name, value in surrogate.weights.items()}


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    """A run that was good after its first fit, and spoiled by its second; weights of both, and metrics of both."""
    folder = tmp_path_factory.mktemp("spoiled") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(Trainer, "_fit", failing_fit)
        with runs.create(folder, "random-low", task=task(), **SETTINGS) as run:
            runs.set_up(run).train()
            good, error = bits(run.surrogate), run.metrics(run.surrogate).relative_l2
            runs.answer(run, run.ask(10))
            run.train("refit")
            bad, now = bits(run.trainer.surrogate), run.metrics(run.trainer.surrogate).relative_l2
            run.evaluate()
    assert now > 2 * error
    return folder, good, bad, error


def test_a_fit_that_made_it_worse_does_not_predict(spoiled):
    folder, good, bad, error = spoiled
    assert good != bad
    with Run.open(folder, task()) as run:
        assert [training.best for training in run.state.trainings] == [None, 1]
        assert bits(run.surrogate) == good
        assert bits(run.trainer.surrogate) == bad
        assert run.state.evaluations[-1].metrics["relative_l2"] == error
    assert bits(Surrogate.load(folder)) == good
    assert bits(RunReader(folder).surrogate) == good
    assert bits(Surrogate.load(folder / "surrogate" / "last")) == bad
    f = task().sample(3)
    np.save(folder.parent / "f.npy", f)
    said = mrafno("predict", folder, folder.parent / "f.npy", "--out", folder.parent / "out.npz").stdout
    assert "fit 1 of 2: by the run's own estimate, the fits since are clearly worse" in said
    with np.load(folder.parent / "out.npz") as out:
        np.testing.assert_array_equal(out["mean"], Surrogate.load(folder).predict(f).mean)


@pytest.mark.parametrize("lost", ["last", "all"])
def test_without_checkpoints_the_same_ones_are_made_again(spoiled, tmp_path, lost):
    folder, good, bad, _ = spoiled
    copy = shutil.copytree(folder, tmp_path / "run")
    shutil.rmtree(copy / "surrogate" / "last" if lost == "last" else copy / "surrogate")
    with Run.open(copy, task()) as run:
        assert bits(run.trainer.surrogate) == bad
        assert bits(run.surrogate) == good
    assert bits(Surrogate.load(copy)) == good
    assert bits(Surrogate.load(copy / "surrogate" / "last")) == bad


def test_fits_go_on_from_the_last_and_a_good_one_predicts_again(spoiled, tmp_path):
    """With good outputs of other inputs, and whether or not the run was opened again."""
    ends = []
    for name in ("at once", "again"):
        copy = shutil.copytree(spoiled[0], tmp_path / name)
        run = Run.open(copy, task())
        runs.answer(run, run.ask(10))
        if name == "again":
            run.close()
            run = Run.open(copy, task())
        run.train("scratch")
        ends.append((bits(run.trainer.surrogate), bits(run.surrogate), run.state.trainings[-1].best))
        run.close()
    assert ends[0] == ends[1]


def test_a_run_that_only_improves_has_one_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "_fit", fit)
    with runs.create(tmp_path / "run", task=task(), **SETTINGS) as run:
        runs.set_up(run).train()
        runs.answer(run, run.ask(10))
        run.train("refit")
        assert run.surrogate is run.trainer.surrogate
    assert not (tmp_path / "run" / "surrogate" / "last").exists()
