"""Bar charts hold the numbers they are given."""

from mrafno.plot.bars import bars_figure, mixture_figure, time_figure


def test_times_and_mixtures():
    figure = time_figure({"training": 90.0, "choosing": 0.0})
    assert (figure.data[0].x, figure.data[0].text) == ((90.0, 0.0), ("1 min 30 s", "0 s"))
    figure = mixture_figure(["a", "b"], [[1.0, 2.5], [0.0, 4.0]], ["coarse", "fine"])
    assert [t.x for t in figure.data] == [(1.0, 0.0), (2.5, 4.0)]
    # Stripes are drawn on the bar's colour; plotly would leave the ground of a pattern transparent.
    assert all(trace.marker.pattern.bgcolor == trace.marker.color for trace in figure.data)


def test_groups_of_bars():
    figure = bars_figure(["a", "b"], {"measured": [(1.0, 0.1), (2.0, 0.2)], "published": [(1.5, 0.0), (2.5, 0.0)]}, "y")
    assert [(t.name, t.y, t.error_y.visible) for t in figure.data] == [
        ("measured", (1.0, 2.0), True), ("published", (1.5, 2.5), False),
    ]  # fmt: skip
    assert figure.data[0].error_y.array == (0.1, 0.2)
