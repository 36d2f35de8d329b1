"""What a click on the map of the inputs shows in a report: pictures of an input on every mesh.

A report has no server, so the pictures are in the page, of as many inputs as fit: the chosen ones, the last first, then
those of which the surrogate is least certain.
"""

from collections.abc import Iterable
from html import escape

import numpy as np

from mrafno.grids import Array
from mrafno.plot.axes import Axes
from mrafno.plot.panel import extent
from mrafno.plot.run_inputs import InputMap, describe, input_map, map_figure
from mrafno.report.html import Html, Parts, Section
from mrafno.report.thumbnails import parameter_table, thumbnail
from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord
from mrafno.surrogate.prediction import Prediction

#: Bytes of all pictures, most inputs, and inputs that are predicted at a time.
_BYTES, _INPUTS, _TOGETHER = 400_000, 80, 20


def map_section(run: RunReader) -> Section | None:
    """The map of the inputs with its pictures; None without a checkpoint."""
    found = input_map(run)
    if found is None:
        return None
    content = Parts([map_figure(run, found), map_details(run, found)])
    return "Map of the inputs", describe(run, found), content


def map_details(run: RunReader, found: InputMap) -> Html:
    """Templates that the page shows when a point is clicked, and a list to choose an input without the map."""
    told: dict[int, list[QueryRecord]] = {}
    for query in run.state.of_kind("pool", "told"):
        told.setdefault(query.row, []).append(query)
    latest = sorted(told, key=lambda row: -max(q.step or 0 for q in told[row]))
    uncertain = [found.rows[i] for i in np.argsort(-found.uncertainty[: len(found.rows)])]
    rows = [*latest, *(row for row in uncertain if row not in told)][:_INPUTS]
    templates: dict[int, str] = {}
    size = 0
    for row, markup in _details(run, rows, told):
        size += len(markup)
        if size > _BYTES and templates:
            break
        templates[row] = markup
    options = "".join(f'<option value="{row}">{escape(_name(row, told.get(row, [])))}</option>' for row in templates)
    inside = "".join(f'<template data-point="{row}">{markup}</template>' for row, markup in templates.items())
    return Html(
        f'<div class="details"><p class="menus"><label>Input <select class="points">{options}</select></label></p>'
        f'<div class="detail" aria-live="polite"></div>{inside}</div>'
    )


def _name(row: int, queries: list[QueryRecord]) -> str:
    steps = sorted(q.step or 0 for q in queries)
    return f"candidate {row}" + (f", step {', '.join(map(str, steps))}" if steps else ", not chosen")


def _details(run: RunReader, rows: list[int], told: dict[int, list[QueryRecord]]) -> Iterable[tuple[int, str]]:
    """Markup of each input."""
    for start in range(0, len(rows), _TOGETHER):
        part = rows[start : start + _TOGETHER]
        f = run.inputs.pool[part]
        predictions = [run.predict(run.task.restrict(f, level), level) for level in range(len(run.grids))]
        for place, row in enumerate(part):
            yield row, _markup(run, row, f[place], place, predictions, told.get(row, []))


def _markup(
    run: RunReader, row: int, f: Array, place: int, predictions: list[Prediction | None], queries: list[QueryRecord]
) -> str:
    functions, parameters = run.split(f)
    finest = Axes.of(run.state.task, run.grids[-1])
    source = ""
    if len(functions):
        ends = extent(functions)
        about = f"input of candidate {row}, from {ends[0]:.3g} to {ends[1]:.3g}"
        picture = thumbnail(finest, functions, *ends, about, colours="Cividis").markup
        source = f"<figure>{picture}<figcaption>input</figcaption></figure>"
    truths = {q.level: run.output(q) for q in queries}
    means = [None if p is None else p.mean[place] for p in predictions]
    scale = extent(*(values for values in (*truths.values(), *means) if values is not None))
    lines = []
    for level, mesh in enumerate(run.meshes):
        axes, truth, prediction = Axes.of(run.state.task, run.grids[level]), truths.get(level), predictions[level]
        cells = []
        if truth is not None:
            cells.append(("truth", thumbnail(axes, truth, *scale, f"truth on {mesh}").markup))
        if prediction is not None:
            mean, spread = prediction.mean[place], prediction.std[place]
            top = extent(spread)[1]
            cells.append(("prediction", thumbnail(axes, mean, *scale, f"prediction on {mesh}").markup))
            picture = thumbnail(axes, spread, 0.0, top, f"spread on {mesh}, up to {top:.3g}", colours="Cividis").markup
            cells.append((f"spread, up to {top:.3g}", picture))
            if truth is not None:
                error = float(run.errors(mean[None], truth[None])[0])
                cells.append(("relative error", f"<b>{error:.3g}</b>"))
        figures = "".join(f"<figure>{one}<figcaption>{escape(name)}</figcaption></figure>" for name, one in cells)
        lines.append(f"<h4>{escape(mesh)}</h4><div class='pictures'>{figures}</div>")
    head = f"<h3>{escape(_name(row, queries))}</h3><div class='pictures'>{source}"
    table = parameter_table(parameters).markup if parameters else ""
    return f"{head}{table}</div>{''.join(lines)}"
