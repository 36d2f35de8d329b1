"""Colours and line styles that all figures share, so that a method or a mesh looks the same everywhere.

Colours are Okabe and Ito's, which every kind of colour vision can tell apart; lines also differ in dash and marker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

BLUE, ORANGE, GREEN, BLACK = "#0072B2", "#D55E00", "#009E73", "#222222"
SKY, PURPLE, AMBER, GREY = "#56B4E9", "#CC79A7", "#E69F00", "#767676"
_MARKERS = (
    "circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down", "hexagon", "pentagon",
    "hourglass", "octagon", "hexagram", "star-square",
)  # fmt: skip
#: Colour and dash of every method; related methods share a colour.
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
    "lcmd-mix": (GREY, "solid"),
    "lcmd-high": (GREY, "dash"),
    "lcmd-low": (GREY, "dot"),
}
#: Fill patterns of bars, by level.
_PATTERNS = ("", "/", "x", ".", "+", "|")
#: Height of figures that stand beside others, and margins of those with panels; the top has room for plotly's buttons.
HEIGHT = 400
MARGIN = {"l": 60, "r": 20, "t": 64, "b": 50}
#: Width in pixels of a row of panels on a full page, from which their height follows.
PAGE_WIDTH = 1180
_AXIS = {
    "gridcolor": "#dfe3ea", "linecolor": "#dfe3ea", "zerolinecolor": "#dfe3ea", "automargin": True, "ticks": "",
    "title": {"standoff": 10},
}  # fmt: skip
#: How figures look where no page sets colours. Plotly checks and copies the template of every figure: its own, which
#: are long, take half of the time in which a figure is made.
_TEMPLATE = {
    "layout": {
        "paper_bgcolor": "white", "plot_bgcolor": "white", "hovermode": "closest", "colorway": [BLUE, ORANGE, GREEN],
        "xaxis": _AXIS, "yaxis": _AXIS,
    },
    "data": {"heatmap": [{"colorbar": {"outlinewidth": 0, "ticks": ""}}]},
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """Colour, dash and marker of a line."""

    colour: str = BLUE
    dash: str = "solid"
    marker: str = "circle"

    def scatter(self) -> dict[str, Any]:
        """Arguments of a scatter trace."""
        return {
            "mode": "lines+markers",
            "line": {"color": self.colour, "dash": self.dash},
            "marker": {"symbol": self.marker, "size": 7},
        }

    def bar(self, level: int) -> dict[str, Any]:
        """Marker of a bar trace; a pattern tells the levels apart without colours."""
        pattern = {"shape": _PATTERNS[level % len(_PATTERNS)], "fgcolor": "white", "bgcolor": self.colour}
        return {"color": self.colour, "pattern": pattern}

    @property
    def transparent(self) -> str:
        """The colour, nearly transparent."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},0.18)"


_STYLES: dict[str, Style] = {
    name: Style(*look, marker) for (name, look), marker in zip(_METHODS.items(), _MARKERS, strict=True)
}


def method_styles(methods: Mapping[str, str]) -> dict[str, Style]:
    """A style for every label, by its method: a method with one label has the same style on every page."""
    chosen: dict[str, Style] = {}
    for label, method in methods.items():
        style = _STYLES.get(method)
        if style is None or style in chosen.values():
            # A repeated or unknown method takes a style that no other method here has.
            taken = {*chosen.values(), *(_STYLES.get(other) for other in methods.values())}
            style = next((one for one in _STYLES.values() if one not in taken), style or Style())
        chosen[label] = style
    return chosen


def level_styles(levels: int) -> list[Style]:
    """Styles of meshes, coarse to fine; those of the coarsest and the finest do not depend on the others."""
    between = [Style(c, d, m) for c, d, m in ((GREEN, "dash", "diamond"), (PURPLE, "dot", "x"), (SKY, "dash", "star"))]
    middle = [between[i % len(between)] for i in range(levels - 2)]
    return [Style(ORANGE, "dashdot", "square"), *middle, Style(BLUE, "solid", "circle")][-levels:]


def new_figure(rows: int = 1, columns: int = 1, **panels: Any) -> go.Figure:
    """An empty figure in our template; with several panels, whose arguments are those of plotly's make_subplots."""
    figure = go.Figure(layout={"template": _TEMPLATE, "font": {"color": BLACK}})
    return make_subplots(rows, columns, figure=figure, **panels) if panels else figure


def legend_below(figure: go.Figure, height: int) -> go.Figure:
    """Set height, margins and a legend below the figure, where it fits a phone."""
    figure.update_layout(
        height=height, margin={"l": 60, "r": 20, "t": 40, "b": 50},
        legend={"orientation": "h", "yref": "container", "y": 0.01, "yanchor": "bottom", "traceorder": "normal"},
    )  # fmt: skip
    return figure
