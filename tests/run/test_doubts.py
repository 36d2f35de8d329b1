"""What is said of a result that is not worth having: when it holds, once, and taken back when it does not."""

import warnings

import numpy as np
import pytest

from mrafno.data.dataset import Dataset
from mrafno.errors import MrafnoWarning
from mrafno.grids import relative_l2
from mrafno.report import write_report
from mrafno.run import Run
from mrafno.run.doubts import doubts, error_of_mean
from mrafno.run.records import Evaluation
from tests import runs
from tests.cli.conftest import mrafno

pytestmark = pytest.mark.usefixtures("quick")


def unrelated(f, level):
    """An output that follows from the input, in a way that nothing can learn."""
    return np.random.default_rng(int(1e9 * abs(f[0, 0]))).normal() * np.ones_like(f)


def deaf(f, level):
    return np.sin(np.arange(f.shape[-1]))[None]


def test_the_error_of_a_constant_is_that_of_leaving_each_out():
    y = np.random.default_rng(0).normal(size=(4, 1, 9)) + 2
    each = [relative_l2(y[np.arange(4) != i].mean(axis=0)[None], y[i : i + 1])[0] for i in range(4)]
    assert error_of_mean(y) == pytest.approx(np.mean(each))


def test_a_surrogate_that_has_learnt_nothing_says_so_everywhere(tmp_path):
    folder = tmp_path / "run"
    with runs.create(folder, task=runs.tiny(unrelated), test=10, iterations=3) as run:
        with pytest.warns(MrafnoWarning, match="the surrogate has learnt next to nothing"):
            outcome = run.advance(steps=1)
        assert "predicting zero has 1" in run.state.warnings["error"] or "the mean of" in run.state.warnings["error"]
        assert run.state.warnings["error"] in outcome.warnings
        with warnings.catch_warnings():
            warnings.simplefilter("error", MrafnoWarning)
            run.advance(steps=1)
        assert sum(e.kind == "warned" and e.data["about"] == "error" for e in run.ledger.events) == 1
    assert "learnt next to nothing" in " ".join(mrafno("show", folder).stdout.split())
    assert "learnt next to nothing" in mrafno("show", folder, "--json").stdout
    write_report([folder], tmp_path / "page.html")
    assert "learnt next to nothing" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_good_surrogate_says_nothing_and_takes_back_what_was_said(tmp_path):
    with runs.create(tmp_path / "run", initial=10, test=10, iterations=200) as run:
        run.recorder.warn("error", "it was bad once")
        with warnings.catch_warnings():
            warnings.simplefilter("error", MrafnoWarning)
            run.advance(steps=1)
        assert run.state.evaluations[-1].metrics["relative_l2"] < 0.3
        assert "error" not in run.state.warnings
    with Run.open(tmp_path / "run", write=False) as again:
        assert again.state.warnings == run.state.warnings


def test_outputs_that_do_not_depend_on_inputs_are_noticed(tmp_path):
    with runs.create(tmp_path / "run", "random-low", task=runs.tiny(deaf)) as run:
        with pytest.warns(MrafnoWarning, match="are the same, though their inputs differ"):
            run.advance(steps=1)
        found = sorted(run.state.counts(2, "told"))
        assert found == [3, 4]
        assert all(f"all {n} outputs of" in run.state.warnings["outputs"] for n in found)
        assert "error" not in run.state.warnings


def measured(run, coverage, error=0.1):
    """The doubts of a run with these measurements."""
    metrics = {"relative_l2": error, "coverage": coverage}
    run.state.evaluations.append(Evaluation(1, 1.0, metrics, 0.0))
    return doubts(run.state, run.examples())


@pytest.mark.parametrize(
    ("coverage", "said"),
    [
        ({"0.5": 0.5, "0.9": 0.9}, None),
        ({"0.5": 0.3, "0.9": 0.65}, None),
        ({"0.5": 0.2, "0.9": 0.4}, "90 % intervals contain 40 % of the test values: std is too small"),
        ({"0.5": 0.95, "0.9": 1.0}, "50 % intervals contain 95 % of the test values: std is far too large"),
        ({"0.5": None, "0.9": None}, None),
        ({}, None),
    ],
)
def test_intervals_that_promise_what_they_do_not_keep(tmp_path, coverage, said):
    with runs.ready(tmp_path / "run", test=10) as run:
        found = measured(run, coverage)["std"]
        assert found is None if said is None else found.startswith(said)


@pytest.mark.parametrize(("error", "bad"), [(0.5, False), (0.95, True), (3.0, True), (None, False)])
def test_an_error_near_that_of_a_constant(tmp_path, error, bad):
    with runs.ready(tmp_path / "run") as run:
        run.state.evaluations.clear()
        run.state.trainings.clear()
        constant = error_of_mean(run.examples().outputs[-1])
        found = measured(run, {}, None if error is None else error * min(constant, 1.0))["error"]
        assert (found is not None) == bad


def test_nothing_is_said_of_nothing(tmp_path):
    with runs.create(tmp_path / "run") as run:
        assert set(doubts(run.state, Dataset.of(run.task.domain, [None, None])).values()) == {None}
