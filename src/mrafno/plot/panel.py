"""Panels: curves or a map of functions on grids, drawn side by side in one figure or each in a figure of its own.

A slider goes through the frames of :mod:`mrafno.plot.axes`: every frame has traces of its own, of which those of one
frame are visible. Scales are the same in all frames.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mrafno.grids import Array
from mrafno.plot.axes import Axes, Frame
from mrafno.plot.style import BLACK, MARGIN, PAGE_WIDTH, new_figure

#: Half the width of a 90 % interval, in standard deviations.
HALF_WIDTH = 1.645
#: Height of curves, and largest height of a map, in pixels.
_CURVES, _HIGHEST = 260, 520
_BAND: dict[str, Any] = {
    "fill": "toself", "fillcolor": "rgba(0,114,178,0.3)", "line": {"width": 0}, "mode": "lines", "hoverinfo": "skip",
    "name": "90 % interval",
}  # fmt: skip
_BAR: dict[str, Any] = {"thickness": 10, "exponentformat": "power", "tickfont": {"size": 10}}
#: Below a map, so that its labels take nothing of the map's width, and all maps of a row have one size.
_BAR_BELOW: dict[str, Any] = {
    **_BAR, "orientation": "h", "x": 0.5, "xanchor": "center", "len": 1, "nticks": 4, "yref": "container", "y": 0,
    "yanchor": "bottom", "ypad": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A function ``(channels, *grid)`` in a panel.

    Attributes:
        line: of a curve, as plotly has it.
        std: standard deviations, drawn as a 90 % interval around a curve.
    """

    axes: Axes
    values: Array
    name: str = ""
    line: Mapping[str, Any] = field(default_factory=lambda: {"color": BLACK})
    std: Array | None = None
    mode: str = "lines"
    fill: str | None = None


@dataclass(frozen=True)
class Panel:
    """Curves of several functions, or a map of one.

    Attributes:
        scale: of a map, as plotly's heat maps have it: ``colorscale``, ``zmin``, ``zmax``.
        limits: lowest and highest value of curves; by default those of the values.
        bar: whether a map has a colour bar.
        legend: whether curves have a legend.
    """

    title: str
    layers: tuple[Layer, ...]
    scale: Mapping[str, Any] = field(default_factory=dict)
    limits: tuple[float, float] | None = None
    bar: bool = True
    legend: bool = False

    @property
    def axes(self) -> Axes:
        """Those of its first function."""
        return self.layers[0].axes

    @property
    def is_map(self) -> bool:
        """Whether it is a map."""
        return self.axes.is_map

    def traces(self, frame: Frame) -> list[Any]:
        """What a frame shows."""
        if not self.is_map:
            return [trace for layer in self.layers for trace in _curve(layer, frame, legend=self.legend)]
        layer = self.layers[0]
        x, y = layer.axes.shown
        z = layer.axes.picked(layer.values, frame).astype(np.float32).T
        scale = {**limits(layer.values), **self.scale}
        return [go.Heatmap(x=x, y=y, z=z, name="", showscale=self.bar, **scale)]

    @property
    def span(self) -> tuple[float, float]:
        """Lowest and highest value of its curves, with some room."""
        if self.limits is not None:
            return self.limits
        edges: list[Array] = []
        for layer in self.layers:
            reach = 0.0 if layer.std is None else HALF_WIDTH * layer.std
            edges += [layer.values - reach, layer.values + reach]
        low, high = extent(*edges)
        room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        return low - room, high + room


def extent(*arrays: Array) -> tuple[float, float]:
    """Lowest and highest value of all of these."""
    return min(map(_lowest, arrays), default=0.0), max((-_lowest(-values) for values in arrays), default=0.0)


def limits(*arrays: Array) -> dict[str, float]:
    """One colour scale for all values of these."""
    return dict(zip(("zmin", "zmax"), extent(*arrays), strict=True))


def signed(values: Array) -> dict[str, Any]:
    """Blue to red through white, with zero in the middle."""
    size = extent(np.abs(values))[1] or 1.0
    return {"colorscale": "RdBu", "reversescale": True, "zmin": -size, "zmax": size}


def positive(*arrays: Array) -> dict[str, Any]:
    """From zero to the largest."""
    return {"colorscale": "Cividis", "zmin": 0.0, "zmax": extent(*arrays)[1] or 1.0}


def separate(panels: Sequence[Panel], frames: Sequence[Frame], start: int = 0) -> list[tuple[str, go.Figure]]:
    """Every panel as a figure, which a narrow page can put below one another, with the traces of all frames.

    A map says its height for a width of one in ``meta.ratio``, so that a page can draw it as large as there is space.
    """
    found = []
    # Legends and colour bars are below, because a narrow figure needs its width.
    below = max((45 if panel.legend else 28 if panel.is_map else 0 for panel in panels), default=0)
    for panel in panels:
        figure = new_figure()
        for number, frame in enumerate(frames):
            for trace in panel.traces(frame):
                if panel.is_map:
                    trace.colorbar = _BAR_BELOW
                figure.add_trace(trace.update(visible=number == start))
        _label(figure, panel, None)
        margin = {"l": 55, "r": 15, "t": 10, "b": 45 + below}
        figure.update_layout(height=_height(panel, 340) + below, margin=margin)
        figure.update_layout(showlegend=panel.legend, legend={"orientation": "h", "y": -0.25})
        if panel.is_map:
            figure.update_layout(meta={"ratio": panel.axes.ratio or 1.0})
        found.append((panel.title, figure))
    return found


def side_by_side(panels: Sequence[Panel], frames: Sequence[Frame], start: int = 0, columns: int = 0) -> go.Figure:
    """All panels in one figure, in rows of so many columns (one row by default), with a slider through the frames."""
    columns = columns or len(panels)
    rows, gap = -(-len(panels) // columns), 0.055
    width = PAGE_WIDTH * (1 - gap * (columns - 1)) / columns
    height = max(_height(panel, width) for panel in panels)
    total = rows * height + (rows - 1) * 70
    figure = new_figure(
        rows, columns, subplot_titles=[panel.title for panel in panels], horizontal_spacing=gap,
        vertical_spacing=70 / total if rows > 1 else 0,
    )  # fmt: skip
    owners: list[int] = []
    for place, panel in enumerate(panels):
        where = {"row": place // columns + 1, "col": place % columns + 1}
        axis = figure.get_subplot(*where.values())
        (_, right), (low, high) = axis.xaxis.domain, axis.yaxis.domain
        for number, frame in enumerate(frames):
            for trace in panel.traces(frame):
                if panel.is_map:
                    bar = {"x": right + 0.003, "xanchor": "left", "y": (low + high) / 2, "len": high - low}
                    trace.colorbar = {**_BAR, **bar, "thickness": 9, "tickfont": {"size": 9}}
                figure.add_trace(trace.update(visible=number == start), **where)
                owners.append(number)
        _label(figure, panel, where)
        if panel.is_map and where["col"] > 1:
            # Panels of one row share their second axis, and the colour bars need the space.
            figure.update_yaxes(showticklabels=False, title_text="", **where)
    figure.update_annotations(font_size=13)
    bottom = MARGIN["b"] + (80 if len(frames) > 1 else 30 if any(panel.legend for panel in panels) else 0)
    figure.update_layout(height=total + MARGIN["t"] + bottom, margin={**MARGIN, "b": bottom})
    figure.update_layout(legend={"orientation": "h", "x": 0.5, "xanchor": "center", "y": -0.2})
    if len(frames) > 1:
        figure.update_layout(sliders=[_slider(frames, start, owners)])
    return figure


def _slider(frames: Sequence[Frame], start: int, owners: Sequence[int]) -> dict[str, Any]:
    """A slider that shows the traces of one frame; ``owners`` are the frames of the traces."""
    steps = [
        {"label": frame.label, "method": "restyle", "args": [{"visible": [owner == number for owner in owners]}]}
        for number, frame in enumerate(frames)
    ]
    # The labels of the steps would overlap: only that of the current one is shown.
    said = {"prefix": "", "xanchor": "left", "font": {"size": 13}}
    look = {"currentvalue": said, "ticklen": 0, "minorticklen": 0, "font": {"size": 1}}
    return {"active": start, "steps": steps, "pad": {"t": 40, "b": 0}, **look}


def _label(figure: go.Figure, panel: Panel, where: Mapping[str, int] | None) -> None:
    """Titles of the axes; maps are drawn to scale where their axes can be."""
    here: dict[str, Any] = dict(where or {})
    labels = panel.axes.labels
    figure.update_xaxes(title_text=labels[0], title_standoff=4, **here)
    if not panel.is_map:
        figure.update_yaxes(range=list(panel.span), **here)
        return
    figure.update_yaxes(title_text=labels[1], title_standoff=2, **here)
    if panel.axes.ratio is not None:
        anchor = figure.get_subplot(*here.values()).xaxis.plotly_name if here else "xaxis"
        figure.update_yaxes(scaleanchor=anchor.replace("axis", ""), constrain="domain", **here)
        figure.update_xaxes(constrain="domain", **here)


def _height(panel: Panel, width: float) -> float:
    if not panel.is_map:
        return _CURVES
    return float(min(max(width * (panel.axes.ratio or 1.0), 120), _HIGHEST))


def _curve(layer: Layer, frame: Frame, *, legend: bool) -> list[Any]:
    (x,) = layer.axes.shown
    y = layer.axes.picked(layer.values, frame)
    found = []
    if layer.std is not None:
        reach = HALF_WIDTH * layer.axes.picked(layer.std, frame)
        around = {"x": np.concatenate([x, x[::-1]]), "y": np.concatenate([y + reach, (y - reach)[::-1]])}
        found.append(go.Scatter(**around, **_BAND, showlegend=legend))
    look: dict[str, Any] = {"mode": layer.mode, "line": dict(layer.line), "fill": layer.fill}
    if "markers" in layer.mode:
        look["marker"] = {"size": 5}
    found.append(go.Scatter(x=x, y=y, name=layer.name, showlegend=legend and bool(layer.name), **look))
    return found


def _lowest(values: Array) -> float:
    return float(values.min()) if values.size else 0.0
