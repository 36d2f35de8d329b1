"""The map of inputs holds the numbers it is given, and its choices change what they say."""

import numpy as np

from mrafno.plot.point_map import MapPoints, input_map_figure

PLANE, PAIR = np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([[5.0, 6.0], [7.0, 8.0]])
TITLES = {"features": ("component 1", "component 2"), "a and b": ("a", "b")}


def kinds():
    rest = MapPoints("not chosen", [3, 4], {"features": PLANE, "a and b": PAIR}, {"spread": np.array([0.1, 0.2])}, "xy")
    here = {"spread": np.array([0.3, 0.5]), "step": np.array([2.0, np.nan])}
    return [rest, MapPoints("on 9", [7, 8], {"features": PLANE + 1, "a and b": PAIR}, here, ["s", "t"], level=1)]


def test_points_and_what_they_lead_to():
    rest, chosen = input_map_figure(kinds(), TITLES, 2, ["spread", "step"]).data
    assert (rest.name, rest.x, rest.y, rest.customdata) == ("not chosen", (0.0, 2.0), (1.0, 3.0), (3, 4))
    assert (chosen.customdata, chosen.text, chosen.marker.symbol) == ((7, 8), ("s", "t"), "circle")
    assert (rest.marker.color, chosen.marker.color) == ((0.1, 0.2), (0.3, 0.5))
    assert [(m.showscale, m.cmin) for m in (rest.marker, chosen.marker)] == [(False, 0.1), (True, 0.1)]


def test_choices_of_axes_and_colours():
    axes, colour = input_map_figure(kinds(), TITLES, 2, ["spread", "step"]).layout.updatemenus
    assert [button.label for button in axes.buttons] == ["features", "a and b"]
    restyle, relayout = axes.buttons[1].args
    assert restyle["x"] == [[5.0, 7.0], [5.0, 7.0]]
    assert (relayout["xaxis.title.text"], relayout["yaxis.title.text"]) == ("a", "b")
    restyle, _ = colour.buttons[1].args
    grey, steps = restyle["marker.color"]
    assert grey.startswith("rgba")
    assert steps == [2.0, None]
    assert restyle["marker.colorbar.title.text"] == "step"


def test_without_choices_there_are_no_lists():
    figure = input_map_figure(kinds()[:1], {"features": TITLES["features"]}, 2, ["spread"])
    assert not figure.layout.updatemenus
