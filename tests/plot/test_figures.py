"""Figures hold the numbers they are given, and a page needs nothing but itself."""

import re

import numpy as np
import pytest

from mrafno.plot.figures import task_figure, write_page
from mrafno.tasks import FunctionTask, get_task


def solved(task):
    f = task.sample(1)
    return f, [task.solve(task.restrict(f, level), level) for level in range(task.levels)]


def test_maps_of_a_problem_in_two_dimensions():
    task = get_task("darcy3", resolutions=((4, 4), (6, 6), (8, 8)))
    f, outputs = solved(task)
    figure = task_figure(task, f[0], [y[0] for y in outputs])
    assert [trace.z.shape for trace in figure.data] == [(8, 8), (4, 4), (6, 6), (8, 8), (4, 4)]
    # The vertical axis of a map is the second of the grid.
    np.testing.assert_array_equal(figure.data[3].z, outputs[2][0, 0].T)
    assert len({(trace.zmin, trace.zmax) for trace in figure.data[1:4]}) == 1
    assert figure.data[4].zmin == -figure.data[4].zmax


@pytest.mark.parametrize("sizes", [(17,), (9, 17), (5, 9, 17), (3, 5, 9, 17)])
def test_curves_of_a_problem_in_one_dimension(sizes):
    task = FunctionTask(lambda f, level: f + level, np.ones((2, 17)), sizes, range(1, len(sizes) + 1))
    f, outputs = solved(task)
    figure = task_figure(task, f[0], [y[0] for y in outputs])
    assert [len(trace.y) for trace in figure.data] == [17, *reversed(sizes), sizes[0]]
    np.testing.assert_allclose(figure.data[-1].y, 1 - len(sizes))


def test_a_page_is_self_contained(tmp_path):
    task = get_task("darcy", resolutions=((4, 4), (8, 8)))
    f, outputs = solved(task)
    figure = task_figure(task, f[0], [y[0] for y in outputs])
    path = tmp_path / "new folder" / "page.html"
    write_page(path, "A <title>", "Lead.", [("One", "First & last.", figure), ("Two", "Again.", figure)])
    page = path.read_text(encoding="utf-8")
    assert re.search(r"<script[^>]+src=|<link[^>]+href=", page) is None
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "First &amp; last." in page
    assert page.count("Plotly.newPlot(") >= 2
    assert '<h2>One<a href="#one" aria-label="link to One">#</a></h2>' in page


def test_tables_of_names_and_values_are_told_from_tables_of_figures(tmp_path):
    facts, figures = [("setting", "value"), ("pool", "62")], [("run", "cost", "error"), ("a", "1", "0.1")]
    write_page(tmp_path / "page.html", "Title", "Lead.", [("One", "Text.", facts), ("Two", "Text.", figures)])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('<table class="facts">') == page.count("<table>") == 1
    assert "<script>" not in page  # there is nothing to draw
