"""Settings: what is nonsense is refused with a hint, and what is kept comes back."""

import json
import math
from dataclasses import fields

import pytest

from mrafno.errors import RunError
from mrafno.run.settings import RunSettings


def test_the_defaults_are_those_of_the_experiments():
    settings = RunSettings().resolved(levels=2, few=False, builtin=True)
    assert (settings.pool, settings.initial, settings.test, settings.members) == (None, 10, 200, 5)
    assert (settings.batch, settings.schedule, settings.alpha) == (1, "exp", 0.01)


def test_they_come_back_from_json():
    settings = RunSettings.of(
        pool=7,
        alpha=0,
        schedule="sigmoid",
        renormalise=False,
        targets=5,
        refit_growth=0.5,
        lease=3.5,
        retrain="scratch",
    )
    assert RunSettings.of(**json.loads(json.dumps(settings.as_json(), allow_nan=False))) == settings
    assert set(settings.as_json()) == {field.name for field in fields(RunSettings)}


@pytest.mark.parametrize(("name", "near"), [("initail", "initial"), ("batches", "batch"), ("alhpa", "alpha")])
def test_an_unknown_name_tells_the_nearest(name, near):
    with pytest.raises(RunError, match=f"unknown setting '{name}'. Did you mean '{near}'"):
        RunSettings.of(**{name: 1})


def test_a_name_like_no_other_tells_all():
    with pytest.raises(RunError, match=r"unknown setting 'xyzzy'. The known ones are pool, initial, .*, lease"):
        RunSettings.of(xyzzy=1)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("pool", (0, -1, 1.5, "3", True)),
        ("initial", (0, -1, True, (0, 0), ())),
        ("test", (-1, 0.5)),
        ("test_seed", (-1, 0.5, None)),
        ("batch", (0,)),
        ("update_every", (0, 1.5)),
        ("members", (1, 0)),
        ("inference", ("mcmc", 1)),
        ("evaluate", (0,)),
        ("retries", (-1, math.inf)),
        ("targets", (0, 2.0)),
        ("candidates", (0,)),
        ("iterations", (-3,)),
        ("schedule", ("linear", None, 3)),
        ("preset", ("slow",)),
        ("retrain", ("cold", True)),
        ("alpha", (-0.1, math.nan, math.inf, "x", None, True)),
        ("refit_growth", (-0.1, math.nan, "x")),
        ("network", (None, 3, {1: 2})),
        ("training", ("fast",)),
        ("scoring_points", (1, 2.5)),
        ("renormalise", (1, "yes", None)),
        ("lease", (0, -1, math.nan, math.inf, "long", True)),
    ],
)
def test_nonsense_is_refused_by_name(name, values):
    for value in values:
        with pytest.raises(RunError, match=rf"settings: .*{name}"):
            RunSettings.of(**{name: value})


def test_settings_of_the_first_version_are_read_by_their_old_names():
    old = {"pool": 7, "refresh": 0.25, "brief": 3, "first": 10, "iterations": None}
    assert RunSettings.recorded(old) == RunSettings(pool=7, refit_growth=0.25, update_every=3, design="random")
    new = RunSettings(network={"width": 8}, training={"rate": 1e-3})
    assert RunSettings.recorded(new.as_json()) == new


def test_none_means_the_surrogates_own_or_all():
    assert RunSettings(pool=None, targets=None, iterations=None, lease=None) == RunSettings()
    assert RunSettings(candidates=None).candidates is None
    assert RunSettings(test=0, retries=0, refit_growth=0, alpha=0).refit_growth == 0
