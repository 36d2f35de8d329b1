"""Thumbnails of functions as markup: a curve as inline SVG, a field as an inline PNG; parameters as a small table."""

import base64
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from html import escape

import numpy as np
from numpy.typing import NDArray
from plotly.colors import get_colorscale, unlabel_rgb, validate_colors

from mrafno.grids import Array
from mrafno.plot.axes import Axes
from mrafno.report.html import Html

#: Most points per axis of a thumbnail, and its longer side in pixels.
_POINTS, _SIDE = 64, 72


def thumbnail(axes: Axes, values: Array, low: float, high: float, label: str, *, colours: str = "Viridis") -> Html:
    """A function ``(channels, *grid)``, with ``low`` and ``high`` at the ends of its scale.

    Of several channels the last is shown, and of a field with more than two axes the slice in the middle.

    Args:
        label: alternative text.
        colours: name of a plotly colour scale, for a field.
    """
    frames, start = axes.frames(len(values))
    frame = frames[start]
    label = escape(f"{label} ({frame.label})" if frame.label else label)
    picture = axes.picked(values, frame)
    # Pixels are equally far apart, whatever the points of the grid are.
    picture = picture[np.ix_(*(_nearest(x) for x in axes.shown))]
    span = high - low if high > low else 1.0
    heights = np.clip((picture - low) / span, 0.0, 1.0)
    if not axes.is_map:
        return _line(heights, label)
    # An image starts at the top left, a function at the bottom left, with its second axis upwards.
    numbers = np.round(255 * heights.T[::-1]).astype(np.uint8)
    data = base64.b64encode(png(numbers, palette(colours))).decode()
    ratio = axes.ratio or 1.0
    width, height = round(_SIDE * min(1.0, 1 / ratio)), round(_SIDE * min(1.0, ratio))
    size = f'width="{width}" height="{height}"'
    return Html(f'<img src="data:image/png;base64,{data}" alt="{label}" title="{label}" {size}>')


def parameter_table(parameters: Mapping[str, float]) -> Html:
    """Names and values of an input's parameters."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{value:.4g}</td></tr>" for name, value in parameters.items())
    return Html(f'<table class="parameters">{rows}</table>')


def _nearest(x: Array) -> NDArray[np.intp]:
    """Indices of the points that are nearest to equally spaced ones; all of a uniform grid, or every k-th."""
    steps = np.linspace(x[0], x[-1], -(-len(x) // -(-len(x) // _POINTS)))
    return np.asarray(np.abs(x[None] - steps[:, None]).argmin(axis=1))


def _line(heights: Array, label: str) -> Html:
    points = " ".join(
        f"{2 + 68 * x:.1f},{70 - 68 * y:.1f}" for x, y in zip(np.linspace(0, 1, len(heights)), heights, strict=True)
    )
    return Html(
        f'<svg viewBox="0 0 72 72" role="img" aria-label="{label}"><title>{label}</title>'
        f'<rect width="72" height="72"/><polyline points="{points}"/></svg>'
    )


def png(picture: NDArray[np.uint8], colours: NDArray[np.uint8]) -> bytes:
    """A PNG file of palette indices ``(height, width)`` and a palette ``(256, 3)``."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = picture.shape
    # Eight bits per pixel with a palette; every row starts with the byte of filter type 0, none.
    rows = np.hstack([np.zeros((height, 1), np.uint8), picture]).tobytes()
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", colours.tobytes()),
            chunk(b"IDAT", zlib.compress(rows, 9)),
            chunk(b"IEND", b""),
        )
    )


@lru_cache
def palette(name: str) -> NDArray[np.uint8]:
    """A plotly colour scale in 256 steps, ``(256, 3)``."""
    scale = get_colorscale(name)
    places = [place for place, _ in scale]
    known = np.array([unlabel_rgb(colour) for colour in validate_colors([colour for _, colour in scale], "rgb")])
    steps = [np.interp(np.linspace(0, 1, 256), places, known[:, channel]) for channel in range(3)]
    return np.round(np.stack(steps, axis=1)).astype(np.uint8)
