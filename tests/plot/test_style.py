"""Methods and meshes have styles that can be told apart."""

import itertools

import pytest

from mrafno.plot.bars import time_figure
from mrafno.plot.style import level_styles, method_styles, new_figure
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


def test_figures_have_a_short_template():
    """Plotly's own takes half of the time in which a figure is made."""
    for figure in (time_figure({"fits": 2.0}), new_figure(2, 1, shared_xaxes=True)):
        template = figure.layout.template.to_plotly_json()
        assert template["layout"]["plot_bgcolor"] == "white"
        assert set(template["data"]) == {"heatmap"}
