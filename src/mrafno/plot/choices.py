"""Figures of what a run chose and why: a timeline of meshes, cost schedule, utilities."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mrafno.plot.style import HEIGHT, legend_below, level_styles, new_figure

#: Most blocks of a timeline; with more steps each stands for several.
_BLOCKS = 150


def timeline_figure(levels: Sequence[int], meshes: Sequence[str]) -> go.Figure:
    """Which mesh was chosen when, and the number of queries of each mesh after each step.

    A mesh has a row of blocks. A block is a step; of many steps it is several, and its opacity is the share of them
    that had this mesh.

    Args:
        levels: level of each step, from step 1.
    """
    figure = new_figure(2, 1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.32, 0.68])
    n, styles = len(levels), level_styles(len(meshes))
    edges = np.unique(np.linspace(0, n, min(n, _BLOCKS) + 1).round().astype(int))
    for level, (mesh, style) in enumerate(zip(meshes, styles, strict=True)):
        here = np.array([one == level for one in levels])
        blocks = [(a, b, int(here[a:b].sum())) for a, b in pairwise(edges.tolist()) if here[a:b].any()]
        said = [f"step {b}" if b == a + 1 else f"steps {a + 1} to {b}: {count} of {b - a}" for a, b, count in blocks]
        figure.add_bar(
            x=[(a + b + 1) / 2 for a, b, _ in blocks], width=[b - a for a, b, _ in blocks],
            y=[0.8] * len(blocks), base=[level - 0.4] * len(blocks), name=mesh, legendgroup=mesh, showlegend=False,
            marker={"color": style.colour, "opacity": [0.25 + 0.75 * c / (b - a) for a, b, c in blocks]},
            customdata=said, hovertemplate="%{customdata}", marker_line_width=0, row=1, col=1,
        )  # fmt: skip
        count = [0, *np.cumsum(here).tolist()]
        look = {**style.scatter(), "mode": "lines", "line": {"color": style.colour, "dash": style.dash, "shape": "hv"}}
        figure.add_scatter(
            x=list(range(n + 1)), y=count, name=mesh, legendgroup=mesh, showlegend=True, row=2, col=1, **look
        )
    figure.update_layout(barmode="overlay", bargap=0)
    names = {"tickvals": list(range(len(meshes))), "ticktext": list(meshes), "range": [-0.6, len(meshes) - 0.4]}
    figure.update_yaxes(**names, showgrid=False, zeroline=False, row=1, col=1)
    figure.update_yaxes(title_text="queries so far", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(**{**step_axis(n), "title_text": ""}, showgrid=False, row=1, col=1)
    figure.update_xaxes(**step_axis(n), row=2, col=1)
    return legend_below(figure, HEIGHT)


def schedule_figure(
    steps: Sequence[int], weights: Sequence[Sequence[float]], true: Sequence[float], meshes: Sequence[str]
) -> go.Figure:
    """Cost weight of each mesh at each step, ``weights[step][level]``, and true cost share, ``true[level]``."""
    figure = new_figure()
    for level, (mesh, style) in enumerate(zip(meshes, level_styles(len(meshes)), strict=True)):
        look = {**style.scatter(), "mode": "lines"}
        figure.add_scatter(x=list(steps), y=[row[level] for row in weights], name=mesh, showlegend=True, **look)
        figure.add_hline(y=true[level], line={"color": style.colour, "dash": "dot", "width": 1})
    figure.update_xaxes(**step_axis(max(steps)))
    figure.update_yaxes(title_text="weight of one solve's cost", range=[0, 1.02])
    return legend_below(figure, HEIGHT)


def utility_figure(
    steps: Sequence[int],
    best: Sequence[Sequence[float | None]],
    chosen: Sequence[int],
    meshes: Sequence[str],
    axis: str,
    costs: Sequence[Sequence[float]] | None = None,
) -> go.Figure:
    """Best utility of each mesh at each step, ``best[step][level]``, with filled markers where the mesh was chosen.

    Args:
        axis: title of the utility axis.
        costs: ``[step][level]``, for a second panel with utilities divided by costs, the criterion of the choice.
    """
    panels = [(axis, best)]
    if costs is not None:
        divided = [
            [None if u is None else u / c for u, c in zip(row, line, strict=True)]
            for row, line in zip(best, costs, strict=True)
        ]
        panels.append(("the same per scheduled cost", divided))
    figure = new_figure(len(panels), 1, shared_xaxes=True, vertical_spacing=0.08)
    for row, (title, values) in enumerate(panels, 1):
        for level, (mesh, style) in enumerate(zip(meshes, level_styles(len(meshes)), strict=True)):
            look = style.scatter()
            # Filled markers were chosen; the others are rings, or left out where there are many.
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
    figure.update_xaxes(**{**step_axis(max(steps)), "title_text": ""})
    figure.update_xaxes(title_text="step", row=len(panels), col=1)
    return legend_below(figure, HEIGHT if len(panels) == 1 else 600)


def step_axis(last: int) -> dict[str, Any]:
    """Axis of steps, with whole numbers."""
    return {"title_text": "step", "range": [0, max(last, 1) * 1.03], "dtick": 1 if last < 12 else None}
