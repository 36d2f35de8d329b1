"""How long a fit will take: from the fits before it, by the points that each goes through."""

import numpy as np
import pytest

from mrafno.run import Run
from mrafno.run.fit_time import FitAhead, fit_points, fit_seconds, row
from mrafno.surrogate.training.batches import Batches, points_per_step
from mrafno.surrogate.training.settings import TrainingSettings
from tests.runs import create, ready, tiny


def test_points_of_a_step_are_those_that_are_drawn():
    """16 of every 20 examples are coarse; the fine grid is trained on in every second point of each axis."""
    settings = TrainingSettings(batch=10, points=16)
    assert points_per_step([(8, 8), (33, 33)], (16, 4), settings) == 8 * 64 + 2 * 17**2
    assert points_per_step([(8, 8), (33, 33)], (0, 4), settings) == 4 * 17**2
    assert points_per_step([(9,), (17,)], (16, 4), TrainingSettings(batch=10)) == 8 * 9 + 2 * 17
    early = settings.changed(early_points=4, early_share=0.25)
    assert points_per_step([(8, 8), (33, 33)], (16, 4), early) == pytest.approx(
        0.25 * (8 * 4**2 + 2 * 5**2) + 0.75 * (8 * 64 + 2 * 17**2)
    )


def test_points_of_a_step_of_a_run(tmp_path):
    with ready(tmp_path / "run") as run:
        run.advance(total_steps=2)
        surrogate, data = run.surrogate, run.trainer.examples()
        settings = surrogate.policy.settings("scratch", surrogate.training, data.sizes)
        batches = Batches(data, surrogate.normaliser, settings, [[0], [1]])
        drawn = sum(int(np.prod(f.shape[1:2] + f.shape[3:])) for _, _, f, _ in batches.draw())
    shapes = [grid.shape for grid in data.domain.grids]
    assert points_per_step(shapes, data.sizes, settings) == drawn


def test_expected_seconds_follow_from_the_fits_before(tmp_path, monkeypatch):
    """With a clock that counts points, every fit but the first is predicted exactly."""
    heard = []
    with create(tmp_path / "run", iterations=20, refit_growth=0.0, retrain="scratch") as run:

        def seconds_of(training):
            sizes = [0] * run.task.levels
            for id in run.state.trained_on:
                sizes[run.state.queries[id].level] += 1
            return 1e-3 * fit_points(run.surrogate, run.settings, training.kind, sizes)

        record = run.recorder.record

        def recorded(kind, /, **data):
            if kind == "trained":
                heard.append((ahead[-1], data["kind"]))
            record(kind, **data)
            if kind == "trained":
                object.__setattr__(run.state.trainings[-1], "seconds", seconds_of(run.state.trainings[-1]))

        ahead = []
        monkeypatch.setattr(run.recorder, "record", recorded)

        def watch(phase, done=None):
            if phase == "training" and done == 0.0:
                ahead.append(run.trainer.ahead)

        run.advance(total_steps=4, watch=watch)
        taken = [training.seconds for training in run.state.trainings]
        assert run.trainer.ahead is None
    assert len(heard) == len(taken) > 3
    assert heard[0][0].seconds is None
    assert [fit.number for fit, _ in heard] == list(range(1, len(taken) + 1))
    assert [fit.seconds for fit, _ in heard[1:]] == pytest.approx(taken[1:])
    assert len(set(taken)) > 1


def test_fits_of_the_same_kind_come_first(tmp_path):
    """An update of few iterations has an overhead of its own."""
    with ready(tmp_path / "run") as run:
        run.advance(total_steps=3)
        trainings, surrogate, state = run.state.trainings, run.surrogate, run.state
        sizes = run.trainer.examples().sizes
        points = {kind: fit_points(surrogate, state.settings, kind, sizes) for kind in ("scratch", "update")}
        assert points["update"] != points["scratch"]
        for training in trainings:
            object.__setattr__(training, "kind", "scratch")
        object.__setattr__(trainings[-1], "kind", "update")
        object.__setattr__(trainings[-1], "seconds", 7.0)
        assert fit_seconds(surrogate, state, "update", sizes) == pytest.approx(7.0)
        assert fit_seconds(surrogate, state, "scratch", sizes) < 7.0


def test_a_fit_in_words():
    assert row(None) == {}
    assert row(FitAhead(1, 1)) == {"fit": "fit 1 on 1 example"}
    assert row(FitAhead(5, 31, 15.2)) == {"fit": "fit 5 on 31 examples, about 15 s"}
    assert str(FitAhead(2, 8, again=True)) == "fit 2 again, as its checkpoint is missing, on 8 examples"


def test_a_fit_that_is_made_again_says_so(tmp_path):
    """A run that was killed had not saved its surrogate."""
    with create(tmp_path / "run", iterations=4) as run:
        run.advance(total_steps=1)
        fits = len(run.state.trainings)
        run.trainer._unsaved = 0.0
    for file in (tmp_path / "run" / "surrogate").glob("*"):
        file.unlink()
    said = []
    with Run.open(tmp_path / "run", tiny()) as run:
        run.advance(total_steps=2, watch=lambda phase, done=None: done == 0.0 and said.append(str(run.trainer.ahead)))
    assert [" again" in text for text in said[:fits]] == [True] * fits
    assert "again" not in said[-1]
