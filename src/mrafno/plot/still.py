"""Plotly figures as image files, drawn by matplotlib: no browser is needed.

What this package draws with is translated: curves, filled bands, markers, bars and maps, on linear and logarithmic
axes, in one or several panels. Lists and sliders are left out; what a figure shows at first is drawn.
"""

import re
from collections.abc import Mapping, Sequence
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mrafno.errors import MrafnoError
from mrafno.grids import Array

#: Formats of images.
FORMATS = ("svg", "pdf", "png")
#: Pixels per inch, of figures as pages show them, and of PNG files.
_PIXELS, _FINE = 96, 288
_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_MARKERS = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v", "x": "X", "cross": "P",
    "star": "*", "hexagon": "h", "pentagon": "p", "hourglass": "d", "octagon": "8", "hexagram": "*", "star-square": "s",
}  # fmt: skip
_GREY = "#b0b4ba"


def write_still(figure: go.Figure, path: Path | str, *, width: int = 800) -> None:
    """Write a figure as a file whose name ends in ``.svg``, ``.pdf`` or ``.png``.

    Args:
        width: in pixels of a page.
    """
    pyplot, path = _pyplot(), Path(path)
    check_formats([path.suffix.removeprefix(".")])
    layout, height = figure.layout, int(figure.layout.height or 420)
    canvas = pyplot.figure(figsize=(width / _PIXELS, height / _PIXELS), layout=None)
    try:
        panels = _Panels(canvas, figure)
        for trace in figure.data:
            if trace.visible is None or trace.visible is True:
                _draw(panels, trace, layout)
        for shape in layout.shapes:
            _line(panels, shape)
        panels.finish()
        canvas.savefig(path, dpi=_FINE, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
    finally:
        pyplot.close(canvas)


def _pyplot() -> Any:
    try:
        matplotlib: Any = import_module("matplotlib")
    except ImportError as error:
        raise MrafnoError(
            "images: writing figures needs matplotlib, which is not installed. Install it with pip install matplotlib."
        ) from error
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "mrafno", "font.size": 9, "axes.edgecolor": _GREY})
    return import_module("matplotlib.pyplot")


class _Panels:
    """The axes of a figure, by plotly's names for them."""

    def __init__(self, canvas: Any, figure: go.Figure) -> None:
        self.canvas, self.figure = canvas, figure
        self.found: dict[tuple[str, str], Any] = {}

    def of(self, trace: Any) -> Any:
        """The panel of a trace."""
        return self.named(trace.xaxis or "x", trace.yaxis or "y")

    def named(self, x: str, y: str) -> Any:
        """The panel with these axes."""
        if (x, y) not in self.found:
            layout = self.figure.layout
            across, up = layout[x.replace("x", "xaxis", 1)], layout[y.replace("y", "yaxis", 1)]
            (left, right), (low, high) = across.domain or (0, 1), up.domain or (0, 1)
            box = (0.1 + 0.85 * left, 0.14 + 0.8 * low, 0.85 * (right - left), 0.8 * (high - low))
            panel = self.canvas.add_axes(box)
            panel.spines[["top", "right"]].set_visible(False)
            panel.grid(visible=True, color="#e4e7eb", linewidth=0.6)
            panel.set_axisbelow(True)
            self.found[x, y] = panel
        return self.found[x, y]

    def finish(self) -> None:
        """Titles, ranges, ticks and legends."""
        layout = self.figure.layout
        handles: dict[str, Any] = {}
        for (x, y), panel in self.found.items():
            _axis(panel, layout[x.replace("x", "xaxis", 1)], "x")
            _axis(panel, layout[y.replace("y", "yaxis", 1)], "y")
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        for note in layout.annotations:
            self.canvas.text(
                0.1 + 0.85 * note.x, 0.14 + 0.8 * note.y + 0.01, _plain(note.text), ha="center", va="bottom", fontsize=9
            )
        if len(handles) > 0:
            self.canvas.legend(
                handles.values(), handles.keys(), loc="upper center", bbox_to_anchor=(0.5, 0.04), ncols=4, frameon=False
            )


def _draw(panels: "_Panels", trace: Any, layout: Any) -> None:
    draw = {"scatter": _scatter, "bar": _bars, "heatmap": _map}.get(trace.type)
    if draw is None:
        raise MrafnoError(f"images: traces of the type {trace.type} cannot be drawn without a browser.")
    draw(panels.of(trace), trace, layout)


def _scatter(panel: Any, trace: Any, layout: Any) -> None:
    x, y, mode = _numbers(trace.x), _numbers(trace.y), trace.mode or "lines"
    label = _plain(trace.name) if trace.name and trace.showlegend is not False else None
    colour = trace.line.color or (trace.marker.color if isinstance(trace.marker.color, str) else None) or "#0072B2"
    if trace.fill in ("toself", "tozeroy"):
        shade, opacity = _colour(trace.fillcolor) if trace.fillcolor else (colour, 0.3)
        if trace.fill == "toself":
            panel.fill(x, y, color=shade, alpha=opacity, linewidth=0, label=label)
            return
        panel.fill_between(x, 0, y, color=shade, alpha=opacity, linewidth=0)
    if "lines" in mode and trace.line.width != 0:
        style = {"drawstyle": "steps-post"} if trace.line.shape == "hv" else {}
        dash = _DASHES.get(trace.line.dash or "solid", "-")
        panel.plot(x, y, color=colour, linestyle=dash, linewidth=1.4, label=label, **style)
        label = None
    if "markers" in mode:
        _markers(panel, trace, x, y, colour, label)


def _markers(panel: Any, trace: Any, x: Array, y: Array, colour: str, label: str | None) -> None:
    marker = trace.marker
    symbols = marker.symbol if isinstance(marker.symbol, Sequence) and not isinstance(marker.symbol, str) else None
    size = np.broadcast_to(np.asarray(6 if marker.size is None else marker.size, dtype=float), x.shape)
    values = marker.color if isinstance(marker.color, Sequence) and not isinstance(marker.color, str) else None
    base, opacity = _colour(marker.color if isinstance(marker.color, str) else colour)
    for symbol in sorted({*(symbols or [marker.symbol or "circle"])}):
        here = np.array([one == symbol for one in symbols]) if symbols else np.ones(len(x), dtype=bool)
        here &= size > 0
        hollow = str(symbol).endswith("-open")
        look: dict[str, Any] = {
            "marker": _MARKERS.get(str(symbol).removesuffix("-open"), "o"),
            "s": size[here] ** 2 / 2,
        }
        if values is not None:
            known = np.array([np.nan if one is None else one for one in values], dtype=float)
            look |= {"c": known[here], "cmap": "viridis", "vmin": marker.cmin, "vmax": marker.cmax}
            look |= {"edgecolors": "#222222", "linewidths": 0.6 if marker.line.width else 0}
        else:
            look |= {"facecolors": "none" if hollow else base, "edgecolors": base, "alpha": opacity, "linewidths": 0.8}
        points = panel.scatter(x[here], y[here], label=label, zorder=3, **look)
        label = None
    if values is not None and marker.showscale:
        bar = panel.figure.colorbar(points, ax=panel, pad=0.01)
        bar.set_label(_plain(marker.colorbar.title.text or ""))


def _bars(panel: Any, trace: Any, layout: Any) -> None:
    lying = trace.orientation == "h"
    places, lengths = (trace.y, trace.x) if lying else (trace.x, trace.y)
    places = list(places) if isinstance(places[0] if len(places) else 0, str) else _numbers(places)
    base = 0 if trace.base is None else _numbers(trace.base)
    width = 0.8 if trace.width is None else np.broadcast_to(_numbers(trace.width), np.shape(places))
    label = _plain(trace.name) if trace.name and trace.showlegend is not False else None
    look: dict[str, Any] = {"color": trace.marker.color or "#0072B2", "label": label, "linewidth": 0}
    if layout.barmode == "stack":
        stacked = panel.__dict__.setdefault("_mrafno_stacked", np.zeros(len(places)))
        base = stacked.copy()
        stacked += _numbers(lengths)
    opacity = trace.marker.opacity
    draw = panel.barh if lying else panel.bar
    bars = draw(places, _numbers(lengths), width, base, **look)
    for bar, one in zip(bars, opacity if isinstance(opacity, Sequence) else (), strict=False):
        bar.set_alpha(one)
    for bar, text in zip(bars, trace.text if isinstance(trace.text, Sequence) else (), strict=False):
        panel.text(bar.get_width(), bar.get_y() + bar.get_height() / 2, f" {_plain(text)}", va="center")


def _map(panel: Any, trace: Any, layout: Any) -> None:
    del layout
    names = {"RdBu": "RdBu", "Cividis": "cividis", "Inferno": "inferno"}
    scale = trace.colorscale
    name = names.get(scale, "viridis") if isinstance(scale, str) else _scale_name(scale)
    if trace.reversescale:
        name = f"{name}_r"
    x, y, z = _numbers(trace.x), _numbers(trace.y), np.array(trace.z, dtype=float)
    picture = panel.pcolormesh(x, y, z, cmap=name, vmin=trace.zmin, vmax=trace.zmax, shading="nearest", rasterized=True)
    panel.grid(visible=False)
    if trace.showscale is not False:
        # As high as the map, which is smaller than its panel where both axes have one unit, and then below its title.
        place = import_module("mpl_toolkits.axes_grid1").make_axes_locatable(panel)
        place.set_anchor("N")
        panel.figure.colorbar(picture, cax=place.append_axes("right", size="5%", pad=0.06))


def _scale_name(scale: Any) -> str:
    """The name of one of the scales that the package uses, which plotly keeps as their colours."""
    from plotly.colors import get_colorscale

    wanted = [colour for _, colour in scale or ()]
    for ours, theirs in (("Cividis", "cividis"), ("RdBu", "RdBu"), ("Inferno", "inferno")):
        if wanted == [colour for _, colour in get_colorscale(ours)]:
            return theirs
    return "viridis"


def _line(panels: _Panels, shape: Any) -> None:
    """A horizontal or vertical line across a panel."""
    x, y = (shape.xref or "x").partition(" ")[0], (shape.yref or "y").partition(" ")[0]
    panel = panels.named(x, y)
    look = {
        "color": shape.line.color or _GREY, "linestyle": _DASHES.get(shape.line.dash or "solid", "-"), "linewidth": 1,
        "zorder": 1,
    }  # fmt: skip
    if shape.y0 == shape.y1:
        panel.axhline(shape.y0, **look)
    else:
        panel.axvline(shape.x0, **look)


def _axis(panel: Any, axis: Any, way: str) -> None:
    set_ = {name: getattr(panel, f"set_{way}{name}") for name in ("label", "lim", "scale", "ticks")}
    if axis.title.text:
        set_["label"](_plain(axis.title.text))
    logarithmic = axis.type == "log"
    if logarithmic:
        set_["scale"]("log")
        getattr(panel, f"{way}axis").set_minor_formatter(import_module("matplotlib.ticker").NullFormatter())
    if axis.range is not None:
        ends = [10.0**one if logarithmic else one for one in axis.range]
        set_["lim"](*ends)
    elif axis.rangemode == "tozero" and not logarithmic:
        set_["lim"](**{"left" if way == "x" else "bottom": 0})
    if axis.tickvals is not None:
        limits = getattr(panel, f"get_{way}lim")()
        pairs = zip(axis.tickvals, axis.ticktext or map(str, axis.tickvals), strict=True)
        shown = [(value, text) for value, text in pairs if min(limits) <= value <= max(limits)]
        set_["ticks"]([value for value, _ in shown], [_plain(text) for _, text in shown])
    if axis.showticklabels is False:
        panel.tick_params(**{"labelbottom" if way == "x" else "labelleft": False})
    if way == "y" and axis.scaleanchor:
        panel.set_aspect("equal")  # both axes have one unit
    if axis.autorange == "reversed":
        getattr(panel, f"invert_{way}axis")()


def _numbers(values: Any) -> Array:
    """Numbers of a trace, NaN for None."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _colour(text: str) -> tuple[Any, float]:
    """A colour and its opacity, from ``rgba(0,114,178,0.3)`` or a name."""
    found = re.fullmatch(r"rgba?\(([^)]*)\)", text)
    if found is None:
        return text, 1.0
    red, green, blue, *opacity = (float(part) for part in found[1].split(","))
    return (red / 255, green / 255, blue / 255), opacity[0] if opacity else 1.0


def _plain(text: str) -> str:
    """A text without plotly's markup, in which matplotlib finds no formula."""
    return unescape(re.sub("<br>", "\n", text)).replace("$", r"\$")


def check_formats(formats: Sequence[str]) -> None:
    """Raise if a format is unknown."""
    if unknown := [name for name in formats if name not in FORMATS]:
        raise MrafnoError(f"images: unknown format {unknown[0]!r}. Choose from {', '.join(FORMATS)}.")


def write_stills(figures: Mapping[str, tuple[go.Figure, int]], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write figures by their names, each with its width in pixels, in every format; returns the files."""
    check_formats(formats)
    _pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, (figure, width) in figures.items():
        for kind in formats:
            path = folder / f"{name}.{kind}"
            write_still(figure, path, width=width)
            files.append(path)
    return files
