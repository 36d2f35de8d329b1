"""The table of methods is the design's."""

import re
from typing import get_args

import pytest

from mrafno.errors import AcquisitionError
from mrafno.run import methods
from mrafno.run.methods import METHODS, get_method
from mrafno.surrogate import SURROGATES
from mrafno.surrogate.options import Inference

NAMES = (
    "mra-u", "mra-uhat", "mr-predvar", "mr-dropout", "random-low", "random-high", "random-mix", "coreset-low",
    "coreset-high", "coreset-mix", "mra-auto",
)  # fmt: skip


def test_all_eleven_are_there_under_their_names():
    assert set(METHODS) == set(NAMES)
    for name in NAMES:
        assert get_method(name).name == name
        assert get_method(name).inference in SURROGATES


def test_an_unknown_one_is_told_the_known_ones():
    with pytest.raises(AcquisitionError, match=r"unknown method 'mra-v'. The known ones are mra-u, .*coreset-mix"):
        get_method("mra-v")


@pytest.mark.parametrize("resolutions", [1, 2, 3, 5])
def test_which_meshes_each_may_ask_for(resolutions):
    every, last = tuple(range(resolutions)), resolutions - 1
    for name in NAMES:
        expected = {"low": (0,), "high": (last,)}.get(name.rsplit("-", 1)[1], every)
        assert get_method(name).allowed(resolutions) == expected


def test_what_is_divided_by_scheduled_costs():
    assert {name for name in NAMES if get_method(name).scheduled} == {"mra-u", "mra-uhat", "mr-predvar", "mr-dropout"}


def test_the_table_in_the_docstring_tells_the_same():
    assert methods.__doc__ is not None
    rows = [line.split() for line in methods.__doc__.splitlines() if re.match(r"(mra|mr|random|coreset)-", line)]
    for name, inference, utility, levels, *_ in rows:
        if name.endswith("*"):
            named = [m for m in METHODS.values() if m.name.startswith(name[:-1])]
            assert [m.levels for m in named] == ["low", "high", "mix"]
        else:
            named = [METHODS[name]]
            assert (levels, named[0].levels) == ("all", "mix")
        assert all((m.inference, m.utility) == (inference, utility) for m in named)
    assert len(rows) == 7


@pytest.mark.parametrize("name", NAMES)
def test_one_sample_is_enough_for_random_and_coreset_choice_only(name):
    method = get_method(name)
    assert method.inferred(None) == method.inference
    assert method.inferred("sgld") == "sgld"
    if name.startswith(("random", "coreset")):
        assert method.inferred("point") == "point"
    else:
        with pytest.raises(AcquisitionError, match=f"{name}: information is measured between .* random or coreset"):
            method.inferred("point")


def test_settings_know_every_way_of_inference():
    assert set(get_args(Inference)) == set(SURROGATES)
