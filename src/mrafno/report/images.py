"""Figures as files. Plotly draws in a browser, so this needs kaleido, and Chrome or Chromium."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from mrafno.errors import MrafnoError
from mrafno.report.html import Section, anchors, columns, figures_of

_FORMATS = ("svg", "pdf", "png")


def check_formats(formats: Sequence[str]) -> None:
    """Raise if a format is unknown."""
    if unknown := [name for name in formats if name not in _FORMATS]:
        raise MrafnoError(f"images: unknown format {unknown[0]!r}. Choose from {', '.join(_FORMATS)}.")


def write_images(folder: Path, sections: Sequence[Section], formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Write every figure of a page's sections in every format, named after its heading; returns the files."""
    check_formats(formats)
    if importlib.util.find_spec("kaleido") is None:
        raise MrafnoError(
            "images: writing figures needs kaleido, which is not installed. Install it with "
            "pip install kaleido, and Chrome or Chromium if there is none."
        )
    import plotly.io  # late, because it looks for kaleido when it is imported

    found = [one for heading, _, content in sections for one in figures_of(content, heading)]
    names = anchors([heading for heading, _ in found])
    figures = [(name, _static(figure)) for name, (_, figure) in zip(names, found, strict=True)]
    jobs: list[tuple[go.Figure, Path, int]] = [
        (figure, folder / f"{name}.{kind}", 1180 if columns(figure) > 1 else 800)
        for name, figure in figures
        for kind in formats
    ]
    if not jobs:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {
        "width": [width for _, _, width in jobs],
        "height": [int(figure.layout.height or 420) for figure, _, _ in jobs],
        # Four pixels for one of the page, for print; the other formats are vector graphics.
        "scale": [4 if path.suffix == ".png" else 1 for _, path, _ in jobs],
    }
    files = [path for _, path, _ in jobs]
    try:
        plotly.io.write_images([figure for figure, _, _ in jobs], files, **options)
    except Exception as error:
        # Kaleido drives a browser, which fails in many ways.
        raise MrafnoError(
            f"images: kaleido could not draw them ({type(error).__name__}: {error}). It needs Chrome or Chromium; "
            "if that is not found, set BROWSER_PATH to its path."
        ) from error
    return files


def _static(figure: go.Figure) -> go.Figure:
    """A copy without buttons and sliders."""
    static = go.Figure(figure)
    static.layout.sliders = ()
    if static.layout.updatemenus:
        static.layout.updatemenus = ()
    return static
