"""One example as a figure per panel, so that a narrow page can put the panels below one another."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mrafno.grids import Array, Grid
from mrafno.plot.style import BLACK, BLUE, ORANGE

#: Half the width of a 90 % interval, in standard deviations.
_HALF_WIDTH = 1.645
_SHAPE: dict[str, Any] = {"height": 300, "margin": {"l": 55, "r": 15, "t": 10, "b": 45}}


def panels(
    grid: Grid, f: Array, truth: Array | None, mean: Array | None, std: Array | None, names: Sequence[str]
) -> list[tuple[str, Any]]:
    """Headings and figures of the known parts of an example, each an array on the grid."""
    draw = _curves if grid.dim == 1 else _fields
    # Single precision is enough for a picture. Axis names are escaped, because plotly reads markup in them.
    arrays = [None if values is None else values.astype(np.float32) for values in (f, truth, mean, std)]
    pictures = draw(grid, *arrays)
    for _, figure in pictures:
        figure.update_xaxes(title_text=escape(names[0]))
        if grid.dim == 2:
            figure.update_yaxes(title_text=escape(names[1]))
    return pictures


def _curves(grid: Grid, f: Any, truth: Any, mean: Any, std: Any) -> list[tuple[str, Any]]:
    x = grid.axes[0]
    # The legend is below, because a narrow figure needs its width.
    shape = {**_SHAPE, "showlegend": False, "legend": {"orientation": "h", "y": -0.25}}
    source, output, error = (go.Figure(layout=shape) for _ in range(3))
    source.add_scatter(x=x, y=f, mode="lines", line={"color": BLACK}, name="input")
    for figure, centre in ((output, mean), (error, None if mean is None else np.zeros_like(mean))):
        if centre is not None:
            figure.add_scatter(
                x=np.concatenate([x, x[::-1]]), fill="toself", hoverinfo="skip", line={"width": 0}, mode="lines",
                y=np.concatenate([centre + _HALF_WIDTH * std, (centre - _HALF_WIDTH * std)[::-1]]),
                fillcolor="rgba(0,114,178,0.3)", name="90 % interval",
            )  # fmt: skip
    for values, name, line in ((truth, "truth", {"color": BLACK}), (mean, "mean", {"color": BLUE, "dash": "dash"})):
        if values is not None:
            output.add_scatter(x=x, y=values, mode="lines", line=line, name=name)
    output.update_layout(showlegend=True, margin_b=75, height=330)
    pictures = [("input", source)]
    if truth is not None or mean is not None:
        pictures.append(("output: truth, mean and spread" if mean is not None else "output: truth", output))
    if truth is not None and mean is not None:
        error.add_scatter(x=x, y=mean - truth, mode="lines", line={"color": ORANGE}, name="mean minus truth")
        pictures.append(("mean minus truth", error))
    return pictures


def _fields(grid: Grid, f: Any, truth: Any, mean: Any, std: Any) -> list[tuple[str, Any]]:
    outputs = [values for values in (truth, mean) if values is not None]
    shared: dict[str, Any] = {"colorscale": "Viridis"}
    if outputs:
        # Truth and mean share one colour scale.
        shared |= {"zmin": min(float(a.min()) for a in outputs), "zmax": max(float(a.max()) for a in outputs)}
    fields: list[tuple[str, Any, dict[str, Any]]] = [("input", f, {"colorscale": "Cividis"})]
    fields += [(name, a, shared) for name, a in (("truth", truth), ("mean", mean)) if a is not None]
    if std is not None:
        top = float(std.max()) or 1.0
        fields.append(("spread: standard deviation", std, {"colorscale": "Cividis", "zmin": 0, "zmax": top}))
    if truth is not None and mean is not None:
        size = float(np.abs(mean - truth).max()) or 1.0
        # Blue to red through white, with zero in the middle.
        scale = {"colorscale": "RdBu", "reversescale": True, "zmin": -size, "zmax": size}
        fields.append(("mean minus truth", mean - truth, scale))
    x, y = grid.axes
    pictures = []
    for name, field, scale in fields:
        figure = go.Figure(layout=_SHAPE)
        bar = {"thickness": 10, "exponentformat": "power", "tickfont": {"size": 10}}
        figure.add_heatmap(x=x, y=y, z=field.T, colorbar=bar, name="", **scale)
        pictures.append((name, figure))
    return pictures
