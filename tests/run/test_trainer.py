"""Training: fits follow from the ledger, checkpoints only save time, test examples are never trained on."""

import io
import json
import math
import shutil

import numpy as np
import pytest
from rich.console import Console

from mrafno.cli.display import Snapshot
from mrafno.cli.tables import comparison, run_table
from mrafno.errors import (
    AcquisitionError,
    CheckpointError,
)
from mrafno.grids import relative_l2
from mrafno.report import write_report
from mrafno.run import Run
from mrafno.run import trainer as learning
from mrafno.surrogate.out_of_fold import OutOfFoldPredictions
from tests import runs

pytestmark = pytest.mark.usefixtures("quick")


def test_surprises_are_errors_before_learning(run):
    queries = run.ask(3)
    expected = {}
    for query in queries:
        y = runs.smooth(query.f, query.level)
        expected[query.id] = float(relative_l2(run.surrogate.predict(query.f[None], query.level).mean, y[None])[0])
    runs.answer(run, queries)
    training = run.train()
    assert training.prequential_errors == pytest.approx(expected, rel=1e-6)
    assert training.added == tuple(q.id for q in queries)
    assert run.train() is None


def test_outputs_of_nothing_but_zeros_are_examples_too(tmp_path):
    """Their relative error is beyond all numbers."""
    with runs.ready(tmp_path / "run", "mra-auto") as run:
        for _ in range(3):
            for query in run.ask(2):
                run.tell(query.id, np.zeros_like(query.f))
            run.train()
        assert max(error for _, error in run.state.prequential_errors()) <= 10


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_metric_beyond_all_numbers_does_not_stop_a_run(tmp_path, monkeypatch):
    """Test outputs whose squares are beyond float64, as earlier versions took: everybody who reads the run copes."""
    monkeypatch.setattr("mrafno.tasks.base.LARGEST", math.inf)
    with runs.create(tmp_path / "run", test=2) as run, np.errstate(all="ignore"):
        for query in run.ask(1000):
            y = runs.smooth(query.f, query.level)
            run.tell(query.id, 0 * y + 1e200 if query.kind == "test" else y)
        run.advance(total_steps=2)
        assert [e.metrics["relative_l2"] for e in run.state.evaluations] == [None, None]
        assert all(0 <= share <= 1 for share in run.state.evaluations[0].metrics["coverage"].values())
        assert run.state.measurements == []
        assert Snapshot.of(run.state).error is None
        assert run.state.as_json()["steps"][1]["metrics"]["relative_l2"] is None
        Console(file=io.StringIO()).print(run_table(run.state, tmp_path / "run"))
        assert comparison([(tmp_path / "run", run.state)], [0.1])["runs"][0]["error"] is None
    with np.errstate(all="ignore"):
        write_report([tmp_path / "run"], tmp_path / "report.html")
    assert "No error has been measured." in (tmp_path / "report.html").read_text(encoding="utf-8")


class Interrupted(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("moment", ["early", "late", "recording"])
def test_training_that_is_interrupted_begins_again_with_what_the_ledger_knows(tmp_path, monkeypatch, moment):
    with runs.ready(tmp_path / "run") as run, runs.ready(tmp_path / "other") as other:
        for one in (run, other):
            runs.answer(one, one.ask(2))
        other.train()

        def interrupt(*_, **__):
            raise Interrupted

        with monkeypatch.context() as patched:
            if moment == "late":
                patched.setattr(OutOfFoldPredictions, "shift", interrupt)
            if moment == "recording":
                patched.setattr(run.ledger, "append", interrupt)
            with pytest.raises(Interrupted):
                run.train(watch=interrupt if moment == "early" else None)
        assert len(run.state.trainings) == 1
        run.train()
        assert runs.weights(run) == runs.weights(other)
        assert runs.decisions(run.state) == runs.decisions(other.state)
        run.save()
        run.trainer._surrogate = None
        assert runs.weights(run) == runs.weights(other)


def test_updates_between_fits_on_all_examples_follow_from_the_ledger_too(tmp_path):
    quick = {"update_iterations": 2, "iterations": 2}
    with runs.create(tmp_path / "run", refit_growth=1.0, update_every=2, training=quick) as run:
        runs.set_up(run)
        for _ in range(7):
            runs.answer(run, run.ask(1))
        run.train_and_evaluate_if_due()
        # Six to begin with, so the seventh is more than as many again; thirteen are few enough to start from scratch.
        assert [(len(t.added), t.kind) for t in run.state.trainings] == [
            (6, "scratch"), (2, "update"), (2, "update"), (2, "update"), (1, "scratch"),
        ]  # fmt: skip
        runs.answer(run, run.ask(2))
        run.train_and_evaluate_if_due()
        assert run.state.trainings[-1].kind == "update"
        expected = runs.weights(run)
    shutil.rmtree(tmp_path / "run" / "surrogate")
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert runs.weights(run) == expected


@pytest.mark.parametrize(
    ("settings", "last", "kind"),
    [
        ({"refit_growth": 0.0, "training": {"iterations": 2}}, False, "scratch"),
        ({"refit_growth": 0.0, "training": {"iterations": 2}}, True, "scratch"),
        ({"refit_growth": 0.0, "training": {"iterations": 3}}, False, "refit"),
        ({"refit_growth": 1.0}, True, "refit"),
        ({"refit_growth": 0.0, "training": {"scratch_below": 8, "iterations": 2}}, False, "refit"),
        ({"refit_growth": 1.0, "retrain": "scratch"}, True, "scratch"),
        ({"refit_growth": 1.0, "update_every": 1}, False, "update"),
        ({"refit_growth": 1.0, "update_every": 3}, False, None),
    ],
)
def test_the_kind_of_a_fit_follows_from_the_policy_and_the_settings(tmp_path, settings, last, kind):
    """The last fit of a run starts from the last weights, unless one from scratch is due.

    One iteration is set for all fits: less than half of three, which a start from scratch would need.
    """
    with runs.ready(tmp_path / "run", **settings) as run:
        runs.answer(run, run.ask(2))
        run.train_and_evaluate_if_due(last=last)
        assert [t.kind for t in run.state.trainings] == ["scratch", *([kind] if kind else [])]
        expected = runs.weights(run)
    shutil.rmtree(tmp_path / "run" / "surrogate")
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert runs.weights(run) == expected


@pytest.mark.parametrize(
    ("method", "inference"), [("mra-uhat", "sgld"), ("mra-auto", "svi"), ("mra-u", "dropout"), ("coreset-mix", "point")]
)
def test_every_way_of_inference_chooses_and_is_resumed(tmp_path, method, inference):
    with runs.ready(tmp_path / "run", method, inference=inference) as run:
        assert run.surrogate.name == inference
        for _ in range(2):
            [query] = run.ask(1)
            runs.answer(run, [query])
            run.train()
        expected = runs.weights(run), runs.choices(run.state)
    shutil.rmtree(tmp_path / "run" / "surrogate", ignore_errors=True)
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert (runs.weights(run), runs.choices(run.state)) == expected
        assert run.surrogate.name == inference


def test_a_run_whose_inference_cannot_choose_is_not_begun(tmp_path):
    with pytest.raises(AcquisitionError, match="mra-u: its acquisition compares the samples"):
        runs.create(tmp_path / "run", "mra-u", inference="point")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "retrain", "fate"),
    [
        *[("mra-uhat", "warm", fate) for fate in ("missing", "old", "damaged", "description", "empty", "foreign")],
        ("mra-uhat", "warm", "ahead"),
        ("mra-uhat", "scratch", "old"),
        ("mr-dropout", "warm", "old"),
        ("mr-dropout", "scratch", "missing"),
    ],
)
def test_whatever_becomes_of_the_checkpoint_the_bits_are_the_same(tmp_path, method, retrain, fate):
    folder = tmp_path / "run"
    checkpoint = folder / "surrogate"
    with runs.ready(folder, method, retrain=retrain) as run:
        runs.answer(run, run.ask(2))
        run.train()
        run.save()
        shutil.copytree(checkpoint, tmp_path / "old")
        runs.answer(run, run.ask(2))
        run.train()
        expected = runs.weights(run), [(q.candidate, q.level) for q in run.ask(2)]
    [tensors] = checkpoint.glob("*.safetensors")
    shutil.copytree(folder, tmp_path / "copy")
    if fate in ("missing", "old"):
        shutil.rmtree(checkpoint)
    if fate == "old":
        shutil.copytree(tmp_path / "old", checkpoint)
    if fate == "damaged":
        content = bytearray(tensors.read_bytes())
        content[len(content) // 2] ^= 1
        tensors.write_bytes(content)
    if fate == "description":
        (checkpoint / "surrogate.json").write_text("{}")
    if fate == "empty":
        shutil.rmtree(checkpoint)
        checkpoint.mkdir()
    if fate == "ahead":
        with Run.open(tmp_path / "copy", runs.tiny()) as run:
            runs.answer(run, run.ask(2))
            run.train()
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / "copy" / "surrogate", checkpoint)
    if fate == "foreign":
        with runs.create(tmp_path / "foreign", method, seed=1) as run:
            runs.set_up(run).train()
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / "foreign" / "surrogate", checkpoint)
    with Run.open(folder, runs.tiny()) as run:
        found = runs.weights(run), [(q.row, q.level) for q in run.state.of_kind("pool")[-2:]]
        assert found == expected
        complaints = [note for note in run.ledger.damage if note.endswith("Trained again from the ledger.")]
        assert len(complaints) == (fate in ("damaged", "description", "empty"))
    # And the choice after it rests on the same predictions.
    with Run.open(folder, runs.tiny()) as run, Run.open(tmp_path / "copy", runs.tiny()) as copy:
        if fate != "ahead":
            assert run.ask(3)[0].candidate == copy.ask(3)[0].candidate
            assert runs.decisions(run.state) == runs.decisions(copy.state)


def test_a_checkpoint_of_another_past_is_not_taken(tmp_path):
    """As when the ledger is restored from an older copy, and the run goes another way from there."""
    folder = tmp_path / "run"
    with runs.ready(folder, initial=14) as run:
        shutil.copytree(folder, tmp_path / "older")
        for query in run.ask(2):
            run.tell(query.id, 3 * query.f)
        run.train()
    with Run.open(tmp_path / "older", runs.tiny()) as run:
        runs.answer(run, run.ask(2))
        run.train()
        expected = runs.weights(run)
    shutil.rmtree(tmp_path / "older" / "surrogate")
    shutil.copytree(folder / "surrogate", tmp_path / "older" / "surrogate")
    with Run.open(tmp_path / "older", runs.tiny()) as run:
        assert run.state.trainings[-1].shift != 0
        assert runs.weights(run) == expected


@pytest.mark.parametrize("what", ["folder", "surrogate.json", "weights"])
def test_a_link_in_place_of_a_checkpoint_is_not_followed(tmp_path, what):
    folder = tmp_path / "run"
    with runs.ready(folder) as run:
        expected = runs.weights(run)
        runs.answer(run, run.ask(1))
    path = folder / "surrogate"
    if what != "folder":
        [path] = path.glob("*.safetensors") if what == "weights" else [path / what]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = runs.files(tmp_path / "elsewhere") if what == "folder" else (tmp_path / "elsewhere").read_bytes()
    run = Run.open(folder, runs.tiny())
    assert runs.weights(run) == expected
    assert any("is a symbolic link, which is not followed" in note for note in run.ledger.damage)
    if what == "folder":
        with pytest.raises(CheckpointError, match="symbolic link"):
            run.close()
        assert runs.files(tmp_path / "elsewhere") == before
    else:
        run.close()
        assert not path.is_symlink()
        assert (tmp_path / "elsewhere").read_bytes() == before
    with Run.open(folder, runs.tiny(), write=False) as run:  # the first one has let go of its lock
        assert runs.weights(run) == expected


def test_a_reader_saves_nothing(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        expected = runs.weights(run)
    shutil.rmtree(tmp_path / "run" / "surrogate")
    before = runs.files(tmp_path / "run")
    with Run.open(tmp_path / "run", write=False) as reader:
        assert runs.weights(reader) == expected
        reader.save()
    assert runs.files(tmp_path / "run") == before


def test_checkpoints_are_written_now_and_then(run, monkeypatch):
    """After so many seconds of training, not after every step."""
    path = run.ledger.folder / "surrogate" / "surrogate.json"
    before = path.read_bytes()
    runs.answer(run, run.ask(1))
    run.train()
    assert path.read_bytes() == before
    monkeypatch.setattr(learning, "_CHECKPOINT_SECONDS", 0.0)
    runs.answer(run, run.ask(1))
    run.train()
    assert json.loads(path.read_bytes())["fits"] == 3
