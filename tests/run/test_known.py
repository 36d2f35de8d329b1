"""What a run says of its error and of what more will bring: the same from the run, its reader, and after a restart."""

import numpy as np
import pytest

from mrafno.errors import RunError
from mrafno.grids import relative_l2
from mrafno.run import Run, RunReader
from tests import runs


def test_run_and_reader_know_the_same(tmp_path):
    with runs.ready(tmp_path / "run", "random-mix", initial=6, refit_growth=0) as run:
        run.advance(steps=6)
        now = run.estimate(), run.forecast(error=0.01, workers=2), run.forecast(cost=1000)
        assert None not in now
        assert now[0] == run.state.trainings[-1].estimate
        spent = run.spent
    reader = RunReader(tmp_path / "run")
    assert (reader.estimate(), reader.forecast(error=0.01, workers=2), reader.forecast(cost=1000)) == now
    assert reader.spent == spent
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        assert (run.estimate(), run.forecast(error=0.01, workers=2)) == now[:2]


def test_the_spread_is_that_of_candidates_that_were_not_used(tmp_path):
    with runs.ready(tmp_path / "run", "random-mix", initial=6) as run:
        found, left = run.estimate(), sorted(set(range(12)) - run.state.used_rows("pool"))
        assert found.candidates == len(left)
        f = run.task.restrict(run.inputs.pool[left], 0)
        prediction = run.surrogate.predict(f, 1, grid=run.task.grids[0])
        typical = run.surrogate.normaliser.typical_norm(prediction.mean.shape[2:])
        squares = [relative_l2(one, prediction.mean, typical) ** 2 for one in prediction.samples]
        assert found.spread == pytest.approx(np.sqrt(np.mean(squares, axis=0)).mean(), rel=1e-6)


def test_two_runs_whose_test_examples_differ_estimate_the_same(tmp_path):
    """No test example has a part in it."""
    found = []
    for number, test in enumerate((0, 4)):
        with runs.create(tmp_path / str(number), "random-mix", initial=6, test=test, task=runs.tiny_burgers()) as run:
            runs.set_up(run).train_and_evaluate_if_due()
            found.append(run.estimate())
    assert found[0] == found[1] is not None


@pytest.mark.parametrize("inference", ["point", "dropout"])
def test_a_single_network_has_no_estimate(tmp_path, inference):
    with runs.ready(tmp_path / "run", "random-mix", initial=6, inference=inference) as run:
        assert run.estimate() is None
        assert run.forecast(cost=1000) is None


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ({}, "give the error to reach"),
        ({"error": 0.1, "cost": 100}, "and not both"),
        ({"error": -1}, "error must be a positive number, got -1"),
        ({"error": 0.1, "workers": 0}, "workers must be a positive number"),
        ({"cost": 1}, "38 were spent already"),
    ],
)
def test_a_forecast_needs_one_question(tmp_path, ask, words):
    with runs.ready(tmp_path / "run") as run, pytest.raises(RunError, match=words):
        run.forecast(**ask)
