"""Figures about runs: pure functions of plain numbers. What the numbers are is the business of who asks.

Colours are Okabe and Ito's, and no line is told apart by its colour alone: each has a dash and a marker of its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mrafno.plot.figures import BLACK, BLUE, GREEN, ORANGE

SKY, PURPLE, AMBER, GREY = "#56B4E9", "#CC79A7", "#E69F00", "#767676"
_MARKERS = (
    "circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down", "hexagon", "pentagon",
    "hourglass",
)  # fmt: skip
#: Colour and dash of every method; relatives share a colour.
_METHODS: dict[str, tuple[str, str]] = {
    "mra-uhat": (BLUE, "solid"),
    "mra-auto": (ORANGE, "solid"),
    "mra-u": (GREEN, "solid"),
    "mr-predvar": (PURPLE, "solid"),
    "mr-dropout": (AMBER, "solid"),
    "random-mix": (BLACK, "solid"),
    "random-high": (BLACK, "dash"),
    "random-low": (BLACK, "dot"),
    "coreset-mix": (SKY, "solid"),
    "coreset-high": (SKY, "dash"),
    "coreset-low": (SKY, "dot"),
}


@dataclass(frozen=True)
class Style:
    """How a line looks."""

    colour: str = BLUE
    dash: str = "solid"
    marker: str = "circle"

    def scatter(self) -> dict[str, Any]:
        """As arguments of a scatter trace."""
        return {
            "mode": "lines+markers",
            "line": {"color": self.colour, "dash": self.dash},
            "marker": {"symbol": self.marker, "size": 7},
        }

    @property
    def veil(self) -> str:
        """The colour, to see through."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},0.18)"


_STYLES: dict[str, Style] = {
    name: Style(*look, marker) for (name, look), marker in zip(_METHODS.items(), _MARKERS, strict=True)
}


@dataclass(frozen=True)
class Line:
    """Error against cost, of one run or in the middle of several; those have a lowest and a highest."""

    name: str
    costs: Sequence[float]
    errors: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    style: Style = field(default_factory=Style)


def method_styles(methods: Mapping[str, str]) -> dict[str, Style]:
    """A style for every label, by its method: a method looks the same on every page, as long as it has one label."""
    chosen: dict[str, Style] = {}
    for label, method in methods.items():
        style = _STYLES.get(method)
        if style is None or style in chosen.values():
            # A method that comes again, or that nobody knows, takes a look that no other method here wants.
            taken = {*chosen.values(), *(_STYLES.get(other) for other in methods.values())}
            style = next((one for one in _STYLES.values() if one not in taken), style or Style())
        chosen[label] = style
    return chosen


def error_figure(lines: Sequence[Line], unit: str) -> go.Figure:
    """Error against accumulated cost; over several runs the lowest and the highest bound a band.

    Args:
        unit: what one of the cost is.
    """
    figure = go.Figure()
    for line in lines:
        if len(line.low):
            figure.add_scatter(
                x=[*line.costs, *reversed(line.costs)], y=[*line.high, *reversed(line.low)], fill="toself",
                fillcolor=line.style.veil, line={"width": 0}, mode="lines", legendgroup=line.name, showlegend=False,
                hoverinfo="skip",
            )  # fmt: skip
    for line in lines:
        figure.add_scatter(
            x=list(line.costs), y=list(line.errors), name=line.name, legendgroup=line.name,
            hovertemplate="cost %{x:.4g}, error %{y:.4g}", showlegend=len(lines) > 1, **line.style.scatter(),
        )  # fmt: skip
    figure.update_xaxes(title_text=_cost_title(unit), rangemode="tozero")
    every = [error for line in lines for error in (*line.errors, *line.low, *line.high)]
    figure.update_yaxes(title_text="relative L2 error", **_error_axis(every))
    # A phone shows the legend one line below the other.
    _finished(figure, 460 if len(lines) == 1 else 480 + 16 * len(lines))
    return figure if len(lines) == 1 else _with_cost_buttons(figure, [line.costs[-1] for line in lines if line.costs])


def _with_cost_buttons(figure: go.Figure, ends: Sequence[float]) -> go.Figure:
    """Cheap methods may be over before dear ones begin, then a logarithmic axis is better; cost 0 is beyond its end."""
    axes = {"linear cost": ("linear", None), "logarithmic cost": ("log", 1)}
    changes = [{"xaxis.type": kind, "xaxis.dtick": tick} for kind, tick in axes.values()]
    buttons = [
        {"label": label, "method": "relayout", "args": [change]} for label, change in zip(axes, changes, strict=True)
    ]
    separate = 0 < 10 * min(ends, default=0.0) < max(ends, default=0.0)
    if separate:
        figure.update_xaxes(type="log", dtick=1)
    place = {"x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "pad": {"b": 6}, "active": int(separate)}
    # Room for plotly's own buttons above.
    menu = {"buttons": buttons, "type": "buttons", "direction": "right", **place}
    figure.update_layout(updatemenus=[menu], margin_t=84)
    return figure


def counts_figure(counts: Sequence[Sequence[int]], meshes: Sequence[str]) -> go.Figure:
    """How many queries each mesh has had after each step: ``counts[level][step]``, steps from 0."""
    figure = go.Figure()
    for line, mesh, style in zip(counts, meshes, level_styles(len(meshes)), strict=True):
        shown = {**style.scatter(), "mode": "lines", "line": {"color": style.colour, "dash": style.dash, "shape": "hv"}}
        figure.add_scatter(x=list(range(len(line))), y=list(line), name=mesh, showlegend=True, **shown)
    figure.update_xaxes(**_step_axis(len(counts[0]) - 1))
    figure.update_yaxes(title_text="queries so far", rangemode="tozero")
    return _finished(figure, 380)


def schedule_figure(
    steps: Sequence[int], weights: Sequence[Sequence[float]], true: Sequence[float], meshes: Sequence[str]
) -> go.Figure:
    """What a solve on each mesh counts at each step, ``weights[step][level]``, and in the end, ``true[level]``."""
    figure = go.Figure()
    for level, (mesh, style) in enumerate(zip(meshes, level_styles(len(meshes)), strict=True)):
        look = {**style.scatter(), "mode": "lines"}
        figure.add_scatter(x=list(steps), y=[row[level] for row in weights], name=mesh, showlegend=True, **look)
        figure.add_hline(y=true[level], line={"color": style.colour, "dash": "dot", "width": 1})
    figure.update_xaxes(**_step_axis(max(steps)))
    figure.update_yaxes(title_text="weight of one solve's cost", range=[0, 1.02])
    return _finished(figure, 380)


def utility_figure(
    steps: Sequence[int],
    best: Sequence[Sequence[float | None]],
    chosen: Sequence[int],
    meshes: Sequence[str],
    axis: str,
    costs: Sequence[Sequence[float]] | None = None,
) -> go.Figure:
    """The best utility of each mesh at each step, ``best[step][level]``, filled markers where that mesh was chosen.

    Args:
        axis: what the utility is.
        costs: with them, ``[step][level]``, a second panel has utilities divided by costs, by which was chosen.
    """
    panels = [(axis, best)]
    if costs is not None:
        divided = [
            [None if u is None else u / c for u, c in zip(row, line, strict=True)]
            for row, line in zip(best, costs, strict=True)
        ]
        panels.append(("the same per scheduled cost", divided))
    figure = make_subplots(len(panels), 1, shared_xaxes=True, vertical_spacing=0.08)
    for row, (title, values) in enumerate(panels, 1):
        for level, (mesh, style) in enumerate(zip(meshes, level_styles(len(meshes)), strict=True)):
            look = style.scatter()
            # A marker that is filled was chosen; the others are rings, or left out where they would be too many.
            mark: dict[str, Any] = {
                "symbol": [style.marker + ("" if c == level else "-open") for c in chosen],
                "size": 7,
            }
            if len(steps) >= 100:
                sizes = [4 if c == level else 0 for c in chosen]
                mark = {"symbol": style.marker, "size": sizes, "opacity": 1, "line_width": 0}
            look["marker"] = {**mark, "color": style.colour}
            figure.add_scatter(
                x=list(steps), y=[line[level] for line in values], name=mesh, legendgroup=mesh,
                showlegend=row == 1, row=row, col=1, **look,
            )  # fmt: skip
        figure.update_yaxes(title_text=title, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(**{**_step_axis(max(steps)), "title_text": ""})
    figure.update_xaxes(title_text="step", row=len(panels), col=1)
    return _finished(figure, 360 if len(panels) == 1 else 600)


def coverage_figure(costs: Sequence[float], shares: Sequence[float], probability: float, unit: str) -> go.Figure:
    """The share of values inside the central intervals of a probability, as the cost grows."""
    figure = go.Figure()
    figure.add_hline(y=probability, line={"color": GREY, "dash": "dot"})
    look = Style().scatter()
    figure.add_scatter(x=list(costs), y=list(shares), hovertemplate="cost %{x:.4g}, %{y:.1%}", name="", **look)
    figure.update_xaxes(title_text=_cost_title(unit), rangemode="tozero")
    figure.update_yaxes(title_text=f"share inside {100 * probability:g} % intervals", range=[0, 1.02])
    return _finished(figure, 360)


def time_figure(seconds: Mapping[str, float]) -> go.Figure:
    """Seconds by what they were spent on."""
    figure = go.Figure()
    figure.add_bar(
        x=list(seconds.values()), y=list(seconds), orientation="h", marker_color=BLUE, name="", cliponaxis=False,
        text=[duration(value) for value in seconds.values()], textposition="outside",
        hovertemplate="%{y}: %{x:.3g} s",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", title_text="")
    # Room for the text beside the longest bar.
    figure.update_xaxes(title_text="seconds", range=[0, 1.2 * max(*seconds.values(), 1e-3)])
    return _finished(figure, 120 + 44 * len(seconds))


def mixture_figure(names: Sequence[str], counts: Sequence[Sequence[float]], meshes: Sequence[str]) -> go.Figure:
    """Queries of each mesh per run, a bar for each name: ``counts[name][level]``."""
    figure = go.Figure()
    for level, (mesh, style) in enumerate(zip(meshes, level_styles(len(meshes)), strict=True)):
        # Patterns for those who see no colours.
        pattern = ("", "/", "x", ".", "+", "|")[level % 6]
        figure.add_bar(
            x=[row[level] for row in counts], y=list(names), orientation="h", name=mesh,
            marker={"color": style.colour, "pattern": {"shape": pattern, "fgcolor": "white"}}, showlegend=True,
            hovertemplate="%{x:.4g} queries",
        )  # fmt: skip
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title_text="queries, mean per run", rangemode="tozero")
    return _finished(figure, 160 + 40 * len(names))


def level_styles(levels: int) -> list[Style]:
    """Styles of meshes, coarse to fine; the coarsest and the finest look the same whatever is between them."""
    between = [Style(c, d, m) for c, d, m in ((GREEN, "dash", "diamond"), (PURPLE, "dot", "x"), (SKY, "dash", "star"))]
    middle = [between[i % len(between)] for i in range(levels - 2)]
    return [Style(ORANGE, "dashdot", "square"), *middle, Style(BLUE, "solid", "circle")][-levels:]


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{seconds / 60:.1f} min" if minutes < 10 else f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _step_axis(last: int) -> dict[str, Any]:
    """Steps are whole numbers."""
    return {"title_text": "step", "range": [0, max(last, 1) * 1.03], "dtick": 1 if last < 12 else None}


def _cost_title(unit: str) -> str:
    """In two lines where one would not fit on a phone."""
    return "accumulated simulation cost" + (" " if len(unit) < 24 else "<br>") + f"({unit})"


def _error_axis(errors: Sequence[float]) -> dict[str, Any]:
    """Logarithmic if the errors differ enough to need it; else from zero, so that small changes look small."""
    low, high = min(errors, default=0.0), max(errors, default=0.0)
    if not 0 < low <= high / 2:
        return {"rangemode": "tozero"}
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    # Plotly would write 2 and 5 without their power of ten.
    few, some, many = (1, 2, 5), (1, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)
    digits = many if high < 4 * low else some if high < 30 * low else few
    ticks = [float(f"{digit:g}e{exponent}") for exponent in exponents for digit in digits]
    ends = [math.log10(low) - 0.05, math.log10(high) + 0.05]
    return {"type": "log", "range": ends, "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def _finished(figure: go.Figure, height: int) -> go.Figure:
    """What all have: the legend below, since beside the figure it would leave a phone nothing."""
    figure.update_layout(
        height=height, template="plotly_white", font={"color": BLACK}, margin={"l": 60, "r": 20, "t": 40, "b": 50},
        legend={"orientation": "h", "yref": "container", "y": 0.01, "yanchor": "bottom", "traceorder": "normal"},
    )  # fmt: skip
    return figure
