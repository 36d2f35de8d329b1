"""Figures of errors hold the numbers they are given, and their axes hide nothing."""

import pytest

from mrafno.plot.errors import Line, calibration_figure, coverage_figure, error_figure

UNIT = "one coarsest solve = 1"


def test_error_of_one_run():
    figure = error_figure([Line("mra-u", (0.0, 10.0), (0.5, 0.4))], UNIT)
    (trace,) = figure.data
    assert (trace.x, trace.y) == ((0.0, 10.0), (0.5, 0.4))
    assert figure.layout.xaxis.title.text == "accumulated simulation cost (one coarsest solve = 1)"
    assert figure.layout.yaxis.title.text == "relative L2 error"
    # Errors that hardly differ are shown from zero.
    assert (figure.layout.yaxis.type, figure.layout.yaxis.rangemode) == (None, "tozero")
    assert not figure.layout.updatemenus


def test_a_large_range_of_errors_has_a_logarithmic_axis():
    axis = error_figure([Line("mra-u", (0.0, 10.0), (0.5, 0.01))], UNIT).layout.yaxis
    assert axis.type == "log"
    assert 10 ** axis.range[0] < 0.01 < 0.5 < 10 ** axis.range[1]
    assert {"0.01", "0.02", "0.1", "0.5"} <= set(axis.ticktext)
    assert [float(text) for text in axis.ticktext] == list(axis.tickvals)
    # Zero has no logarithm.
    assert error_figure([Line("mra-u", (0.0, 10.0), (0.5, 0.0))], UNIT).layout.yaxis.type is None


def test_a_band_is_a_closed_polygon():
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


def test_the_axis_of_coverage_shows_all_shares():
    figure = coverage_figure((0.0, 10.0), (0.7, 0.85), 0.9, "in the task's unit; one coarsest solve = 0.25")
    assert figure.data[0].y == (0.7, 0.85)
    assert tuple(figure.layout.yaxis.range) == (0, 1.02)
    assert "<br>" in figure.layout.xaxis.title.text  # two lines fit a phone


def test_calibration_is_drawn_by_probability():
    figure = calibration_figure({"ensemble": {"0.9": 0.8, "0.5": 0.4}, "svi": {"0.5": 0.6, "0.9": 0.95}})
    assert [(t.name, t.x, t.y) for t in figure.data[1:]] == [
        ("ensemble", (0.5, 0.9), (0.4, 0.8)), ("svi", (0.5, 0.9), (0.6, 0.95)),
    ]  # fmt: skip
    assert figure.data[0].x == figure.data[0].y
