"""Bar charts: groups with error bars, queries per mesh, seconds."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from mrafno.plot.style import BLUE, GREEN, HEIGHT, MARGIN, ORANGE, legend_below, level_styles, new_figure
from mrafno.plot.text import duration


def bars_figure(names: Sequence[str], series: Mapping[str, Sequence[tuple[float, float]]], axis: str) -> go.Figure:
    """Groups of bars with error bars: ``{series: [(mean, deviation) per name]}``."""
    figure = new_figure()
    for (name, values), colour in zip(series.items(), (BLUE, ORANGE, GREEN), strict=False):
        figure.add_bar(
            x=list(names), y=[v for v, _ in values], name=name, marker_color=colour,
            error_y={"type": "data", "array": [d for _, d in values], "visible": any(d for _, d in values)},
        )  # fmt: skip
    figure.update_yaxes(title_text=axis, rangemode="tozero")
    figure.update_layout(height=380, margin=MARGIN)
    return figure


def mixture_figure(names: Sequence[str], counts: Sequence[Sequence[float]], meshes: Sequence[str]) -> go.Figure:
    """Queries of each mesh per run, a bar for each name: ``counts[name][level]``."""
    figure = new_figure()
    for level, (mesh, style) in enumerate(zip(meshes, level_styles(len(meshes)), strict=True)):
        figure.add_bar(
            x=[row[level] for row in counts], y=list(names), orientation="h", name=mesh,
            marker=style.bar(level), showlegend=True,
            hovertemplate="%{x:.4g} queries",
        )  # fmt: skip
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title_text="queries, mean per run", rangemode="tozero")
    return legend_below(figure, 160 + 40 * len(names))


def time_figure(seconds: Mapping[str, float]) -> go.Figure:
    """Seconds by activity, written into the bars or beside them, where there is space."""
    figure = new_figure()
    figure.add_bar(
        x=list(seconds.values()), y=list(seconds), orientation="h", marker_color=BLUE, name="", cliponaxis=False,
        text=[duration(value) for value in seconds.values()], textposition="auto",
        hovertemplate="%{y}: %{x:.3g} s",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", title_text="")
    figure.update_xaxes(title_text="seconds", range=[0, 1.05 * max(*seconds.values(), 1e-3)])
    return legend_below(figure, HEIGHT)
