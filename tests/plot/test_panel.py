"""Panels side by side and one by one, in one, two and three dimensions by the same code."""

import numpy as np
import pytest

from mrafno.grids import Grid
from mrafno.plot.axes import Axes
from mrafno.plot.fields import example_panels
from mrafno.plot.panel import separate, side_by_side

MAPS = ["input", "truth", "prediction", "prediction minus truth", "standard deviation"]


def example(shape, channels=1):
    axes = Axes(Grid(shape, ("cells",) * len(shape)))
    f, truth, mean, std = np.random.default_rng(0).uniform(size=(4, channels, *shape))
    return axes, example_panels(axes, f, truth, mean, std), axes.frames(channels)


def values(trace):
    return trace.y if trace.type == "scatter" else trace.z


@pytest.mark.parametrize(
    ("shape", "channels", "titles", "frames"),
    [
        ((9,), 1, ["input", "output", "prediction minus truth"], 1),
        ((9,), 3, ["input", "output", "prediction minus truth"], 3),
        ((4, 6), 1, MAPS, 1),
        ((4, 6), 3, MAPS, 3),
        ((4, 6, 5), 1, MAPS, 5),
        ((4, 6, 5), 2, MAPS, 10),
    ],
)
def test_a_slider_shows_one_frame_of_every_panel(shape, channels, titles, frames):
    _, panels, (found, start) = example(shape, channels)
    assert [panel.title for panel in panels] == titles
    assert len(found) == frames
    figure = side_by_side(panels, found, start)
    visible = [trace.visible for trace in figure.data]
    assert len(figure.data) % frames == 0
    assert sum(visible) == len(figure.data) // frames
    if frames == 1:
        assert not figure.layout.sliders
    else:
        (slider,) = figure.layout.sliders
        assert slider.active == start
        assert [step.label for step in slider.steps] == [frame.label for frame in found]
        assert list(slider.steps[start].args[0]["visible"]) == visible
        # Every trace belongs to one frame.
        shown = np.array([step.args[0]["visible"] for step in slider.steps])
        assert (shown.sum(axis=0) == 1).all()
    for title, single in separate(panels, found, start):
        assert title in titles
        assert len(single.data) % frames == 0
        each = len(single.data) // frames
        assert [trace.visible for trace in single.data] == [i // each == start for i in range(len(single.data))]


def test_one_colour_scale_for_truth_and_prediction_in_all_frames():
    _, panels, (found, start) = example((4, 6, 5), 2)
    figure = side_by_side(panels, found, start)
    scales = {(t.zmin, t.zmax) for t in figure.data[10:30]}
    low, high = (
        function(values(trace).astype(float).tolist()[0] + values(trace).astype(float).ravel().tolist())
        for function, trace in ((min, figure.data[10]), (max, figure.data[10]))
    )
    assert len(scales) == 1
    ((zmin, zmax),) = scales
    assert zmin <= low
    assert zmax >= high


def test_a_map_is_drawn_to_scale():
    axes, panels, (found, start) = example((4, 8))
    assert axes.ratio == 1
    figure = side_by_side(panels, found, start)
    assert figure.layout.yaxis.scaleanchor == "x"
    assert figure.layout.yaxis3.scaleanchor == "x3"
    _, single = separate(panels, found, start)[1]
    assert single.layout.yaxis.scaleanchor == "x"


@pytest.mark.parametrize("shape", [(9,), (4, 8), (4, 6, 5)])
def test_panels_of_a_row_have_one_size(shape):
    """Whatever is below them: a legend, a colour bar with long labels, or nothing."""
    axes, panels, (found, start) = example(shape)
    layouts = [figure.layout for _, figure in separate(panels, found, start)]
    assert len({layout.height for layout in layouts}) == 1
    assert len({layout.margin.b for layout in layouts}) == 1
    assert all((layout.meta or {}).get("ratio") == (axes.ratio if len(shape) > 1 else None) for layout in layouts)


def test_limits_of_curves_hold_for_all_frames():
    _, panels, (found, _) = example((9,), 3)
    low, high = panels[1].span
    for frame in found:
        for trace in panels[1].traces(frame):
            assert low < min(trace.y)
            assert max(trace.y) < high


def test_an_input_without_functions_has_no_panel():
    axes = Axes(Grid((4, 6), ("cells",) * 2))
    truth = np.ones((1, 4, 6))
    assert [panel.title for panel in example_panels(axes, np.zeros((0, 4, 6)), truth)] == ["truth"]
