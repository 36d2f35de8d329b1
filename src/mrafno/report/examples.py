"""Examples on a run's page: thumbnails of the last queries, and test inputs with predictions and errors."""

import numpy as np

from mrafno.errors import MrafnoError
from mrafno.grids import Array
from mrafno.plot.axes import Axes
from mrafno.plot.fields import example_figures
from mrafno.plot.panel import extent
from mrafno.report.html import Html, Panels, Parts, Section, prose
from mrafno.report.thumbnails import parameter_table, thumbnail
from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord

#: Queries in the table, and test examples from which the shown ones are picked.
_QUERIES, _TESTS = 10, 40


def choices(run: RunReader) -> list[QueryRecord]:
    """Choices by step; one that failed was replaced under the same number."""
    return sorted(run.state.of_kind("pool", "told", "running", "abandoned"), key=lambda q: q.step or 0)


def queries_section(run: RunReader) -> Section:
    """The last choices, with thumbnails."""
    heading = "Last queries"
    asked = choices(run)[-_QUERIES:][::-1]
    if not asked:
        return heading, "No example has been chosen yet.", None
    prequential = {query.id: error for query, error in run.state.prequential_errors()}
    head = ("step", "query", "mesh", "cost", "input", "truth", "prediction now", "spread now", "error before training")
    rows: list[list[str | Html]] = [list(head)]
    for query in asked:
        error = f"{prequential[query.id]:.4g}" if query.id in prequential else "not trained on yet"
        cost = f"{query.cost:.4g}" if query.status == "told" else query.standing
        rows.append([str(query.step), query.id, run.meshes[query.level], cost, *_pictures(run, query), error])
    text = "The newest first. The error before training is that of the surrogate before it was trained on the example. "
    several = max(run.state.task["in_channels"], run.state.task["out_channels"]) > 1 or run.grids[-1].dim > 2
    return heading, text + _checkpoint(run) + (" The pictures name the channel and the slice." if several else ""), rows


def _pictures(run: RunReader, query: QueryRecord) -> list[str | Html]:
    """Thumbnails of input, truth, prediction and spread of a query; text where there is none."""
    try:
        f, y = run.input(query), run.output(query)
        prediction = run.predict(f[None], query.level)
    except MrafnoError as error:
        return [prose(str(error)), "", "", ""]
    axes = Axes.of(run.state.task, run.grids[query.level])
    mean = None if prediction is None else prediction.mean[0]
    scale = extent(*(values for values in (y, mean) if values is not None))

    def shown(what: str, values: Array, ends: tuple[float, float], colours: str = "Viridis") -> Html:
        about = f"{what} of {query.id}, from {ends[0]:.3g} to {ends[1]:.3g}"
        return thumbnail(axes, values, *ends, about, colours=colours)

    functions, parameters = run.split(f)
    source = shown("input", functions, extent(functions), "Cividis").markup if len(functions) else ""
    cells: list[str | Html] = [Html(source + (parameter_table(parameters).markup if parameters else ""))]
    cells.append(query.standing if y is None else shown("truth", y, scale))
    if prediction is None or mean is None:
        return [*cells, "no checkpoint", "no checkpoint"]
    spread = prediction.std[0]
    cells += [shown("prediction", mean, scale), shown("spread", spread, (0.0, extent(spread)[1]), "Cividis")]
    return cells


def test_sections(run: RunReader) -> list[Section]:
    """Test inputs with the smallest, the median and the largest error."""
    heading = "Test inputs"
    f, y = run.tests(_TESTS)
    if not len(f):
        return [(heading, "The run has no test examples (yet).", None)]
    prediction = run.predict(f, len(run.grids) - 1)
    if prediction is None:
        return [(heading, run.trouble or "There is no checkpoint of the surrogate yet to predict them with.", None)]
    errors = run.errors(prediction.mean, y)
    order = np.argsort(errors)
    sections: list[Section] = []
    for name, row in {"smallest": order[0], "median": order[(len(order) - 1) // 2], "largest": order[-1]}.items():
        functions, parameters = run.split(f[row])
        axes = Axes.of(run.state.task, run.grids[-1])
        pictures = example_figures(axes, functions, y[row], prediction.mean[row], prediction.std[row])
        panels = Panels(*pictures)
        text = (
            f"Test input {row}, relative L2 error {errors[row]:.4g}: the {name} of {len(f)} test examples. "
            f"{_checkpoint(run)}"
        )
        heading = f"Test input with the {name} error"
        sections.append((heading, text, Parts([parameter_table(parameters), panels]) if parameters else panels))
    return sections


def _checkpoint(run: RunReader) -> str:
    """A sentence about the checkpoint that predicts."""
    if run.surrogate is None:
        return run.trouble or "There is no checkpoint of the surrogate yet, so there are no predictions."
    fits = len(run.state.trainings)
    return f"Predictions are those of the checkpoint after fit {min(run.surrogate.fits, fits)} of {fits}."
