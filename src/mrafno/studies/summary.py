"""Means over runs, as text, as terminal tables and as JSON files."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from mrafno.report.html import Cells
from mrafno.storage import files

#: What a table shows where there is no number.
NOTHING = "-"


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (ddof = 1; None of a single value) of n values."""

    mean: float
    deviation: float | None
    n: int

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        """Of at least one value."""
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return Spread(float(np.mean(values)), deviation, len(values))


def pm(value: Spread | None, form: str = ".4f", scale: float = 1.0) -> str:
    """Mean and standard deviation."""
    if value is None:
        return NOTHING
    text = f"{value.mean * scale:{form}}"
    return text if value.deviation is None else f"{text} ± {value.deviation * scale:{form.removeprefix('+')}}"


def as_table(title: str, cells: Cells) -> Table:
    """Cells for the terminal, the first row being the heading."""
    table = Table(title=title, title_justify="left")
    for place, heading in enumerate(cells[0]):
        table.add_column(heading, justify="right" if place else "left", no_wrap=not place)
    for row in cells[1:]:
        table.add_row(*row)
    return table


def write_json(path: Path, values: Any) -> None:
    """Write dataclasses and JSON values; a file that exists is replaced as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, values, indent=1, default=_plain)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")
