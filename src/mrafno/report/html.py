"""HTML pages that need no network: headings, sentences, figures and tables in one file.

Figures are drawn by the part of plotly.js in :mod:`mrafno.plot.bundle`. It and the figures are compressed inside the
page, which is then well below 2 MB.
"""

import base64
import gzip
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Union

import plotly.graph_objects as go

from mrafno.plot.bundle import figure_json, figures_js, plotly_js_compressed

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<h1>{title}</h1>
<p>{lead}</p>
<main>
{sections}
</main>
{script}</body>
</html>
"""


#: What may be wider than the page scrolls, also by keyboard.
_SCROLLED = '<div class="table" role="group" aria-label="scrolls sideways" tabindex="0">'


@dataclass(frozen=True)
class Html:
    """Markup that goes into a page or a table unchanged; its maker has escaped foreign text."""

    markup: str


@dataclass(frozen=True)
class Panels:
    """Figures with titles that stand side by side where there is room; a slider goes through their frames."""

    figures: Sequence[tuple[str, go.Figure]]
    labels: Sequence[str] = ("",)
    start: int = 0


@dataclass(frozen=True)
class Parts:
    """Several contents, one below the other."""

    contents: Sequence["Content"] = field(default=())


#: A table: the heading row, then the others.
Cells = Sequence[Sequence[str]]
MarkupCells = Sequence[Sequence[str | Html]]
#: What stands below a section's text.
Content = Union[go.Figure, Cells, MarkupCells, Html, Panels, Parts, None]  # noqa: UP007  # it refers to itself by name
#: A heading, a text, and its content, if any.
Section = tuple[str, str, Content]


def prose(text: str) -> Html:
    """A table cell with text that may wrap."""
    return Html(f"<span>{escape(text)}</span>")


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Write one self-contained HTML file; sections have the ids of :func:`anchors`."""
    figures: list[go.Figure] = []
    parts = []
    names = anchors([heading for heading, _, _ in sections])
    for name, (heading, text, content) in zip(names, sections, strict=True):
        html = _html(content, heading, figures)
        link = f'<a href="#{name}" aria-label="link to {escape(heading)}">#</a>'
        head = f"<h2>{escape(heading)}{link}</h2>"
        wide = "" if isinstance(content, go.Figure) and columns(content) < 2 else ' class="wide"'
        said = f"<p>{escape(text)}</p>" if text else ""
        parts.append(f'<section id="{name}"{wide}>{head}\n{said}\n{html}</section>')
    path.parent.mkdir(parents=True, exist_ok=True)
    page = _PAGE.format(
        title=escape(title), lead=escape(lead), sections="\n".join(parts), style=_static("report.css"),
        script=_scripts(figures, any("<button" in part for part in parts)),
    )  # fmt: skip
    path.write_text(page, encoding="utf-8")


def anchors(headings: Sequence[str]) -> list[str]:
    """Unique names of headings, for addresses and file names."""
    found: list[str] = []
    for heading in headings:
        name = re.sub("[^a-z0-9]+", "-", heading.lower()).strip("-") or "section"
        same = (name if i == 1 else f"{name}-{i}" for i in itertools.count(1))
        found.append(next(one for one in same if one not in found))
    return found


def figures_of(content: Content, heading: str) -> list[tuple[str, go.Figure]]:
    """The figures in a section's content, with their headings."""
    if isinstance(content, go.Figure):
        return [(heading, content)]
    if isinstance(content, Panels):
        return [(f"{heading}: {title}", figure) for title, figure in content.figures]
    if isinstance(content, Parts):
        return [one for part in content.contents for one in figures_of(part, heading)]
    return []


def columns(figure: go.Figure) -> int:
    """Number of panels side by side."""
    return len({axis.domain for axis in figure.select_xaxes()})


def facts(values: Sequence[tuple[str, str, str]]) -> Html:
    """Names, values and notes, as a row of boxes."""
    boxes = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}{f'<small>{escape(note)}</small>' if note else ''}</dd></div>"
        for name, value, note in values
    )
    return Html(f"<dl>{''.join(boxes)}</dl>")


def _html(content: Content, heading: str, figures: list[go.Figure]) -> str:
    if content is None:
        return ""
    if isinstance(content, Html):
        return content.markup
    if isinstance(content, Parts):
        return "\n".join(_html(part, heading, figures) for part in content.contents)
    if isinstance(content, go.Figure):
        figures.append(content)
        wide = f"min-width: {240 * columns(content)}px; " if columns(content) > 1 else ""
        plot = _plot(len(figures) - 1, heading, content, wide)
        return f"{_SCROLLED}{plot}</div>" if wide else plot
    if isinstance(content, Panels):
        return _panels(content, heading, figures)
    return _table(content)


def _plot(number: int, heading: str, figure: go.Figure, style: str = "") -> str:
    height = int(figure.layout.height or 420)
    return (
        f'<div class="plot" role="img" data-figure="{number}" aria-label="{escape(heading)}" '
        f'style="{style}min-height: {height}px"></div>'
    )


def _panels(panels: Panels, heading: str, figures: list[go.Figure]) -> str:
    boxes = []
    for title, figure in panels.figures:
        figures.append(figure)
        plot = _plot(len(figures) - 1, f"{heading}: {title}", figure)
        boxes.append(f"<div><h3>{escape(title)}</h3>{plot}</div>")
    slider = ""
    if len(panels.labels) > 1:
        labels, now = escape(json.dumps(list(panels.labels))), escape(panels.labels[panels.start])
        slider = (
            f'<p class="frame"><input type="range" min="0" max="{len(panels.labels) - 1}" value="{panels.start}" '
            f'aria-label="frame of {escape(heading)}" aria-valuetext="{now}" data-labels="{labels}">'
            f"<output>{now}</output></p>"
        )
    return f'{slider}<div class="panels">{"".join(boxes)}</div>'


def _table(cells: MarkupCells) -> str:
    head, *body = cells
    names = [cell if isinstance(cell, str) else "" for cell in head]
    rows = ["<tr>" + "".join(f"<th>{_cell(c)}</th>" for c in head) + "</tr>"]
    for row in body:
        here = zip(row, names, strict=True)
        rows.append("<tr>" + "".join(f'<td data-head="{escape(name)}">{_cell(c)}</td>' for c, name in here) + "</tr>")
    kind = (
        "facts" if len(head) == 2 else "rows"
    )  # names and values, left-aligned; or lines that a phone shows as blocks
    return f'{_SCROLLED}<table class="{kind}">' + "\n".join(rows) + "</table></div>"


def _cell(cell: str | Html) -> str:
    return cell.markup if isinstance(cell, Html) else escape(cell)


def _scripts(figures: Sequence[go.Figure], buttons: bool) -> str:
    code = f"<script>\n{_static('report.js')}</script>\n"
    if not figures:
        return code if buttons else ""
    values = json.dumps([figure_json(figure) for figure in figures], separators=(",", ":"))
    packed = {"plotly": plotly_js_compressed(), "figures": gzip.compress(values.encode(), 9, mtime=0)}
    blobs = (
        f'<script type="text/plain" id="{name}">{base64.b64encode(content).decode()}</script>\n'
        for name, content in packed.items()
    )
    return f"{''.join(blobs)}<script>\n{figures_js().decode()}</script>\n{code}"


@cache
def _static(name: str) -> str:
    return (files("mrafno.report") / "static" / name).read_text(encoding="utf-8")
