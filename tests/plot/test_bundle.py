"""The JavaScript that is shipped with the package."""

import plotly.graph_objects as go

from mrafno.plot.bundle import figure_json, figures_js, plotly_js, plotly_js_compressed


def test_the_code_is_shipped_with_its_licence():
    code = plotly_js()
    assert b"plotly.js (cartesian - minified)" in code[:100]
    assert b"MIT license" in code[:200]
    assert len(plotly_js_compressed()) < 600_000
    assert b"function drawFigure" in figures_js()


def test_a_figure_as_json_has_no_template():
    values = figure_json(go.Figure(go.Scatter(y=[1, 2]), layout={"template": "plotly_white", "height": 300}))
    assert values["layout"] == {"height": 300}
    assert values["data"][0]["type"] == "scatter"
    assert figure_json(None) is None
