"""Plotly figures: of runs, and as pure functions of numbers and arrays, which read no files.

``mrafno.plot.error_against_cost(run)`` and the other names here are in ``of_run`` and take a run, a reader or a folder.
``style`` has colours and line styles, ``text`` numbers as text, ``axes`` titles, units and frames of fields, ``bundle``
the JavaScript of pages, ``still`` image files, ``run_inputs`` the numbers of the map of inputs; the other modules draw.
May import ``run`` (its readers) and everything below it.
"""

from typing import TYPE_CHECKING

from mrafno._lazy import lazy_exports

if TYPE_CHECKING:
    from mrafno.plot.of_run import (
        calibration,
        coverage,
        error_against_cost,
        example,
        input_map,
        learning_curves,
        meshes,
        simulations,
        time_spent,
    )

__all__ = [
    "calibration",
    "coverage",
    "error_against_cost",
    "example",
    "input_map",
    "learning_curves",
    "meshes",
    "simulations",
    "time_spent",
]

__getattr__, __dir__ = lazy_exports(__name__, dict.fromkeys(__all__, "mrafno.plot.of_run"))
