"""Pictures for people: plotly figures, and pages of them that need no network."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mrafno.grids import Array, Grid, resample
from mrafno.tasks.base import Task

# Okabe and Ito's colours keep apart for every kind of colour vision.
BLUE, ORANGE, GREEN, BLACK = "#0072B2", "#D55E00", "#009E73", "#222222"
_STYLES = tuple(
    {"mode": "lines+markers", "line": {"color": colour}, "marker": {"symbol": symbol, "size": 8}}
    for colour, symbol in zip(
        (BLUE, ORANGE, GREEN, "#CC79A7", BLACK), ("circle", "square", "diamond", "x", "triangle-up"), strict=True
    )
)
_MARGIN = {"l": 60, "r": 20, "t": 64, "b": 50}  # above, room for plotly's buttons
_WIDTH = 1180  # of the panels on a full page, from which their height follows

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1320px; margin: 2rem auto; padding: 0 1rem; }}
  body {{ overflow-wrap: anywhere; }}
  h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.25rem; padding-top: 2.2rem; margin: 0 0 0.2rem; }}
  h2 a {{ padding: 0 0.3rem; color: #767676; font-weight: normal; text-decoration: none; }}
  p {{ max-width: 60rem; margin: 0.2rem 0 0.6rem; }}
  .figure {{ max-width: 900px; }} .wide, .table {{ overflow-x: auto; }}
  table {{ border-collapse: collapse; white-space: nowrap; }}
  td span {{ display: block; min-width: 16rem; max-width: 40rem; white-space: normal; text-align: left; }}
  td img, td svg {{ display: block; width: 72px; height: 72px; image-rendering: pixelated; margin-left: auto; }}
  th, td {{ padding: 0.3rem 0.8rem; text-align: right; border-bottom: 1px solid #ddd; }}
  th:first-child, td:first-child, .facts :is(th, td) {{ text-align: left; }} th {{ border-bottom: 2px solid #444; }}
  .facts td:last-child {{ white-space: normal; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{lead}</p>
{sections}
{script}</body>
</html>
"""

#: On a phone what an axis says in brackets goes to a line of its own, because it would be cut off.
_NARROW = """<script>
for (const plot of document.querySelectorAll(".figure .plotly-graph-div")) {
  const said = plot.layout?.xaxis?.title?.text;
  if (said && plot.clientWidth < 480) {
    Plotly.relayout(plot, { "xaxis.title.text": said.replace(" (", "<br>("), "xaxis.automargin": true });
  }
}
</script>
"""


def task_figure(task: Task, f: Array, outputs: Sequence[Array]) -> go.Figure:
    """One input ``(in_channels, *finest grid)``, its outputs on every level, and coarsest minus finest.

    Of several channels the last is shown.
    """
    difference = outputs[0] - resample(outputs[-1], task.grids[-1], task.grids[0])
    draw = _curves if len(task.layout) == 1 else _maps
    figure = draw(task, f[-1], [y[-1] for y in outputs], difference[-1])
    figure.update_layout(margin=_MARGIN, template="plotly_white", font={"color": BLACK})
    return figure


@dataclass(frozen=True)
class Html:
    """Markup that goes into a page or a table as it is; whoever makes one has escaped what is not his own."""

    markup: str


#: A table: the heading row, then the others.
Cells = Sequence[Sequence[str]]
MarkupCells = Sequence[Sequence[str | Html]]
#: A heading, a sentence, and what it is about, if there is anything.
Section = tuple[str, str, go.Figure | Cells | MarkupCells | None]


def prose(text: str) -> Html:
    """Text for a cell that is longer than a few words."""
    return Html(f"<span>{escape(text)}</span>")


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """One HTML file with everything in it; headings can be linked to, by the names of :func:`anchors`."""
    parts = []
    drawn = 0
    names = anchors([heading for heading, _, _ in sections])
    for name, (heading, text, content) in zip(names, sections, strict=True):
        if isinstance(content, go.Figure):
            html = _html_figure(content, first=drawn == 0)
            drawn += 1
        else:
            html = "" if content is None else _html_table(content)
        link = f'<a href="#{name}" aria-label="link to {escape(heading)}">#</a>'
        head = f"<h2>{escape(heading)}{link}</h2>"
        parts.append(f'<section id="{name}">{head}\n<p>{escape(text)}</p>\n{html}</section>')
    path.parent.mkdir(parents=True, exist_ok=True)
    script = _NARROW if drawn else ""
    page = _PAGE.format(title=escape(title), lead=escape(lead), sections="\n".join(parts), script=script)
    path.write_text(page, encoding="utf-8")


def anchors(headings: Sequence[str]) -> list[str]:
    """Headings as parts of an address or names of files, each only once."""
    found: list[str] = []
    for heading in headings:
        name = re.sub("[^a-z0-9]+", "-", heading.lower()).strip("-") or "section"
        same = (name if i == 1 else f"{name}-{i}" for i in itertools.count(1))
        found.append(next(one for one in same if one not in found))
    return found


def _html_figure(figure: go.Figure, *, first: bool) -> str:
    """A figure that follows the page's width; panels side by side stay legible on a phone in a box of their own."""
    config = {"displaylogo": False, "responsive": True}
    html = figure.to_html(full_html=False, include_plotlyjs=first, config=config)
    if columns(figure) < 2:
        return f'<div class="figure">{html}</div>'
    return f'<div class="wide"><div style="min-width: {240 * columns(figure)}px">{html}</div></div>'


def columns(figure: go.Figure) -> int:
    """How many panels a figure has side by side."""
    return len({axis.domain for axis in figure.select_xaxes()})


def _html_table(cells: MarkupCells) -> str:
    head, *body = cells
    rows = ["<tr>" + "".join(f"<th>{_html_cell(c)}</th>" for c in head) + "</tr>"]
    rows += ["<tr>" + "".join(f"<td>{_html_cell(c)}</td>" for c in row) + "</tr>" for row in body]
    kind = ' class="facts"' if len(head) == 2 else ""  # names and what they are, not figures in columns
    return f'<div class="table"><table{kind}>' + "\n".join(rows) + "</table></div>"


def _html_cell(cell: str | Html) -> str:
    return cell.markup if isinstance(cell, Html) else escape(cell)


def prediction_figure(grid: Grid, f: Array, truth: Array, mean: Array, std: Array, names: Sequence[str]) -> go.Figure:
    """One example's input, truth, prediction with its spread, and error, each an array on the grid."""
    figure = (
        _predicted_curves(grid, f, truth, mean, std) if grid.dim == 1 else _predicted_maps(grid, f, truth, mean, std)
    )
    figure.update_xaxes(title_text=names[0], title_standoff=4)
    if grid.dim == 2:
        figure.update_yaxes(title_text=names[1], title_standoff=2, col=1)
    figure.update_layout(margin=_MARGIN, template="plotly_white", font={"color": BLACK})
    return figure


def _predicted_curves(grid: Grid, f: Array, truth: Array, mean: Array, std: Array) -> go.Figure:
    figure = make_subplots(1, 3, subplot_titles=["input", "output", "prediction minus truth"], horizontal_spacing=0.07)
    x = grid.axes[0]
    figure.add_scatter(x=x, y=f, line={"color": BLACK}, showlegend=False, row=1, col=1)
    for column, centre in ((2, mean), (3, np.zeros_like(mean))):
        reach = 1.645 * std
        figure.add_scatter(
            x=np.concatenate([x, x[::-1]]), y=np.concatenate([centre + reach, (centre - reach)[::-1]]), fill="toself",
            fillcolor="rgba(0,114,178,0.25)", line={"width": 0}, name="90 % interval", showlegend=column == 2,
            hoverinfo="skip", row=1, col=column,
        )  # fmt: skip
    figure.add_scatter(x=x, y=truth, line={"color": BLACK}, name="truth", row=1, col=2)
    figure.add_scatter(x=x, y=mean, line={"color": BLUE, "dash": "dash"}, name="prediction", row=1, col=2)
    figure.add_scatter(x=x, y=mean - truth, line={"color": ORANGE}, showlegend=False, row=1, col=3)
    figure.update_layout(height=400, legend={"orientation": "h", "x": 0.5, "xanchor": "center", "y": -0.2})
    return figure


def _predicted_maps(grid: Grid, f: Array, truth: Array, mean: Array, std: Array) -> go.Figure:
    error = mean - truth
    low, high = min(float(truth.min()), float(mean.min())), max(float(truth.max()), float(mean.max()))
    size = float(np.abs(error).max()) or 1.0
    shared: dict[str, Any] = {"colorscale": "Viridis", "zmin": low, "zmax": high}
    fields: list[tuple[str, Array, dict[str, Any]]] = [
        ("input", f, {"colorscale": "Cividis"}),
        ("truth", truth, shared),
        ("prediction", mean, shared),
        ("prediction minus truth", error, {"colorscale": "RdBu", "reversescale": True, "zmin": -size, "zmax": size}),
        ("standard deviation", std, {"colorscale": "Cividis", "zmin": 0, "zmax": float(std.max()) or 1.0}),
    ]
    gap = 0.055
    figure = make_subplots(1, len(fields), subplot_titles=[title for title, _, _ in fields], horizontal_spacing=gap)
    for column, (_, field, scale) in enumerate(fields):
        right = figure.get_subplot(1, column + 1).xaxis.domain[1]
        bar = {"x": right + 0.003, "xanchor": "left", "thickness": 9, "len": 1.0, "tickfont": {"size": 9}}
        x, y = grid.axes
        figure.add_heatmap(
            x=x, y=y, z=field.T, **scale, colorbar={**bar, "exponentformat": "power"}, showscale=column != 1,
            row=1, col=column + 1,
        )  # fmt: skip
        if column:
            # All have the same axes, and the numbers of the colours need the room.
            figure.update_yaxes(showticklabels=False, row=1, col=column + 1)
    figure.update_annotations(font_size=13)
    figure.update_layout(height=_WIDTH * (1 - gap * 4) / 5 + _MARGIN["t"] + _MARGIN["b"])
    return figure


def calibration_figure(covered: Mapping[str, Mapping[str, float]]) -> go.Figure:
    """Observed against stated coverage of central intervals, a line per method: ``{method: {probability: share}}``."""
    figure = go.Figure()
    figure.add_scatter(x=[0.5, 1], y=[0.5, 1], line={"color": "#999", "dash": "dot"}, name="perfect")
    for (name, line), style in zip(covered.items(), itertools.cycle(_STYLES), strict=False):
        xs = sorted(line, key=float)
        figure.add_scatter(x=[float(p) for p in xs], y=[line[p] for p in xs], name=name, **style)
    figure.update_xaxes(title_text="probability of the central interval", range=[0.49, 1.0])
    figure.update_yaxes(title_text="share of values inside", range=[0, 1.02])
    figure.update_layout(height=420, margin=_MARGIN, template="plotly_white", font={"color": BLACK})
    return figure


def bars_figure(names: Sequence[str], series: Mapping[str, Sequence[tuple[float, float]]], axis: str) -> go.Figure:
    """Groups of bars with error bars: ``{series: [(mean, deviation) per name]}``."""
    figure = go.Figure()
    for (name, values), colour in zip(series.items(), (BLUE, ORANGE, GREEN), strict=False):
        figure.add_bar(
            x=list(names), y=[v for v, _ in values], name=name, marker_color=colour,
            error_y={"type": "data", "array": [d for _, d in values], "visible": any(d for _, d in values)},
        )  # fmt: skip
    figure.update_yaxes(title_text=axis, rangemode="tozero")
    figure.update_layout(height=380, margin=_MARGIN, template="plotly_white", font={"color": BLACK})
    return figure


def _mesh(grid: Grid) -> str:
    return "x".join(map(str, grid.shape)) + (" nodes" if grid.dim == 1 else "")


def _curves(task: Task, f: Array, outputs: Sequence[Array], difference: Array) -> go.Figure:
    coarse, fine = task.grids[0], task.grids[-1]
    titles = [task.input_name, task.output_name, f"coarse minus fine, {_mesh(coarse)}"]
    figure = make_subplots(1, 3, subplot_titles=titles, horizontal_spacing=0.07)
    figure.add_scatter(x=fine.axes[0], y=f, line={"color": BLACK}, showlegend=False, row=1, col=1)
    colours = [ORANGE, *[GREEN] * (task.levels - 2), BLUE][-task.levels :]
    # The finest line lies under the coarser ones' markers.
    for grid, y, colour in reversed(list(zip(task.grids, outputs, colours, strict=True))):
        style = {"mode": "lines"} if grid is fine else {"mode": "lines+markers", "marker": {"size": 5}}
        figure.add_scatter(x=grid.axes[0], y=y, name=_mesh(grid), line={"color": colour}, **style, row=1, col=2)
    figure.add_scatter(x=coarse.axes[0], y=difference, line={"color": BLACK}, showlegend=False, row=1, col=3)
    figure.update_xaxes(title_text=task.axis_names[0])
    figure.update_yaxes(title_text="u", title_standoff=4)
    figure.update_layout(height=380, legend={"x": 0.64, "y": 1, "xanchor": "right", "bgcolor": "rgba(255,255,255,0.8)"})
    return figure


def _maps(task: Task, f: Array, outputs: Sequence[Array], difference: Array) -> go.Figure:
    grids = [task.grids[-1], *task.grids, task.grids[0]]
    fields = [f, *outputs, difference]
    titles = [task.input_name, *(f"output, {_mesh(grid)}" for grid in task.grids), "coarsest minus finest"]
    gap = 0.07
    figure = make_subplots(1, len(fields), subplot_titles=titles, horizontal_spacing=gap)
    panel = _WIDTH * (1 - gap * (len(fields) - 1)) / len(fields)
    low, high = min(float(y.min()) for y in outputs), max(float(y.max()) for y in outputs)
    size = float(np.abs(difference).max()) or 1.0
    last = len(fields) - 1
    for column, (grid, field) in enumerate(zip(grids, fields, strict=True)):
        scale: dict[str, Any] = {"colorscale": "Cividis"}
        if column == last:
            # Blue to red through white, with zero in the middle.
            scale = {"colorscale": "RdBu", "reversescale": True, "zmin": -size, "zmax": size}
        elif column:
            scale = {"colorscale": "Viridis", "zmin": low, "zmax": high}
        right = figure.get_subplot(1, column + 1).xaxis.domain[1]
        # The outputs share one scale, so the last of them shows its bar for all.
        bar = {"x": right + 0.003, "xanchor": "left", "thickness": 10, "len": 1.0, "tickfont": {"size": 10}}
        bar["exponentformat"] = "power"
        x, y = grid.axes
        figure.add_heatmap(
            x=x, y=y, z=field.T, **scale, colorbar=bar, showscale=column in (0, last - 1, last), row=1, col=column + 1
        )
    figure.update_xaxes(title_text=task.axis_names[0], title_standoff=4)
    figure.update_yaxes(title_text=task.axis_names[1], title_standoff=2, col=1)
    figure.update_annotations(font_size=13)
    figure.update_layout(height=panel + _MARGIN["t"] + _MARGIN["b"])
    return figure
