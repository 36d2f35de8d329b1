"""A page needs nothing but itself."""

import re

import plotly.graph_objects as go

from mrafno.report.html import anchors, write_page


def test_a_page_is_self_contained(tmp_path):
    figure = go.Figure(go.Scatter(x=[0, 1], y=[1, 2]))
    path = tmp_path / "new folder" / "page.html"
    write_page(path, "A <title>", "Lead.", [("One", "First & last.", figure), ("Two", "Again.", figure)])
    page = path.read_text(encoding="utf-8")
    assert re.search(r"<script[^>]+src=|<link[^>]+href=", page) is None
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "First &amp; last." in page
    assert page.count("Plotly.newPlot(") >= 2
    assert '<h2>One<a href="#one" aria-label="link to One">#</a></h2>' in page


def test_tables_of_names_and_values_have_a_class(tmp_path):
    facts, figures = [("setting", "value"), ("pool", "62")], [("run", "cost", "error"), ("a", "1", "0.1")]
    write_page(tmp_path / "page.html", "Title", "Lead.", [("One", "Text.", facts), ("Two", "Text.", figures)])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('<table class="facts">') == page.count("<table>") == 1
    assert "<script>" not in page  # there is nothing to draw


def test_anchors_are_unique():
    assert anchors(["Error against cost", "Error: against cost!", "\u00fb", "error-against-cost-2"]) == [
        "error-against-cost", "error-against-cost-2", "section", "error-against-cost-2-2",
    ]  # fmt: skip
