"""Figures about runs hold the numbers they are given, and their axes say what they are and hide nothing."""

import itertools

import pytest

from mrafno.report.figures import (
    Line,
    counts_figure,
    coverage_figure,
    duration,
    error_figure,
    level_styles,
    method_styles,
    mixture_figure,
    schedule_figure,
    time_figure,
    utility_figure,
)
from mrafno.run.methods import METHODS

UNIT = "one coarsest solve = 1"


def test_every_method_has_a_look_of_its_own():
    styles = method_styles({name: name for name in METHODS})
    assert len(styles) == len(METHODS)
    for a, b in itertools.combinations(styles.values(), 2):
        assert a.marker != b.marker
        assert (a.colour, a.dash) != (b.colour, b.dash)


def test_a_method_looks_the_same_in_other_company():
    alone = method_styles({"mra-u": "mra-u"})["mra-u"]
    assert method_styles({"random-mix": "random-mix", "a": "nobody knows", "mra-u": "mra-u"})["mra-u"] == alone
    twice = method_styles({"mra-u, alpha 0.1": "mra-u", "mra-u, alpha 1": "mra-u", "mra-uhat": "mra-uhat"})
    assert len(set(twice.values())) == 3
    assert twice["mra-u, alpha 0.1"] == alone
    assert len(method_styles({str(i): "unknown" for i in range(20)})) == 20


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_meshes_can_be_told_apart(levels):
    styles = level_styles(levels)
    assert len(set(styles)) == len(styles) == levels
    assert styles[-1] == level_styles(2)[-1]


def test_error_of_one_run():
    figure = error_figure([Line("mra-u", (0.0, 10.0), (0.5, 0.4))], UNIT)
    (trace,) = figure.data
    assert (trace.x, trace.y) == ((0.0, 10.0), (0.5, 0.4))
    assert figure.layout.xaxis.title.text == "accumulated simulation cost (one coarsest solve = 1)"
    assert figure.layout.yaxis.title.text == "relative L2 error"
    # Errors that hardly differ are shown from zero.
    assert (figure.layout.yaxis.type, figure.layout.yaxis.rangemode) == (None, "tozero")
    assert not figure.layout.updatemenus


def test_errors_that_fall_far_have_a_logarithmic_axis_with_whole_labels():
    axis = error_figure([Line("mra-u", (0.0, 10.0), (0.5, 0.01))], UNIT).layout.yaxis
    assert axis.type == "log"
    assert 10 ** axis.range[0] < 0.01 < 0.5 < 10 ** axis.range[1]
    assert {"0.01", "0.02", "0.1", "0.5"} <= set(axis.ticktext)
    assert [float(text) for text in axis.ticktext] == list(axis.tickvals)
    # Zero has no logarithm.
    assert error_figure([Line("mra-u", (0.0, 10.0), (0.5, 0.0))], UNIT).layout.yaxis.type is None


def test_a_band_goes_there_and_back():
    line = Line("a", (0.0, 10.0), (0.5, 0.3), low=(0.4, 0.2), high=(0.6, 0.4))
    band, middle = error_figure([line], UNIT).data
    assert (band.x, band.y) == ((0.0, 10.0, 10.0, 0.0), (0.6, 0.4, 0.2, 0.4))
    assert middle.name == "a"


@pytest.mark.parametrize(("dear", "kind"), [(90.0, None), (110.0, "log")])
def test_methods_of_very_different_cost_have_a_logarithmic_axis(dear, kind):
    figure = error_figure([Line("a", (0.0, 10.0), (0.5, 0.3)), Line("b", (0.0, dear), (0.5, 0.3))], UNIT)
    assert figure.layout.xaxis.type == kind
    (menu,) = figure.layout.updatemenus
    assert [button.args[0]["xaxis.type"] for button in menu.buttons] == ["linear", "log"]
    assert menu.active == (kind == "log")


def test_counts_and_schedules():
    figure = counts_figure([[0, 1, 1], [0, 0, 1]], ["5 points", "9 points"])
    assert [(t.name, t.y) for t in figure.data] == [("5 points", (0, 1, 1)), ("9 points", (0, 0, 1))]
    figure = schedule_figure([1, 2], [[0.5, 0.5], [0.3, 0.7]], [0.1, 0.9], ["5 points", "9 points"])
    assert [t.y for t in figure.data] == [(0.5, 0.3), (0.5, 0.7)]
    assert [shape.y0 for shape in figure.layout.shapes] == [0.1, 0.9]


def test_utilities_and_what_was_chosen():
    best = [[1.0, 2.0], [0.5, None]]
    figure = utility_figure([1, 2], best, [1, 0], ["coarse", "fine"], "u (nats)", [[0.5, 0.5], [0.25, 0.75]])
    assert [t.y for t in figure.data] == [(1.0, 0.5), (2.0, None), (2.0, 2.0), (4.0, None)]
    assert figure.data[0].marker.symbol == ("square-open", "square")
    assert figure.data[1].marker.symbol == ("circle", "circle-open")
    assert len(utility_figure([1, 2], best, [1, 0], ["coarse", "fine"], "u (nats)").data) == 2
    many = utility_figure(range(1, 201), [[1.0, 2.0]] * 200, [1] * 200, ["coarse", "fine"], "u (nats)")
    assert [set(trace.marker.size) for trace in many.data] == [{0}, {4}]


def test_shares_are_shown_whole():
    figure = coverage_figure((0.0, 10.0), (0.7, 0.85), 0.9, "in the task's unit; one coarsest solve = 0.25")
    assert figure.data[0].y == (0.7, 0.85)
    assert tuple(figure.layout.yaxis.range) == (0, 1.02)
    assert "<br>" in figure.layout.xaxis.title.text  # two lines fit a phone


def test_times_and_mixtures():
    figure = time_figure({"training": 90.0, "choosing": 0.0})
    assert (figure.data[0].x, figure.data[0].text) == ((90.0, 0.0), ("1.5 min", "0 s"))
    figure = mixture_figure(["a", "b"], [[1.0, 2.5], [0.0, 4.0]], ["coarse", "fine"])
    assert [t.x for t in figure.data] == [(1.0, 0.0), (2.5, 4.0)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "0.012 s"), (9.96, "10 s"), (59, "59 s"), (61, "1.0 min"), (1200, "20 min"), (9000, "2.5 h")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
