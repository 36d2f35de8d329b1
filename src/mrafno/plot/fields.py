"""Figures of functions on grids: a task's input and outputs, and a prediction beside the truth.

Functions of one axis are curves, functions of more are maps: of the first two axes, with a slider through the others.
Another slider position is another channel.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import plotly.graph_objects as go

from mrafno.grids import Array, Grid, resample
from mrafno.plot.axes import Axes
from mrafno.plot.panel import Layer, Panel, limits, positive, separate, side_by_side, signed
from mrafno.plot.style import BLUE, GREEN, GREY, ORANGE
from mrafno.plot.text import mesh_name
from mrafno.tasks.base import Task


def task_figure(task: Task, f: Array, outputs: Sequence[Array]) -> go.Figure:
    """One input ``(in_channels, *finest grid)``, its outputs on every level, and coarsest minus finest."""
    axes = [Axes.of_task(task, level) for level in range(task.levels)]
    difference = outputs[0] - resample(outputs[-1], task.grids[-1], task.grids[0])
    source = f[: len(f) - len(task.parameters)]
    panels = []
    if len(source):
        panels.append(Panel(task.input_name, (Layer(axes[-1], source),), {"colorscale": "Cividis"}))
    if not axes[0].is_map:
        colours = [ORANGE, *[GREEN] * (task.levels - 2), BLUE][-task.levels :]
        meshes = list(zip(axes, outputs, colours, strict=True))
        # The finest line is drawn first, under the markers of the coarser ones.
        lines = [
            Layer(a, y, _mesh_title(a.grid), {"color": c}, mode="lines" if a is axes[-1] else "lines+markers")
            for a, y, c in reversed(meshes)
        ]
        panels.append(Panel(task.output_name, tuple(lines), legend=True))
    else:
        shared = {"colorscale": "Viridis", **limits(*outputs)}
        # The outputs share one scale, so the last of them shows its bar for all.
        panels += [
            Panel(f"output, {_mesh_title(a.grid)}", (Layer(a, y),), shared, bar=a is axes[-1])
            for a, y in zip(axes, outputs, strict=True)
        ]
    panels.append(Panel("coarsest minus finest", (Layer(axes[0], difference),), signed(difference)))
    return side_by_side(panels, *axes[-1].frames(max(len(source), len(outputs[-1]))))


def prediction_figure(axes: Axes, f: Array, truth: Array, mean: Array, std: Array) -> go.Figure:
    """One example's input, truth, prediction with its spread, and error, each ``(channels, *grid)``."""
    panels = example_panels(axes, f, truth, mean, std)
    return side_by_side(panels, *axes.frames(max(len(f), len(truth))))


def example_figures(
    axes: Axes, f: Array, truth: Array | None = None, mean: Array | None = None, std: Array | None = None
) -> tuple[list[tuple[str, go.Figure]], list[str], int]:
    """The known parts of an example, a figure with a title each; labels of the frames, and the one that is visible."""
    channels = max(len(values) for values in (f, truth, mean) if values is not None)
    frames, start = axes.frames(max(channels, 1))
    figures = separate(example_panels(axes, f, truth, mean, std), frames, start)
    return figures, [frame.label for frame in frames], start


def example_panels(
    axes: Axes, f: Array, truth: Array | None = None, mean: Array | None = None, std: Array | None = None
) -> list[Panel]:
    """Panels of the known parts of an example, each ``(channels, *grid)``; an input without functions has no panel."""
    draw = _maps if axes.is_map else _curves
    source = [Panel("input", (Layer(axes, f),), {"colorscale": "Cividis"})] if len(f) else []
    return [*source, *draw(axes, truth, mean, std)]


@dataclass(frozen=True)
class MeshView:
    """What is known of an example on one mesh: each ``(channels, *grid)`` or None."""

    name: str
    axes: Axes
    truth: Array | None = None
    mean: Array | None = None
    std: Array | None = None


def mesh_panels(axes: Axes, f: Array, meshes: Sequence[MeshView]) -> list[Panel]:
    """Panels of an input and of what is known of its output on several meshes, on one scale.

    Args:
        axes: of the input ``f``.
    """
    panels = [Panel("input", (Layer(axes, f),), {"colorscale": "Cividis"})] if len(f) else []
    known = [values for mesh in meshes for values in (mesh.truth, mesh.mean) if values is not None]
    draw = partial(_maps, scale=limits(*known) if known else None) if axes.is_map else _curves
    for mesh in meshes:
        found = draw(mesh.axes, mesh.truth, mesh.mean, mesh.std)
        panels += [replace(panel, title=f"{mesh.name}: {panel.title}") for panel in found]
    return panels


def _curves(axes: Axes, truth: Array | None, mean: Array | None, std: Array | None) -> list[Panel]:
    lines = [] if truth is None else [Layer(axes, truth, "truth")]
    if mean is not None:
        lines.append(Layer(axes, mean, "prediction", {"color": BLUE, "dash": "dash"}, std))
    panels = [Panel("output", tuple(lines), legend=True)] if lines else []
    if truth is not None and mean is not None:
        zero = Layer(axes, np.zeros_like(mean), line={"color": GREY, "width": 1}, std=std)
        error = Layer(axes, mean - truth, line={"color": ORANGE})
        panels.append(Panel("prediction minus truth", (zero, error)))
    return panels


def _maps(
    axes: Axes,
    truth: Array | None,
    mean: Array | None,
    std: Array | None,
    *,
    scale: Mapping[str, float] | None = None,
) -> list[Panel]:
    found = {"truth": truth, "prediction": mean}
    known = {name: values for name, values in found.items() if values is not None}
    shared = {"colorscale": "Viridis", **(scale or (limits(*known.values()) if known else {}))}
    panels = [Panel(name, (Layer(axes, values),), shared) for name, values in known.items()]
    if truth is not None and mean is not None:
        panels.append(Panel("prediction minus truth", (Layer(axes, mean - truth),), signed(mean - truth)))
    if std is not None:
        panels.append(Panel("standard deviation", (Layer(axes, std),), positive(std)))
    return panels


def _mesh_title(grid: Grid) -> str:
    return mesh_name(grid.shape) + (" nodes" if grid.dim == 1 else "")
