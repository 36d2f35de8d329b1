"""A page needs nothing but itself."""

import base64
import gzip
import json
import re

import plotly.graph_objects as go

from mrafno.report.html import Html, Panels, Parts, anchors, figures_of, write_page


def figures_in(page):
    """The figures of a page, unpacked."""
    packed = re.search('<script type="text/plain" id="figures">([^<]+)</script>', page)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_panels_have_a_slider_through_their_frames(tmp_path):
    figure = go.Figure([go.Scatter(y=[1]), go.Scatter(y=[2])])
    panels = Panels([("one", figure), ("two", figure)], ['z = "1"', "z = 2"], 1)
    write_page(tmp_path / "page.html", "Title", "Lead.", [("Both", "Text.", Parts([Html("<i>x</i>"), panels]))])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(figures_in(page)) == 2
    assert page.count('type="range"') == 1
    assert "<output>z = 2</output>" in page
    assert '<section id="both" class="wide">' in page
    assert "<i>x</i>" in page
    assert [name for name, _ in figures_of(panels, "Both")] == ["Both: one", "Both: two"]


def test_a_page_is_self_contained(tmp_path):
    figure = go.Figure(go.Scatter(x=[0, 1], y=[1, 2]))
    path = tmp_path / "new folder" / "page.html"
    write_page(path, "A <title>", "Lead.", [("One", "First & last.", figure), ("Two", "Again.", figure)])
    page = path.read_text(encoding="utf-8")
    assert re.search(r"<script[^>]+src=|<link[^>]+href=", page) is None
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "First &amp; last." in page
    assert page.count('class="plot"') == len(figures_in(page)) == 2
    assert figures_in(page)[1]["data"][0]["y"] == [1, 2]
    assert len(page) < 800_000
    assert '<h2>One<a href="#one" aria-label="link to One">#</a></h2>' in page


def test_tables_of_names_and_values_have_a_class(tmp_path):
    facts, figures = [("setting", "value"), ("pool", "62")], [("run", "cost", "error"), ("a", "1", "0.1")]
    write_page(tmp_path / "page.html", "Title", "Lead.", [("One", "Text.", facts), ("Two", "Text.", figures)])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('<table class="facts">') == page.count('<table class="rows">') == 1
    assert '<td data-head="cost">1</td>' in page
    assert "<script" not in page  # there is nothing to draw


def test_anchors_are_unique():
    assert anchors(["Error against cost", "Error: against cost!", "\u00fb", "error-against-cost-2"]) == [
        "error-against-cost", "error-against-cost-2", "section", "error-against-cost-2-2",
    ]  # fmt: skip
