"""Figures of errors and of how well they are known: error against cost, coverage, calibration."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go

from mrafno.plot.style import BLACK, BLUE, GREEN, GREY, HEIGHT, MARGIN, ORANGE, PURPLE, Style, legend_below, new_figure

_CALIBRATION = tuple(
    {"mode": "lines+markers", "line": {"color": colour}, "marker": {"symbol": symbol, "size": 8}}
    for colour, symbol in zip(
        (BLUE, ORANGE, GREEN, PURPLE, BLACK), ("circle", "square", "diamond", "x", "triangle-up"), strict=True
    )
)


@dataclass(frozen=True)
class Line:
    """Error against cost, of one run or the mean of several with their lowest and highest."""

    name: str
    costs: Sequence[float]
    errors: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    style: Style = field(default_factory=Style)


def error_figure(lines: Sequence[Line], unit: str) -> go.Figure:
    """Error against accumulated cost, with a band from the lowest to the highest of several runs.

    Args:
        unit: of the cost, for the axis title.
    """
    figure = new_figure()
    for line in lines:
        if len(line.low):
            figure.add_scatter(
                x=[*line.costs, *reversed(line.costs)], y=[*line.high, *reversed(line.low)], fill="toself",
                fillcolor=line.style.transparent, line={"width": 0}, mode="lines", legendgroup=line.name,
                showlegend=False, hoverinfo="skip",
            )  # fmt: skip
    for line in lines:
        figure.add_scatter(
            x=list(line.costs), y=list(line.errors), name=line.name, legendgroup=line.name,
            hovertemplate="cost %{x:.4g}, error %{y:.4g}", showlegend=len(lines) > 1, **line.style.scatter(),
        )  # fmt: skip
    # A curve that begins late, after a dear test set for example, would be a vertical line on an axis from zero.
    late = bool(lines) and all(line.costs and line.costs[0] > 0.5 * line.costs[-1] for line in lines)
    figure.update_xaxes(title_text=cost_title(unit), rangemode="normal" if late else "tozero")
    every = [error for line in lines for error in (*line.errors, *line.low, *line.high)]
    figure.update_yaxes(title_text="relative L2 error", **_error_axis(every))
    # On a phone every legend entry has a line of its own.
    legend_below(figure, HEIGHT if len(lines) == 1 else 480 + 16 * len(lines))
    return figure if len(lines) == 1 else _with_cost_buttons(figure, [line.costs[-1] for line in lines if line.costs])


def _with_cost_buttons(figure: go.Figure, ends: Sequence[float]) -> go.Figure:
    """Add buttons for a linear or logarithmic cost axis; logarithmic if final costs differ by more than ten."""
    axes = {"linear cost": ("linear", None), "logarithmic cost": ("log", 1)}
    changes = [{"xaxis.type": kind, "xaxis.dtick": tick} for kind, tick in axes.values()]
    buttons = [
        {"label": label, "method": "relayout", "args": [change]} for label, change in zip(axes, changes, strict=True)
    ]
    separate = 0 < 10 * min(ends, default=0.0) < max(ends, default=0.0)
    if separate:
        figure.update_xaxes(type="log", dtick=1)
    figure.update_layout(updatemenus=[{"name": "Axis", "buttons": buttons, "active": int(separate)}])
    return figure


def add_cost_choices(figure: go.Figure, choices: Mapping[str, Sequence[Sequence[float]]], unit: str) -> go.Figure:
    """Add a list of what the cost axis counts; the first choice is what the figure shows.

    Args:
        choices: the costs of every line, by a name of what they count; only for lines without bands.
    """
    title = cost_title(unit)
    buttons = [
        {"label": name, "method": "update", "args": [{"x": [list(x) for x in costs]}, {"xaxis.title.text": title}]}
        for name, costs in choices.items()
    ]
    menu = {"name": "Cost of", "buttons": buttons, "active": 0}
    figure.update_layout(updatemenus=[*figure.layout.updatemenus, menu])
    return figure


def coverage_figure(costs: Sequence[float], shares: Sequence[float], probability: float, unit: str) -> go.Figure:
    """Share of values inside the central intervals of a probability, against cost."""
    figure = new_figure()
    figure.add_hline(y=probability, line={"color": GREY, "dash": "dot"})
    look = Style().scatter()
    figure.add_scatter(x=list(costs), y=list(shares), hovertemplate="cost %{x:.4g}, %{y:.1%}", name="", **look)
    late = bool(costs) and costs[0] > 0.5 * costs[-1]
    figure.update_xaxes(title_text=cost_title(unit), rangemode="normal" if late else "tozero")
    figure.update_yaxes(title_text=f"share inside {100 * probability:g} % intervals", range=[0, 1.02])
    return legend_below(figure, HEIGHT)


def calibration_figure(covered: Mapping[str, Mapping[str, float]]) -> go.Figure:
    """Observed against stated coverage of central intervals, a line per method: ``{method: {probability: share}}``."""
    figure = new_figure()
    figure.add_scatter(x=[0.5, 1], y=[0.5, 1], line={"color": "#999", "dash": "dot"}, name="perfect")
    for (name, line), style in zip(covered.items(), itertools.cycle(_CALIBRATION), strict=False):
        xs = sorted(line, key=float)
        figure.add_scatter(x=[float(p) for p in xs], y=[line[p] for p in xs], name=name, **style)
    figure.update_xaxes(title_text="probability of the central interval", range=[0.49, 1.0])
    figure.update_yaxes(title_text="share of values inside", range=[0, 1.02])
    figure.update_layout(height=HEIGHT, margin=MARGIN)
    return figure


def cost_title(unit: str) -> str:
    """Title of a cost axis, in two lines where one would not fit a phone."""
    return "accumulated simulation cost" + (" " if len(unit) < 24 else "<br>") + f"({unit})"


def _error_axis(errors: Sequence[float]) -> dict[str, Any]:
    """Logarithmic if the errors differ by a factor of two or more; else from zero, so that small changes look small."""
    low, high = min(errors, default=0.0), max(errors, default=0.0)
    if not 0 < low <= high / 2:
        return {"rangemode": "tozero"}
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    # Plotly would label 2 and 5 without their power of ten.
    few, some, many = (1, 2, 5), (1, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)
    digits = many if high < 4 * low else some if high < 30 * low else few
    ticks = [float(f"{digit:g}e{exponent}") for exponent in exponents for digit in digits]
    ends = [math.log10(low) - 0.05, math.log10(high) + 0.05]
    return {"type": "log", "range": ends, "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
