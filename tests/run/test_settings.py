"""Settings: what is nonsense is refused with a hint, and what is kept comes back."""

import json
import math
from dataclasses import fields

import pytest

from mrafno.errors import RunError
from mrafno.run.settings import RunSettings


def test_the_defaults_are_those_of_the_experiments():
    settings = RunSettings()
    assert (settings.pool, settings.initial, settings.test, settings.members) == (990, 10, 200, 5)
    assert (settings.batch, settings.schedule, settings.alpha) == (1, "exp", 0.01)


def test_they_come_back_from_json():
    settings = RunSettings.of(
        pool=7, alpha=0, schedule="sigmoid", renormalise=False, targets=5, refresh=0.5, lease=3.5, retrain="scratch"
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
        ("pool", (0, -1, 1.5, "3", True, None)),
        # A single example of a level is too few to learn from.
        ("initial", (0, 1, True)),
        ("test", (-1, 0.5)),
        ("test_seed", (-1, 0.5, None)),
        ("batch", (0,)),
        ("brief", (0, 1.5)),
        ("members", (1, 0)),
        ("inference", ("mcmc", 1)),
        ("evaluate", (0,)),
        ("retries", (-1, math.inf)),
        ("targets", (0, 2.0)),
        ("candidates", (0,)),
        ("first", (0,)),
        ("iterations", (-3,)),
        ("schedule", ("linear", None, 3)),
        ("preset", ("slow",)),
        ("retrain", ("cold", True)),
        ("alpha", (-0.1, math.nan, math.inf, "x", None, True)),
        ("refresh", (-0.1, 1.1, math.nan, "x", None)),
        ("renormalise", (1, "yes", None)),
        ("lease", (0, -1, math.nan, math.inf, "long", True)),
    ],
)
def test_nonsense_is_refused_by_name(name, values):
    for value in values:
        with pytest.raises(RunError, match=rf"settings: .*{name}"):
            RunSettings.of(**{name: value})


@pytest.mark.parametrize(
    ("members", "known", "expected"), [(5, 4, 1), (5, 149, 1), (5, 150, 2), (5, 900, 4), (2, 900, 1)]
)
def test_brief_fits_become_rarer_up_to_the_number_of_members(members, known, expected):
    assert RunSettings(members=members).new_examples(known) == expected
    assert RunSettings(members=members, brief=7).new_examples(known) == 7
    assert RunSettings(**RunSettings(members=members, brief=7).as_json()).new_examples(known) == 7


def test_none_means_the_surrogates_own_or_all():
    settings = RunSettings(targets=None, candidates=None, first=None, iterations=None, lease=None)
    assert settings == RunSettings()
    assert RunSettings(test=0, retries=0, refresh=0, alpha=0).refresh == 0
