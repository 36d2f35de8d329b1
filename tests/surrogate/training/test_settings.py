"""Settings of one fit."""

import numpy as np
import pytest

from mrafno.errors import SurrogateError
from mrafno.surrogate.training.settings import TrainingSettings


@pytest.mark.parametrize("schedule", ["onecycle", "cosine", "constant"])
def test_schedules(schedule):
    settings = TrainingSettings(iterations=100, rate=2e-3, schedule=schedule)
    rates = np.array([settings.rate_at(step) for step in range(100)])
    assert (rates > 0).all()
    np.testing.assert_allclose(rates.max(), 2e-3, rtol=1e-12)
    if schedule == "onecycle":
        assert rates.argmax() == 20
        assert (np.diff(rates[:21]) > 0).all()
        assert (np.diff(rates[20:]) < 0).all()
        np.testing.assert_allclose(rates[0], 0.04 * 2e-3)
    if schedule == "cosine":
        np.testing.assert_allclose(rates, 1e-3 * (1 + np.cos(np.pi * np.arange(100) / 100)))
    assert (rates[-1] == 2e-3) if schedule == "constant" else (rates[-1] < 2e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterations": 0}, "iterations 0"),
        ({"batch": 0}, "batch 0"),
        ({"rate": 0.0}, "rate 0"),
        ({"schedule": "linear"}, "onecycle, cosine or constant"),
        ({"loss": "mse"}, "likelihood or composite"),
        ({"out_of_fold_share": 0.6}, "out_of_fold_share"),
        ({"early_share": -0.5}, "early_share must be from 0 to 1, got -0.5"),
        ({"bfloat16_share": 1.5}, "bfloat16_share must be from 0 to 1, got 1.5"),
    ],
)
def test_impossible_settings_raise_errors(changes, message):
    with pytest.raises(SurrogateError, match=message):
        TrainingSettings(**changes)


def test_settings_change_by_copy_and_go_to_json():
    settings = TrainingSettings()
    changed = settings.changed(iterations=7)
    assert (changed.iterations, settings.iterations) == (7, 3000)
    assert TrainingSettings(**changed.as_json()) == changed
