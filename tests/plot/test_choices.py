"""Figures of choices hold the numbers they are given."""

from mrafno.plot.choices import counts_figure, schedule_figure, utility_figure


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
