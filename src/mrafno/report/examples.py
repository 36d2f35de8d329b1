"""Examples on a run's page: thumbnails of the last queries, and test inputs with predictions and errors."""

import numpy as np

from mrafno.errors import MrafnoError
from mrafno.grids import Array
from mrafno.plot.fields import prediction_figure
from mrafno.report.html import Html, Section, prose
from mrafno.report.thumbnails import thumbnail
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
    return heading, text + _checkpoint(run) + _channel(run), rows


def _pictures(run: RunReader, query: QueryRecord) -> list[str | Html]:
    """Thumbnails of input, truth, prediction and spread of a query; text where there is none."""
    try:
        f, y = run.input(query), run.output(query)
        prediction = run.predict(f[None], query.level)
    except MrafnoError as error:
        return [prose(str(error)), "", "", ""]
    found = [] if y is None else [y[-1]]
    if prediction is not None:
        found.append(prediction.mean[0, -1])
    low, high = min((float(a.min()) for a in found), default=0.0), max((float(a.max()) for a in found), default=1.0)

    def shown(what: str, values: Array, low: float, high: float, colours: str = "Viridis") -> Html:
        return thumbnail(values, low, high, f"{what} of {query.id}, from {low:.3g} to {high:.3g}", colours=colours)

    cells: list[str | Html] = [shown("input", f[-1], float(f[-1].min()), float(f[-1].max()), "Cividis")]
    cells.append(query.standing if y is None else shown("truth", y[-1], low, high))
    if prediction is None:
        return [*cells, "no checkpoint", "no checkpoint"]
    spread = prediction.std[0, -1]
    cells += [shown("prediction", found[-1], low, high), shown("spread", spread, 0.0, float(spread.max()), "Cividis")]
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
        figure = prediction_figure(
            run.grids[-1], f[row, -1], y[row, -1], prediction.mean[row, -1], prediction.std[row, -1],
            run.state.task["axis_names"],
        )  # fmt: skip
        text = (
            f"Test input {row}, relative L2 error {errors[row]:.4g}: the {name} of {len(f)} test examples. "
            f"{_checkpoint(run)}{_channel(run)}"
        )
        sections.append((f"Test input with the {name} error", text, figure))
    return sections


def _checkpoint(run: RunReader) -> str:
    """A sentence about the checkpoint that predicts."""
    if run.surrogate is None:
        return run.trouble or "There is no checkpoint of the surrogate yet, so there are no predictions."
    fits = len(run.state.trainings)
    return f"Predictions are those of the checkpoint after fit {min(run.surrogate.fits, fits)} of {fits}."


def _channel(run: RunReader) -> str:
    several = max(run.state.task["in_channels"], run.state.task["out_channels"]) > 1
    return " Of several channels the last is shown." if several else ""
