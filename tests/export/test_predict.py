"""Predictions from files to files."""

import copy

import numpy as np
import pytest

from mrafno.data.dataset import Normaliser
from mrafno.errors import CheckpointError, ExportError, SurrogateError
from mrafno.export.predict import _input_range, open_surrogate, predict_file, reliability
from mrafno.grids import Grid, resample
from mrafno.run import Run
from mrafno.run.reader import RunReader
from mrafno.surrogate import Surrogate
from tests import made_runs, runs, small_surrogates


@pytest.fixture
def inputs(tmp_path):
    np.save(tmp_path / "in.npy", np.random.default_rng(0).normal(100, 3, (4, 1, 9)))
    return tmp_path / "in.npy"


def test_a_file_has_what_the_surrogate_predicts(tmp_path, inputs):
    small_surrogates.surrogate().save(tmp_path / "checkpoint")
    found = predict_file(tmp_path / "checkpoint", inputs, tmp_path / "out.npz")
    expected = small_surrogates.surrogate().predict(np.load(inputs))
    with np.load(tmp_path / "out.npz", allow_pickle=False) as out:
        assert set(out) == {"mean", "std"}
        np.testing.assert_array_equal(out["mean"], expected.mean)
        np.testing.assert_array_equal(out["std"], expected.std)
    assert (found["shape"], found["level"], found["measured"]) == ([4, 1, 9], 1, None)
    assert found["out_of_fold"] == {
        "examples": small_surrogates.surrogate().out_of_fold_count,
        "coverage": small_surrogates.surrogate().coverage,
    }


def test_another_grid_and_level(tmp_path, inputs):
    small_surrogates.surrogate().save(tmp_path / "checkpoint")
    predict_file(tmp_path / "checkpoint", inputs, tmp_path / "out.npz", level=0, grid=(21,))
    f = resample(np.load(inputs), Grid((9,), ("nodes",)), Grid((21,), ("nodes",)))
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["mean"], small_surrogates.surrogate().predict(f, 0).mean)


def test_inputs_are_interpolated_as_the_task_does(tmp_path, tmp_path_factory):
    """Darcy's coefficient has two values, on every grid."""
    folder = made_runs.real_run(tmp_path_factory)
    f = np.random.default_rng(0).choice([4.0, 12.0], (6, 6))
    np.save(tmp_path / "in.npy", f)
    found = predict_file(folder, tmp_path / "in.npy", tmp_path / "out.npz", grid=(12, 12))
    with np.load(tmp_path / "out.npz") as out:
        fine = np.repeat(np.repeat(f, 2, 0), 2, 1)[None, None]
        np.testing.assert_array_equal(out["std"], Surrogate.load(folder).predict(fine).std)
    last = Run.open(folder, write=False).state.evaluations[-1]
    assert found["measured"] == {"step": 4, "cost": last.cost, "examples": 4, "metrics": last.metrics}
    assert (found["fits"], found["of_fits"]) == (len(Run.open(folder, write=False).state.trainings),) * 2


def test_predictions_that_raise(tmp_path, inputs):
    folder = tmp_path / "checkpoint"
    small_surrogates.surrogate().save(folder)
    with pytest.raises(ExportError, match="a grid of 5x5 points does not fit functions of 1 axis"):
        predict_file(folder, inputs, tmp_path / "out.npz", grid=(5, 5))
    with pytest.raises(ExportError, match="at least 2 points"):
        predict_file(folder, inputs, tmp_path / "out.npz", grid=(1,))
    with pytest.raises(SurrogateError, match="unknown level 7"):
        predict_file(folder, inputs, tmp_path / "out.npz", level=7)
    with pytest.raises(ExportError, match="is inside the run's own folder"):
        predict_file(folder, inputs, folder / "surrogate.json")
    with pytest.raises(ExportError, match="in one that does not exist"):
        predict_file(folder, inputs, tmp_path / "none" / "out.npz")
    assert not (tmp_path / "out.npz").exists()


def test_a_missing_or_foreign_checkpoint(tmp_path):
    with runs.create(tmp_path / "run"):
        pass
    with pytest.raises(CheckpointError, match="it has no checkpoint of its surrogate yet"):
        open_surrogate(tmp_path / "run")
    small_surrogates.surrogate().save(tmp_path / "run" / "surrogate")
    with pytest.raises(CheckpointError, match="it is of another run"):
        open_surrogate(tmp_path / "run")


def test_inputs_far_from_the_training_inputs_have_warnings(tmp_path, inputs):
    surrogate = copy.copy(small_surrogates.surrogate())
    surrogate.out_of_fold_count, surrogate.coverage = 3, {"0.5": 1.0, "0.9": 1.0}
    surrogate.save(tmp_path / "checkpoint")

    def warnings(factor=1.0, **how):
        np.save(tmp_path / "other.npy", factor * np.load(inputs))
        return predict_file(tmp_path / "checkpoint", tmp_path / "other.npy", tmp_path / "out.npz", **how)["warnings"]

    assert warnings() == []
    far = surrogate.normaliser.inputs(1000 * np.load(inputs)).max()
    assert (
        f"inputs are unlike those that the surrogate was trained on: the maximum of channel 0 is {far:.3g}"
        in (warnings(1000.0)[0])
    )
    assert warnings(grid=(2,))[0] == "a grid of 2 points is coarser than the coarsest training grid (6)."
    surrogate.out_of_fold_count = 1
    surrogate.save(tmp_path / "checkpoint")
    assert warnings() == ["std is calibrated on 1 example, which is too few to rely on it."]


def test_inputs_of_the_run_have_no_warnings(tmp_path):
    """Inputs that are nothing but a few spikes lie far from their mean by nature."""
    folder = made_runs.made_run(tmp_path / "run", task=made_runs.made_task("spiky"))
    normaliser = Normaliser((0.0,), (1e-3,), (0.0,), (1.0,))
    reader = RunReader(folder)
    largest = max(np.abs(reader.input(q)).max() for q in reader.state.queries.values() if q.kind != "test")
    assert _input_range(normaliser, reader) == pytest.approx(1e3 * largest)
    assert _input_range(normaliser, None) == 5.0


def test_reliability():
    out_of_fold = {"examples": 12, "coverage": {"0.5": 0.4, "0.9": 0.876}}
    metrics = {"relative_l2": 0.01234, "coverage": {"0.9": 0.931}}
    measured = {"step": 40, "cost": 3.0, "examples": 200, "metrics": metrics}
    assert reliability({"out_of_fold": out_of_fold, "measured": measured}) == [
        "std is calibrated on 12 out-of-fold examples: 90 % intervals contain 88 % of the values.",
        "Last measured on 200 test examples, after step 40: relative error 0.01234; 90 % intervals contained 93 % of "
        "the values.",
    ]
    one = reliability(
        {"out_of_fold": {"examples": 1, "coverage": {"0.9": 1.0}}, "measured": {**measured, "examples": 1}}
    )
    assert one[0].startswith("std is calibrated on 1 out-of-fold example:")
    assert one[1].startswith("Last measured on 1 test example, after step 40:")
    assert reliability({"out_of_fold": {"examples": 0, "coverage": {}}, "measured": None}) == [
        "std is not calibrated: there were too few examples for out-of-fold predictions.",
        "The error has not been measured on test examples.",
    ]
