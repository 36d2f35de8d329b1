"""Figures drawn by matplotlib have the numbers, axes and names of the Plotly figures."""

from unittest import mock

import numpy as np
import plotly.graph_objects as go
import pytest

from mrafno.errors import MrafnoError
from mrafno.grids import Grid
from mrafno.plot import still
from mrafno.plot.axes import Axes
from mrafno.plot.errors import Line, error_figure
from mrafno.plot.fields import prediction_figure
from mrafno.plot.still import write_still


@pytest.fixture
def drawn(tmp_path):
    """A function that writes a figure and returns its panels."""
    pyplot = still._pyplot()

    def draw(figure, name="a.png"):
        with mock.patch.object(pyplot, "close"):
            write_still(figure, tmp_path / name)
        return pyplot.gcf().axes

    yield draw
    pyplot.close("all")


def test_curves_on_a_logarithmic_axis(drawn):
    (panel,) = drawn(error_figure([Line("a", (0, 10, 20), (0.4, 0.1, 0.05))], "one coarsest solve = 1"))
    (line,) = panel.get_lines()
    assert line.get_xydata().tolist() == [[0, 0.4], [10, 0.1], [20, 0.05]]
    assert (panel.get_yscale(), panel.get_xlabel()) == ("log", "accumulated simulation cost (one coarsest solve = 1)")
    low, high = panel.get_ylim()
    assert low < 0.05 < 0.4 < high
    assert "0.1" in [label.get_text() for label in panel.get_yticklabels()]


def test_bands_bars_and_hidden_traces(drawn):
    figure = go.Figure()
    figure.add_scatter(x=[0, 1, 1, 0], y=[0, 0, 1, 1], fill="toself", fillcolor="rgba(0,114,178,0.18)", name="band")
    figure.add_bar(x=[5, 6], y=[2.0, 3.0], name="<b>bars</b>")
    figure.add_scatter(x=[9], y=[9], visible=False, name="hidden")
    (panel,) = drawn(figure)
    assert panel.patches[0].get_facecolor()[3] == pytest.approx(0.18)
    assert [patch.get_height() for patch in panel.patches[1:]] == [2.0, 3.0]
    assert panel.get_legend_handles_labels()[1] == ["band", "<b>bars</b>"]


def test_maps_have_the_values_of_the_figure(drawn):
    z = np.arange(6.0).reshape(2, 3)
    scale = {"colorscale": "RdBu", "reversescale": True, "zmin": -5, "zmax": 5}
    panel, _bar = drawn(go.Figure(go.Heatmap(x=[0, 1, 2], y=[0, 1], z=z, **scale)))
    (mesh,) = panel.collections
    assert mesh.get_array().reshape(2, 3).tolist() == z.tolist()
    assert (mesh.get_cmap().name, mesh.get_clim()) == ("RdBu_r", (-5, 5))


def test_maps_are_drawn_to_scale_where_the_figure_is(drawn):
    figure = go.Figure(go.Heatmap(x=[0, 1], y=[0, 1], z=[[1, 2], [3, 4]]))
    figure.update_yaxes(scaleanchor="x", showticklabels=False)
    panel, _bar = drawn(figure)
    assert panel.get_aspect() == 1.0
    assert not panel.yaxis.get_tick_params()["labelleft"]


def test_files_of_one_figure_are_the_same_each_time(tmp_path):
    figure = error_figure([Line("a", (0, 10), (0.4, 0.1))], "unit")
    for name in ("a.svg", "b.svg"):
        write_still(figure, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_other_traces_are_refused(tmp_path):
    with pytest.raises(MrafnoError, match="type pie"):
        write_still(go.Figure(go.Pie(values=[1, 2])), tmp_path / "a.png")


def test_a_map_and_its_colours_are_equally_high(drawn):
    axes, y = Axes(Grid((8, 8), ("cells", "cells"))), np.random.default_rng(0).normal(size=(1, 8, 8))
    boxes = [panel.get_window_extent() for panel in drawn(prediction_figure(axes, y, y, 1.1 * y, 0 * y + 1))]
    assert len(boxes) == 10  # five maps and their scales
    assert len({(round(box.y0), round(box.y1)) for box in boxes}) == 1
    assert sum(abs(box.width - box.height) < 1 for box in boxes) == 5  # the maps are drawn to scale
