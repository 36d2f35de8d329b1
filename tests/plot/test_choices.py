"""Figures of choices hold the numbers they are given."""

from mrafno.plot.choices import schedule_figure, timeline_figure, utility_figure


def test_a_timeline_has_a_block_for_every_step():
    figure = timeline_figure([0, 1, 1], ["5 points", "9 points"])
    blocks, lines = [t for t in figure.data if t.type == "bar"], [t for t in figure.data if t.type == "scatter"]
    assert [(t.name, t.x, t.width, t.base) for t in blocks] == [
        ("5 points", (1.0,), (1,), (-0.4,)), ("9 points", (2.0, 3.0), (1, 1), (0.6, 0.6)),
    ]  # fmt: skip
    assert blocks[1].customdata == ("step 2", "step 3")
    assert [(t.name, t.y) for t in lines] == [("5 points", (0, 1, 1, 1)), ("9 points", (0, 0, 1, 2))]


def test_a_timeline_of_many_steps_shows_shares():
    levels = [0, 0, 0, 1] * 250
    figure = timeline_figure(levels, ["coarse", "fine"])
    coarse, fine = (t for t in figure.data if t.type == "bar")
    assert len(coarse.x) == len(fine.x) == 150
    assert sum(fine.width) == sum(coarse.width) == 1000
    counts = [int(text.split(": ")[1].split(" of ")[0]) for text in fine.customdata]
    assert sum(counts) == 250
    assert all(0.25 < opacity < 1 for opacity in fine.marker.opacity)
    assert fine.customdata[0] == "steps 1 to 7: 1 of 7"


def test_schedules():
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
