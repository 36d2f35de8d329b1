"""Figures of a run's work hold the numbers they are given."""

import pytest

from mrafno.plot.work import Course, Simulation, driver_figure, learning_figure, simulations_figure


def test_learning_curves_of_fits_stand_one_after_the_other():
    fits = [Course("fit 1", (0, 24), ((9.0, 8.0), (1.0, None))), Course("fit 2", (0, 9), ((1.0, 1.5), (0.5, 0.25)))]
    figure = learning_figure(fits)
    assert [t.name for t in figure.data] == ["member 1", "member 2"]
    assert figure.data[0].x == (0, 24, None, 25, 34, None)
    assert figure.data[0].y == (9.0, 1.0, None, 1.0, 0.5, None)
    assert figure.data[1].y == (8.0, None, None, 1.5, 0.25, None)
    assert [shape.x0 for shape in figure.layout.shapes] == [24.5]
    low, high = figure.layout.yaxis.range
    assert low < 0.25
    assert high == pytest.approx(1.0, rel=0.05)  # the first losses of a fit may lie above the figure


def test_simulations_by_mesh_and_those_without_output():
    found = [
        Simulation("q0", 0, 0.5), Simulation("q1", 1, 40.0), Simulation("q2", 0, None),
        Simulation("q3", 1, None, "<b>no convergence</b>"),
    ]  # fmt: skip
    figure = simulations_figure(found, ["coarse", "fine"])
    assert [(t.name, t.x, t.y) for t in figure.data] == [
        ("coarse", (1,), (0.5,)), ("fine", (2,), (40.0,)), ("without output", (4,), (0.5,)),
    ]  # fmt: skip
    assert figure.layout.yaxis.type == "log"
    assert figure.data[2].customdata == ("q3: &lt;b>no convergence&lt;/b>",)


def test_of_many_simulations_the_slowest_are_kept():
    found = [Simulation(f"q{i}", 0, 1.0 + (i == 7) * 100) for i in range(5000)]
    trace = simulations_figure(found, ["coarse"]).data[0]
    assert len(trace.x) <= 2000
    assert 8 in trace.x
    assert 5000 in trace.x


def test_the_driver():
    figure = driver_figure([0.0, 300.0], [0.5, 0.9], [1e8, 2e8])
    assert [(t.x, t.y) for t in figure.data] == [((0.0, 5.0), (50.0, 90.0)), ((0.0, 5.0), (100.0, 200.0))]
    assert "(min)" in figure.layout.xaxis2.title.text
