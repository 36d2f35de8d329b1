"""Methods and meshes have styles that can be told apart."""

import itertools

import pytest

from mrafno.plot.style import level_styles, method_styles
from mrafno.run.methods import METHODS


def test_every_method_has_its_own_style():
    styles = method_styles({name: name for name in METHODS})
    assert len(styles) == len(METHODS)
    for a, b in itertools.combinations(styles.values(), 2):
        assert a.marker != b.marker
        assert (a.colour, a.dash) != (b.colour, b.dash)


def test_style_of_a_method_does_not_depend_on_others():
    alone = method_styles({"mra-u": "mra-u"})["mra-u"]
    assert method_styles({"random-mix": "random-mix", "a": "nobody knows", "mra-u": "mra-u"})["mra-u"] == alone
    twice = method_styles({"mra-u, alpha 0.1": "mra-u", "mra-u, alpha 1": "mra-u", "mra-uhat": "mra-uhat"})
    assert len(set(twice.values())) == 3
    assert twice["mra-u, alpha 0.1"] == alone
    assert len(method_styles({str(i): "unknown" for i in range(20)})) == 20


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_styles_of_meshes_differ(levels):
    styles = level_styles(levels)
    assert len(set(styles)) == len(styles) == levels
    assert styles[-1] == level_styles(2)[-1]
