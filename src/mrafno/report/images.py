"""Figures as files for papers. Plotly draws in a browser, so this needs kaleido, and Chrome or Chromium."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from mrafno.errors import MrafnoError
from mrafno.report.html import Section, anchors, columns

_FORMATS = ("svg", "pdf", "png")


def check_formats(formats: Sequence[str]) -> None:
    """Raise unless all of these can be written."""
    if unknown := [name for name in formats if name not in _FORMATS]:
        raise MrafnoError(f"images: unknown format {unknown[0]!r}. Choose from {', '.join(_FORMATS)}.")


def write_images(folder: Path, sections: Sequence[Section], formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Every figure of a page's sections in every format, named after its heading; gives the files."""
    check_formats(formats)
    if importlib.util.find_spec("kaleido") is None:
        raise MrafnoError(
            "images: figures become files with kaleido, which is not installed. Install it with "
            "pip install 'mrafno[images]', and Chrome or Chromium if the machine has none."
        )
    import plotly.io  # here, because it looks for kaleido when it is imported

    names = anchors([heading for heading, _, _ in sections])
    figures = [(name, _still(c)) for name, (_, _, c) in zip(names, sections, strict=True) if isinstance(c, go.Figure)]
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
        # Four points of a picture for one of the page, for print; the other formats have no points.
        "scale": [4 if path.suffix == ".png" else 1 for _, path, _ in jobs],
    }
    files = [path for _, path, _ in jobs]
    try:
        plotly.io.write_images([figure for figure, _, _ in jobs], files, **options)
    except Exception as error:
        # Kaleido drives a browser: what can go wrong there has many names.
        raise MrafnoError(
            f"images: kaleido could not draw them ({type(error).__name__}: {error}). It needs Chrome or Chromium; "
            "where that is not found by itself, set BROWSER_PATH to it."
        ) from error
    return files


def _still(figure: go.Figure) -> go.Figure:
    """A copy without what can be clicked."""
    still = go.Figure(figure)
    if still.layout.updatemenus:
        still.layout.updatemenus = ()
        still.layout.margin.t = 20
    return still
