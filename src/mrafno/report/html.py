"""HTML pages that need no network: headings, sentences, figures and tables in one file."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import plotly.graph_objects as go

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1320px; margin: 2rem auto; padding: 0 1rem; }}
  body {{ overflow-wrap: anywhere; }}
  h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.25rem; padding-top: 2.2rem; margin: 0 0 0.2rem; }}
  h2 a {{ padding: 0 0.3rem; color: #767676; font-weight: normal; text-decoration: none; }}
  p {{ max-width: 60rem; margin: 0.2rem 0 0.6rem; }}
  .figure {{ max-width: 900px; }} .wide, .table {{ overflow-x: auto; }}
  table {{ border-collapse: collapse; white-space: nowrap; }}
  td span {{ display: block; min-width: 16rem; max-width: 40rem; white-space: normal; text-align: left; }}
  td img, td svg {{ display: block; width: 72px; height: 72px; image-rendering: pixelated; margin-left: auto; }}
  th, td {{ padding: 0.3rem 0.8rem; text-align: right; border-bottom: 1px solid #ddd; }}
  th:first-child, td:first-child, .facts :is(th, td) {{ text-align: left; }} th {{ border-bottom: 2px solid #444; }}
  .facts td:last-child {{ white-space: normal; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{lead}</p>
{sections}
{script}</body>
</html>
"""

#: On a phone the part of an axis title in brackets goes to a second line, because it would be cut off.
_NARROW = """<script>
for (const plot of document.querySelectorAll(".figure .plotly-graph-div")) {
  const said = plot.layout?.xaxis?.title?.text;
  if (said && plot.clientWidth < 480) {
    Plotly.relayout(plot, { "xaxis.title.text": said.replace(" (", "<br>("), "xaxis.automargin": true });
  }
}
</script>
"""


@dataclass(frozen=True)
class Html:
    """Markup that goes into a page or a table unchanged; its maker has escaped foreign text."""

    markup: str


#: A table: the heading row, then the others.
Cells = Sequence[Sequence[str]]
MarkupCells = Sequence[Sequence[str | Html]]
#: A heading, a text, and a figure or table, if any.
Section = tuple[str, str, go.Figure | Cells | MarkupCells | None]


def prose(text: str) -> Html:
    """A table cell with text that may wrap."""
    return Html(f"<span>{escape(text)}</span>")


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Write one self-contained HTML file; sections have the ids of :func:`anchors`."""
    parts = []
    drawn = 0
    names = anchors([heading for heading, _, _ in sections])
    for name, (heading, text, content) in zip(names, sections, strict=True):
        if isinstance(content, go.Figure):
            html = _html_figure(content, first=drawn == 0)
            drawn += 1
        else:
            html = "" if content is None else _html_table(content)
        link = f'<a href="#{name}" aria-label="link to {escape(heading)}">#</a>'
        head = f"<h2>{escape(heading)}{link}</h2>"
        parts.append(f'<section id="{name}">{head}\n<p>{escape(text)}</p>\n{html}</section>')
    path.parent.mkdir(parents=True, exist_ok=True)
    script = _NARROW if drawn else ""
    page = _PAGE.format(title=escape(title), lead=escape(lead), sections="\n".join(parts), script=script)
    path.write_text(page, encoding="utf-8")


def anchors(headings: Sequence[str]) -> list[str]:
    """Unique names of headings, for addresses and file names."""
    found: list[str] = []
    for heading in headings:
        name = re.sub("[^a-z0-9]+", "-", heading.lower()).strip("-") or "section"
        same = (name if i == 1 else f"{name}-{i}" for i in itertools.count(1))
        found.append(next(one for one in same if one not in found))
    return found


def _html_figure(figure: go.Figure, *, first: bool) -> str:
    """A figure that follows the page's width; panels side by side scroll on a phone."""
    config = {"displaylogo": False, "responsive": True}
    html = figure.to_html(full_html=False, include_plotlyjs=first, config=config)
    if columns(figure) < 2:
        return f'<div class="figure">{html}</div>'
    return f'<div class="wide"><div style="min-width: {240 * columns(figure)}px">{html}</div></div>'


def columns(figure: go.Figure) -> int:
    """Number of panels side by side."""
    return len({axis.domain for axis in figure.select_xaxes()})


def _html_table(cells: MarkupCells) -> str:
    head, *body = cells
    rows = ["<tr>" + "".join(f"<th>{_html_cell(c)}</th>" for c in head) + "</tr>"]
    rows += ["<tr>" + "".join(f"<td>{_html_cell(c)}</td>" for c in row) + "</tr>" for row in body]
    kind = ' class="facts"' if len(head) == 2 else ""  # names and values, left-aligned
    return f'<div class="table"><table{kind}>' + "\n".join(rows) + "</table></div>"


def _html_cell(cell: str | Html) -> str:
    return cell.markup if isinstance(cell, Html) else escape(cell)
