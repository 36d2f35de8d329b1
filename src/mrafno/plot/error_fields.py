"""Error fields of several methods on the same input, on one scale."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mrafno.grids import Array, Grid
from mrafno.plot.style import BLACK, PLAIN, method_styles

#: Width in pixels of the heat maps with the gaps between them, from which their height follows.
_WIDTH = 1080


def maps_figure(
    grid: Grid, truth: Array, errors: Mapping[str, Array], titles: Mapping[str, str], methods: Mapping[str, str]
) -> go.Figure:
    """Heat maps: the truth on its own scale, then the errors on a common one."""
    del methods
    rows, columns = _arranged(len(errors) + 1, (4, 3))
    gap = 0.04
    panel = _WIDTH * (1 - gap * (columns - 1)) / columns
    figure = _panels(rows, columns, ["truth", *(titles[label] for label in errors)], gap, panel)
    x, y = grid.axes
    bar = {"thickness": 10, "tickfont": {"size": 10}, "exponentformat": "power", "yanchor": "top", "y": 1.0}
    figure.add_heatmap(x=x, y=y, z=truth.T, coloraxis="coloraxis2", row=1, col=1)
    for place, error in enumerate(errors.values(), 1):
        row, column = place // columns + 1, place % columns + 1
        figure.add_heatmap(x=x, y=y, z=error.T, coloraxis="coloraxis", row=row, col=column)
    scales: dict[str, Any] = {
        "coloraxis": {"colorscale": "Inferno", "cmin": 0, "cmax": _top(errors), "colorbar": {**bar, "x": 1.01}},
        "coloraxis2": {"colorscale": "Viridis", "colorbar": {**bar, "x": 1.085}},
    }
    scales["coloraxis"]["colorbar"]["title"], scales["coloraxis2"]["colorbar"]["title"] = "error", "truth"
    figure.update_layout(**scales, margin={"l": 50, "r": 150, "t": 60, "b": 50})
    return figure


def curves_figure(
    grid: Grid, truth: Array, errors: Mapping[str, Array], titles: Mapping[str, str], methods: Mapping[str, str]
) -> go.Figure:
    """Curves: the truth on its own axis, then the errors on a common range."""
    rows, columns = _arranged(len(errors) + 1, (3,))
    figure = _panels(rows, columns, ["truth", *(titles[label] for label in errors)], 0.06, 220)
    x = grid.axes[0]
    figure.add_scatter(x=x, y=truth, line={"color": BLACK}, showlegend=False, row=1, col=1)
    styles = method_styles(methods)
    for place, (label, error) in enumerate(errors.items(), 1):
        row, column = place // columns + 1, place % columns + 1
        line = {"color": styles[label].colour}
        figure.add_scatter(x=x, y=error, line=line, fill="tozeroy", name=label, showlegend=False, row=row, col=column)
        figure.update_yaxes(range=[0, 1.05 * _top(errors)], row=row, col=column)
    figure.update_layout(margin={"l": 60, "r": 20, "t": 60, "b": 50})
    return figure


def _arranged(panels: int, widths: Sequence[int]) -> tuple[int, int]:
    """Rows and columns, with the width that leaves the fewest places empty."""
    columns = min((min(width, panels) for width in widths), key=lambda width: -panels % width)
    return -(-panels // columns), columns


def _top(errors: Mapping[str, Array]) -> float:
    return max(float(error.max()) for error in errors.values()) or 1.0


def _panels(rows: int, columns: int, titles: Sequence[str], gap: float, panel: float) -> go.Figure:
    height = rows * (panel + 60) + 60
    figure = make_subplots(
        rows, columns, subplot_titles=titles, horizontal_spacing=gap, vertical_spacing=70 / height if rows > 1 else 0
    )
    figure.update_annotations(font_size=13)
    figure.update_layout(height=height, **PLAIN)
    return figure
