"""HTML views of objects in a notebook, and progress while a run advances there."""

import html
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def table(title: str, rows: Mapping[str, Any]) -> str:
    """A small HTML table with a heading; every text is escaped."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(str(name))}</th>"
        f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<div class='mrafno'><b>{html.escape(title)}</b><table>{cells}</table></div>"


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class NotebookProgress:
    """Shows what a run is doing in the output of a cell, in place.

    Args:
        describe: the rows of the table to show.
    """

    def __init__(self, describe: Callable[[], Mapping[str, Any]]) -> None:
        display: Any = import_module("IPython.display").display  # a notebook has IPython

        self._describe = describe
        self._shown: Any = display(_Html(self._html("starting", None)), display_id=True)

    def __call__(self, phase: str, done: float | None = None) -> None:
        """Show the phase, and the share of it that is done."""
        if self._shown is not None:
            self._shown.update(_Html(self._html(phase, done)))

    def _html(self, phase: str, done: float | None) -> str:
        now = phase if done is None else f"{phase}, {100 * done:.0f} %"
        return table("mrafno", {"now": now, **self._describe()})


class _Html:
    """Text that a notebook shows as HTML."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_html_(self) -> str:
        return self.text
