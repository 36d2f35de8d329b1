"""Figures of functions on grids: a task's input and outputs, and a prediction beside the truth.

Functions of one axis are curves, functions of two are heat maps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mrafno.grids import Array, Grid, resample
from mrafno.plot.style import BLACK, BLUE, GREEN, MARGIN, ORANGE, PAGE_WIDTH, PLAIN
from mrafno.plot.text import mesh_name
from mrafno.tasks.base import Task


def task_figure(task: Task, f: Array, outputs: Sequence[Array]) -> go.Figure:
    """One input ``(in_channels, *finest grid)``, its outputs on every level, and coarsest minus finest.

    Of several channels the last is shown.
    """
    difference = outputs[0] - resample(outputs[-1], task.grids[-1], task.grids[0])
    draw = _curves if len(task.layout) == 1 else _maps
    figure = draw(task, f[-1], [y[-1] for y in outputs], difference[-1])
    figure.update_layout(margin=MARGIN, **PLAIN)
    return figure


def prediction_figure(grid: Grid, f: Array, truth: Array, mean: Array, std: Array, names: Sequence[str]) -> go.Figure:
    """One example's input, truth, prediction with its spread, and error, each an array on the grid."""
    figure = (
        _predicted_curves(grid, f, truth, mean, std) if grid.dim == 1 else _predicted_maps(grid, f, truth, mean, std)
    )
    figure.update_xaxes(title_text=names[0], title_standoff=4)
    if grid.dim == 2:
        figure.update_yaxes(title_text=names[1], title_standoff=2, col=1)
    figure.update_layout(margin=MARGIN, **PLAIN)
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
            # All panels share their axes, and the colour bars need the space.
            figure.update_yaxes(showticklabels=False, row=1, col=column + 1)
    figure.update_annotations(font_size=13)
    figure.update_layout(height=PAGE_WIDTH * (1 - gap * 4) / 5 + MARGIN["t"] + MARGIN["b"])
    return figure


def _curves(task: Task, f: Array, outputs: Sequence[Array], difference: Array) -> go.Figure:
    coarse, fine = task.grids[0], task.grids[-1]
    titles = [task.input_name, task.output_name, f"coarse minus fine, {_mesh_title(coarse)}"]
    figure = make_subplots(1, 3, subplot_titles=titles, horizontal_spacing=0.07)
    figure.add_scatter(x=fine.axes[0], y=f, line={"color": BLACK}, showlegend=False, row=1, col=1)
    colours = [ORANGE, *[GREEN] * (task.levels - 2), BLUE][-task.levels :]
    # The finest line is drawn first, under the markers of the coarser ones.
    for grid, y, colour in reversed(list(zip(task.grids, outputs, colours, strict=True))):
        style = {"mode": "lines"} if grid is fine else {"mode": "lines+markers", "marker": {"size": 5}}
        figure.add_scatter(x=grid.axes[0], y=y, name=_mesh_title(grid), line={"color": colour}, **style, row=1, col=2)
    figure.add_scatter(x=coarse.axes[0], y=difference, line={"color": BLACK}, showlegend=False, row=1, col=3)
    figure.update_xaxes(title_text=task.axis_names[0])
    figure.update_yaxes(title_text="u", title_standoff=4)
    figure.update_layout(height=380, legend={"x": 0.64, "y": 1, "xanchor": "right", "bgcolor": "rgba(255,255,255,0.8)"})
    return figure


def _maps(task: Task, f: Array, outputs: Sequence[Array], difference: Array) -> go.Figure:
    grids = [task.grids[-1], *task.grids, task.grids[0]]
    fields = [f, *outputs, difference]
    titles = [task.input_name, *(f"output, {_mesh_title(grid)}" for grid in task.grids), "coarsest minus finest"]
    gap = 0.07
    figure = make_subplots(1, len(fields), subplot_titles=titles, horizontal_spacing=gap)
    panel = PAGE_WIDTH * (1 - gap * (len(fields) - 1)) / len(fields)
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
    figure.update_layout(height=panel + MARGIN["t"] + MARGIN["b"])
    return figure


def _mesh_title(grid: Grid) -> str:
    return mesh_name(grid.shape) + (" nodes" if grid.dim == 1 else "")
