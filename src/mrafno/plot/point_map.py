"""A map of a run's inputs: every candidate is a point; those that were chosen, when, on which mesh, and how uncertain.

Choices of the colours and of the axes are ``updatemenus`` of the figure, which pages show as lists of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mrafno.grids import Array
from mrafno.plot.style import BLACK, GREY, legend_below, level_styles, new_figure

_FAINT = "rgba(128,128,128,0.35)"
#: Upper end of a colour scale: a few outliers must not make the rest look the same.
_HIGH = 0.98


@dataclass(frozen=True)
class MapPoints:
    """Inputs of one kind.

    Attributes:
        name: of the kind, in the legend.
        rows: of each point, where it is found when it is clicked; ids of queries for those that are no candidates.
        places: coordinates by the names of the axes, each ``(n, 2)``.
        colours: numbers by what they are, each ``(n,)`` with NaN where unknown; a missing one is drawn in grey.
        words: of each point, for hovering.
        level: of the mesh on which they were chosen; None for those that were not.
    """

    name: str
    rows: Sequence[int | str]
    places: Mapping[str, Array]
    colours: Mapping[str, Array]
    words: Sequence[str]
    level: int | None = None


def input_map_figure(
    kinds: Sequence[MapPoints], titles: Mapping[str, tuple[str, str]], levels: int, colours: Sequence[str]
) -> go.Figure:
    """The map; it opens with the first axes and the first colours.

    Args:
        kinds: those that are drawn first come first.
        titles: of the two axes, by the name of their choice.
        levels: number of meshes of the task.
        colours: names of the colours that can be chosen.
    """
    figure, styles, axes = new_figure(), level_styles(levels), next(iter(titles))
    for kind in kinds:
        place = kind.places[axes]
        marker: dict[str, Any] = {"symbol": "circle", "size": 7, "line": {"width": 0.6, "color": GREY}}
        if kind.level is not None:
            marker |= {"symbol": styles[kind.level].marker, "size": 11, "line": {"width": 1.5, "color": BLACK}}
        elif kind.rows and isinstance(kind.rows[0], str):
            marker |= {"symbol": "triangle-up", "size": 8, "line": {"width": 1, "color": GREY}}
        marker |= {"colorscale": "Viridis", "colorbar": {"thickness": 12, "title": {"side": "right"}}}
        figure.add_scatter(
            x=place[:, 0].tolist(), y=place[:, 1].tolist(), mode="markers", name=kind.name, showlegend=True,
            customdata=list(kind.rows), text=list(kind.words), hovertemplate="%{text}", marker=marker,
        )  # fmt: skip
    changes = [_colour_change(kinds, colour) for colour in colours]
    if changes:
        for trace, values, shown in zip(
            figure.data, changes[0]["marker.color"], changes[0]["marker.showscale"], strict=True
        ):
            trace.marker.update(
                color=values, showscale=shown, cmin=changes[0]["marker.cmin"], cmax=changes[0]["marker.cmax"]
            )
            trace.marker.colorbar.title.text = changes[0]["marker.colorbar.title.text"]
    menus = []
    if len(titles) > 1:
        menus.append(_menu("Axes", [(name, *_axes_change(kinds, name, pair)) for name, pair in titles.items()]))
    if len(changes) > 1:
        menus.append(_menu("Colour", [(name, change, {}) for name, change in zip(colours, changes, strict=True)]))
    first = titles[axes]
    figure.update_xaxes(title_text=first[0], zeroline=False)
    figure.update_yaxes(title_text=first[1], zeroline=False)
    figure.update_layout(updatemenus=menus, hovermode="closest")
    return legend_below(figure, 560)


def _colour_change(kinds: Sequence[MapPoints], colour: str) -> dict[str, Any]:
    """What a choice of a colour changes of the traces; all have one scale, and the last has its bar."""
    # Not a shared colour axis: legends cannot draw its colours.
    values = [kind.colours.get(colour) for kind in kinds]
    known = np.concatenate([v[np.isfinite(v)] for v in values if v is not None] or [np.zeros(1)])
    known = known if len(known) else np.zeros(1)
    low, high = float(known.min()), float(np.quantile(known, _HIGH))
    last = max((i for i, v in enumerate(values) if v is not None), default=0)
    return {
        "marker.color": [_FAINT if v is None else [None if np.isnan(one) else float(one) for one in v] for v in values],
        "marker.showscale": [i == last for i in range(len(values))],
        "marker.cmin": low,
        "marker.cmax": max(high, low + 1e-12),
        "marker.colorbar.title.text": colour,
    }


def _axes_change(
    kinds: Sequence[MapPoints], name: str, titles: tuple[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    places = [kind.places[name] for kind in kinds]
    restyle = {"x": [p[:, 0].tolist() for p in places], "y": [p[:, 1].tolist() for p in places]}
    relayout = {"xaxis.title.text": titles[0], "yaxis.title.text": titles[1]}
    return restyle, {**relayout, "xaxis.autorange": True, "yaxis.autorange": True}


def _menu(name: str, choices: Sequence[tuple[str, dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    buttons = [
        {"label": label, "method": "update", "args": [restyle, relayout]} for label, restyle, relayout in choices
    ]
    return {"name": name, "buttons": buttons, "type": "dropdown"}
