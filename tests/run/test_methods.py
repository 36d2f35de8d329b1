"""The built-in methods, and methods from outside of the package."""

import re
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest

from mrafno.acquisition import Coreset, Information, LargestClusterMaxDist, MultilevelGain, RandomChoice
from mrafno.errors import AcquisitionError, RunError
from mrafno.run import methods
from mrafno.run.methods import METHODS, Method, get_method
from mrafno.surrogate import SURROGATES
from mrafno.surrogate.options import Inference
from mrafno.surrogate.spec import SurrogateSpec

NAMES = (
    "mra-u", "mra-uhat", "mr-predvar", "mr-dropout", "random-low", "random-high", "random-mix", "coreset-low",
    "coreset-high", "coreset-mix", "lcmd-low", "lcmd-high", "lcmd-mix", "mra-auto",
)  # fmt: skip


@dataclass(frozen=True)
class Scaled:
    factor: float = 2.0
    name = "scaled"

    def score(self, context, chosen):
        return np.full((len(context.candidates), context.levels), self.factor)


class Plain:
    name = "plain"

    def __init__(self):
        self.weights, self._hidden, self.function = (1, 2.5), 3, len

    def score(self, context, chosen):
        return np.ones((len(context.candidates), context.levels))


def test_the_methods():
    assert set(METHODS) == set(NAMES)
    for name in NAMES:
        assert get_method(name).name == name
        assert get_method(name).spec().inference in SURROGATES
    assert {name for name in NAMES if METHODS[name].mesh_rule} == {"mra-auto"}
    assert {name for name in NAMES if METHODS[name].divide_by_cost} == {"mra-u", "mra-uhat", "mr-predvar", "mr-dropout"}
    for levels in ("low", "high", "mix"):
        assert METHODS[f"random-{levels}"].acquisition == RandomChoice(levels)
        assert METHODS[f"coreset-{levels}"].acquisition == Coreset(levels)
        assert METHODS[f"lcmd-{levels}"].acquisition == LargestClusterMaxDist(levels)


def test_an_unknown_name_is_answered_with_the_near_one():
    with pytest.raises(AcquisitionError, match=r"unknown method 'mra-v'. Did you mean 'mra-u'"):
        get_method("mra-v")


def test_the_table_in_the_docstring_agrees():
    rows = [line for line in methods.__doc__.splitlines() if re.match(r"(mra|mr|random|coreset|lcmd)-", line)]
    assert len(rows) == 8
    for row in rows:
        name, acquisition, rule, per_cost, _ = re.split(r"\s{2,}", row, maxsplit=4)
        for method in (m for m in METHODS.values() if re.fullmatch(name.replace("\\*", ".*"), m.name)):
            assert method.acquisition.name.replace("-", " ") == acquisition.replace("-", " ")
            assert (method.mesh_rule.name.replace("-", " ") if method.mesh_rule else "none") == rule
            assert method.divide_by_cost == (per_cost == "yes")


@pytest.mark.parametrize("name", NAMES)
def test_one_sample_is_enough_for_random_choice_and_distances_only(name):
    method = get_method(name)
    assert method.spec().inference == ("dropout" if name == "mr-dropout" else "ensemble")
    assert method.spec("sgld").inference == "sgld"
    if name.startswith(("random", "coreset", "lcmd", "mra-auto")):
        assert method.spec("point").inference == "point"
    else:
        with pytest.raises(AcquisitionError, match=f"{name}: its acquisition compares .* random, coreset or lcmd"):
            method.spec("point")


def test_settings_know_every_way_of_inference():
    assert set(get_args(Inference)) == set(SURROGATES)


def test_a_method_of_ones_own_is_described_by_names_and_parameters():
    method = Method(acquisition=Scaled(3.0), mesh_rule=MultilevelGain(), name="mine")
    described = method.as_json()
    assert described["name"] == "mine"
    assert described["acquisition"] == {"class": "Scaled", "name": "scaled", "parameters": {"factor": 3.0}}
    assert described["mesh_rule"] == {"class": "MultilevelGain", "name": "multilevel-gain", "parameters": {}}
    assert Method(acquisition=Plain()).name == "plain"
    parameters = Method(acquisition=Plain()).as_json()["acquisition"]["parameters"]
    assert parameters == {"weights": [1, 2.5], "function": "<builtin_function_or_method>"}


def test_a_method_with_a_surrogate_of_its_own_has_no_other():
    method = Method(acquisition=Scaled(), surrogate=SurrogateSpec(training={"rate": 1e-3}))
    assert method.spec().training == {"rate": 1e-3}
    with pytest.raises(RunError, match="it brings a surrogate of its own"):
        method.spec("svi")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"acquisition": Scaled}, "Give an instance, not the class"),
        ({"acquisition": 5}, r"object with the method score\(context, chosen\), got 5"),
        ({"acquisition": Scaled(), "mesh_rule": Scaled()}, r"mesh_rule must be an object with the method gains"),
        ({"acquisition": Scaled(), "name": 7}, "the name must be a text"),
    ],
)
def test_parts_that_are_no_such_thing_are_refused(parts, words):
    with pytest.raises(AcquisitionError, match=words):
        Method(**parts)


def test_a_part_needs_a_name():
    class Nameless:
        def score(self, context, chosen):
            return []

    with pytest.raises(AcquisitionError, match="needs an attribute `name`"):
        Method(acquisition=Nameless())
    assert Method(acquisition=Information()).name == "u-hat"
