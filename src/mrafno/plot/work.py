"""Figures of the work of a run: learning curves, seconds of simulations, CPU and memory of its driver."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from mrafno.plot.style import (
    AMBER,
    BLACK,
    BLUE,
    GREEN,
    GREY,
    HEIGHT,
    ORANGE,
    PURPLE,
    SKY,
    legend_below,
    level_styles,
    new_figure,
)
from mrafno.plot.text import duration

_MEMBERS = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, BLACK)
#: Losses above this quantile of those after the first part of each fit are above the figure: the first iterations, from
#: random weights or with new examples, would hide the rest.
_SHOWN, _FIRST = 0.97, 0.25
#: Simulations that are drawn; of more, the slowest and the last.
_SIMULATIONS = 2000


@dataclass(frozen=True)
class Course:
    """A fit: its name, the iterations at which losses were known, and the losses, ``(iterations, members)``."""

    name: str
    steps: Sequence[int]
    losses: Sequence[Sequence[float | None]]


def learning_figure(fits: Sequence[Course]) -> go.Figure:
    """Losses of the members over the iterations of several fits, one after the other."""
    figure, offset = new_figure(), 0
    members = max(len(fit.losses[0]) for fit in fits)
    xs: list[list[float | None]] = [[] for _ in range(members)]
    ys: list[list[float | None]] = [[] for _ in range(members)]
    said: list[list[str]] = [[] for _ in range(members)]
    for fit in fits:
        for member in range(len(fit.losses[0])):
            xs[member] += [offset + step for step in fit.steps] + [None]
            ys[member] += [row[member] for row in fit.losses] + [None]
            said[member] += [f"{fit.name}, iteration {step + 1}" for step in fit.steps] + [""]
        offset += fit.steps[-1] + 1
        if fit is not fits[-1]:
            figure.add_vline(x=offset - 0.5, line={"color": GREY, "width": 1, "dash": "dot"})
    for member in range(members):
        figure.add_scatter(
            x=xs[member], y=ys[member], customdata=said[member], mode="lines", name=f"member {member + 1}",
            line={"color": _MEMBERS[member % len(_MEMBERS)], "width": 1.5},
            hovertemplate="%{customdata}: loss %{y:.4g}",
        )  # fmt: skip
    later = [row for fit in fits for row in fit.losses[min(math.ceil(_FIRST * len(fit.losses)), len(fit.losses) - 1) :]]
    known = np.array([loss for row in later for loss in row if loss is not None])
    if len(known):
        low, high = float(known.min()), float(np.quantile(known, _SHOWN))
        room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        figure.update_yaxes(range=[low - room, high + room])
    figure.update_yaxes(title_text="loss")
    figure.update_xaxes(title_text="iteration, fit after fit", rangemode="tozero")
    return legend_below(figure, HEIGHT)


@dataclass(frozen=True)
class Simulation:
    """A simulation: its query, mesh, seconds (None if not recorded), and the reason if it gave no output."""

    query: str
    level: int
    seconds: float | None
    reason: str | None = None


def simulations_figure(simulations: Sequence[Simulation], meshes: Sequence[str]) -> go.Figure:
    """Seconds of each simulation in the order in which they were asked, and those that failed."""
    figure = new_figure()
    numbered = list(enumerate(simulations, 1))
    if len(numbered) > _SIMULATIONS:
        slow = sorted(numbered, key=lambda one: -(one[1].seconds or 0.0))[: _SIMULATIONS // 2]
        numbered = sorted({*slow, *numbered[-_SIMULATIONS // 2 :]}, key=lambda one: one[0])
    timed = [s.seconds for _, s in numbered if s.seconds]
    floor = min(timed, default=1.0)
    for level, (mesh, style) in enumerate(zip(meshes, level_styles(len(meshes)), strict=True)):
        here = [(n, s) for n, s in numbered if s.level == level and s.reason is None and s.seconds]
        figure.add_scatter(
            x=[n for n, _ in here], y=[s.seconds for _, s in here], name=mesh, showlegend=True, mode="markers",
            customdata=[f"{s.query}: {duration(s.seconds or 0.0)}" for _, s in here], hovertemplate="%{customdata}",
            marker={"symbol": style.marker, "size": 6, "color": style.colour, "opacity": 0.75},
        )  # fmt: skip
    bad = [(n, s) for n, s in numbered if s.reason is not None]
    if bad:
        figure.add_scatter(
            x=[n for n, _ in bad], y=[s.seconds or floor for _, s in bad], name="without output", mode="markers",
            customdata=[_escaped(f"{s.query}: {s.reason}"[:160]) for _, s in bad], hovertemplate="%{customdata}",
            marker={"symbol": "x", "size": 9, "color": BLACK}, showlegend=True,
        )  # fmt: skip
    figure.update_xaxes(title_text="simulation, in the order asked", rangemode="tozero")
    spread = timed and max(timed) > 20 * floor
    figure.update_yaxes(title_text="seconds", **({"type": "log", "dtick": 1} if spread else {"rangemode": "tozero"}))
    return legend_below(figure, HEIGHT)


def driver_figure(times: Sequence[float], cpu: Sequence[float], memory: Sequence[float]) -> go.Figure:
    """CPU, as a share of one core, and memory in bytes of a driver at times in seconds since it started."""
    figure = new_figure(2, 1, shared_xaxes=True, vertical_spacing=0.08)
    last = max(times, default=0.0)
    unit, size = ("h", 3600.0) if last > 7200 else ("min", 60.0) if last > 120 else ("s", 1.0)
    x = [time / size for time in times]
    for row, (title, values, colour) in enumerate(
        (("CPU (% of a core)", [100 * one for one in cpu], BLUE), ("memory (MB)", [m / 1e6 for m in memory], GREEN)), 1
    ):
        figure.add_scatter(
            x=x, y=values, mode="lines", line={"color": colour}, fill="tozeroy", name=title, showlegend=False,
            hovertemplate="%{x:.3g} " + unit + ": %{y:.4g}", row=row, col=1,
        )  # fmt: skip
        figure.update_yaxes(title_text=title, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title_text=f"time since the advance began ({unit})", row=2, col=1)
    return legend_below(figure, HEIGHT)


def _escaped(text: str) -> str:
    """Text in which plotly finds no markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;")
