"""The JavaScript that pages draw figures with: a part of plotly.js, and our own functions around it.

``static/plotly-cartesian.min.js.gz`` is plotly.js's own distribution for curves, bars and maps, a third of all of
plotly.js; its MIT licence is beside it. ``static/figures.js`` draws figures in a page's colours and downloads them, and
``static/menus.js`` shows their choices as lists.
"""

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def plotly_js_compressed() -> bytes:
    """The code of plotly.js, compressed with gzip."""
    return (files("mrafno.plot") / "static" / "plotly-cartesian.min.js.gz").read_bytes()


@cache
def plotly_js() -> bytes:
    """The code of plotly.js."""
    return gzip.decompress(plotly_js_compressed())


@cache
def figures_js() -> bytes:
    """Our functions that draw figures: ``drawFigure(element, figure)``, ``figureButtons(element, name)``."""
    return b"".join((files("mrafno.plot") / "static" / name).read_bytes() for name in ("menus.js", "figures.js"))


def figure_json(figure: Any) -> dict[str, Any] | None:
    """A figure for ``drawFigure``, without its template, which the page sets; None for None."""
    if figure is None:
        return None
    values: dict[str, Any] = json.loads(figure.to_json())
    values["layout"].pop("template", None)
    return values
