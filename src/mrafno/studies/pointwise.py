"""Where surrogates err: error fields of several methods on the same test inputs, on one scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mrafno.errors import MrafnoError
from mrafno.grids import Array, Grid, relative_l2
from mrafno.plot.figures import BLACK, Cells, Section
from mrafno.report.figures import method_styles
from mrafno.run.reader import RunReader
from mrafno.studies.active import Result
from mrafno.studies.curves_report import entries
from mrafno.studies.pages import Study

#: Methods that choose among all meshes, and the random one on the finest mesh alone.
METHODS = "mra-uhat,mra-u,mra-auto,mr-predvar,mr-dropout,random-mix,random-high,coreset-mix"
#: Of the heat maps and the gaps between them on a full page, from which their height follows.
_WIDTH = 1080
_PAPER = (
    "The publication (Li et al. 2024) draws such fields to show that its methods are better point by point, not only "
    "on average."
)


@dataclass(frozen=True)
class Fields:
    """What a surrogate predicts for some test inputs, ``(n, out_channels, *grid)``, and when it was trained."""

    prediction: Array
    step: int
    cost: float
    error: float


def pointwise_study(study: Study, methods: str = METHODS, examples: int = 3) -> None:
    """Run what is missing of the first seed, then show errors on the first test examples."""
    found = study.results(entries(methods))
    first = {label: some[0] for label, some in found.runs.items()}
    f, truth = _tests(list(first.values()), examples)
    fields = {label: predicted(result, f) for label, result in first.items()}
    errors = {label: relative_l2(one.prediction, truth) for label, one in fields.items()}
    cells = error_cells(fields, errors)
    task, seed = study.task, next(iter(first.values())).job.seed
    text = (
        f"Runs with seed {seed}, at their end, each at its own cost; in the last columns, relative errors of the "
        "inputs shown below."
    )
    sections: list[Section] = [("The surrogates", text, cells)]
    frame = "" if task.out_channels == 1 else f", the last of {task.out_channels} frames"
    for i in range(len(f)):
        shown = {label: np.abs(one.prediction[i, -1] - truth[i, -1]) for label, one in fields.items()}
        draw = curves_figure if task.grids[-1].dim == 1 else maps_figure
        labels = {label: f"{label}, {errors[label][i]:.4f}" for label in fields}
        figure = draw(task.grids[-1], truth[i, -1], shown, labels, found.methods)
        figure.update_xaxes(title_text=task.axis_names[0], title_standoff=4)
        if task.grids[-1].dim == 2:
            figure.update_yaxes(title_text=task.axis_names[1], title_standoff=2, col=1)
        text = (
            f"Size of prediction minus truth{frame}, on one scale; in the titles, the relative L2 error of the whole."
        )
        sections.append((f"Test input {i}", text, figure))
    lead = (
        f"Error fields of several methods on the same test inputs of {task.name}, the first ones, not picked. {_PAPER}"
    )
    summary = {
        "surrogates": [
            {
                "label": label,
                "step": one.step,
                "cost": one.cost,
                "relative_l2": one.error,
                "shown": errors[label].tolist(),
            }
            for label, one in fields.items()
        ],
    }
    study.write(f"Errors point by point: {task.name}", lead, sections, [("Errors", cells)], summary, found)


def _tests(some: Sequence[Result], most: int) -> tuple[Array, Array]:
    """Inputs and outputs, which have to be the same for all."""
    every = [RunReader(result.folder).tests(most) for result in some]
    f, truth = every[0]
    if any(not np.array_equal(f, other) for other, _ in every[1:]):
        raise MrafnoError("study: the runs have different test inputs, so their errors cannot be set side by side.")
    return f, truth


def predicted(result: Result, f: Array) -> Fields:
    """Predictions of a run's last checkpoint for inputs on the finest mesh."""
    reader = RunReader(result.folder)
    prediction = reader.predict(f, len(reader.grids) - 1)
    if prediction is None or reader.surrogate is None:
        why = f" ({reader.trouble})" if reader.trouble else ""
        raise MrafnoError(f"study: {result.folder} holds no surrogate{why}. Go on with the run: without --report.")
    step = result.state.trainings[max(reader.surrogate.fits, 1) - 1].step
    last = [e for e in result.state.measurements if e.step <= step][-1]
    return Fields(prediction.mean, step, last.cost, last.metrics["relative_l2"])


def error_cells(fields: Mapping[str, Fields], errors: Mapping[str, Array]) -> Cells:
    """Errors of every surrogate, over all test examples and on those that are shown."""
    number = len(next(iter(errors.values())))
    lines = [["method", "steps", "cost", "all inputs", *(f"input {i}" for i in range(number))]]
    for label, one in fields.items():
        single = [f"{error:.4f}" for error in errors[label]]
        lines.append([label, str(one.step), f"{one.cost:.0f}", f"{one.error:.4f}", *single])
    return lines


def maps_figure(
    grid: Grid, truth: Array, errors: Mapping[str, Array], titles: Mapping[str, str], methods: Mapping[str, str]
) -> go.Figure:
    """Heat maps: the truth with a scale of its own, then errors, which share one."""
    del methods
    rows, columns = _arranged(len(errors) + 1, (4, 3))
    gap = 0.04
    panel = _WIDTH * (1 - gap * (columns - 1)) / columns
    figure = _panels(rows, columns, ["truth", *(titles[label] for label in errors)], gap, panel)
    x, y = grid.axes
    bar = {"thickness": 10, "tickfont": {"size": 10}, "exponentformat": "power", "yanchor": "top", "y": 1.0}
    figure.add_heatmap(x=x, y=y, z=truth.T, coloraxis="coloraxis2", row=1, col=1)
    for place, error in enumerate(errors.values(), 1):
        row, column = place // columns + 1, place % columns + 1
        figure.add_heatmap(x=x, y=y, z=error.T, coloraxis="coloraxis", row=row, col=column)
    scales: dict[str, Any] = {
        "coloraxis": {"colorscale": "Inferno", "cmin": 0, "cmax": _top(errors), "colorbar": {**bar, "x": 1.01}},
        "coloraxis2": {"colorscale": "Viridis", "colorbar": {**bar, "x": 1.085}},
    }
    scales["coloraxis"]["colorbar"]["title"], scales["coloraxis2"]["colorbar"]["title"] = "error", "truth"
    figure.update_layout(**scales, margin={"l": 50, "r": 150, "t": 60, "b": 50})
    return figure


def curves_figure(
    grid: Grid, truth: Array, errors: Mapping[str, Array], titles: Mapping[str, str], methods: Mapping[str, str]
) -> go.Figure:
    """Curves: the truth on an axis of its own, then errors on one axis range."""
    rows, columns = _arranged(len(errors) + 1, (3,))
    figure = _panels(rows, columns, ["truth", *(titles[label] for label in errors)], 0.06, 220)
    x = grid.axes[0]
    figure.add_scatter(x=x, y=truth, line={"color": BLACK}, showlegend=False, row=1, col=1)
    styles = method_styles(methods)
    for place, (label, error) in enumerate(errors.items(), 1):
        row, column = place // columns + 1, place % columns + 1
        line = {"color": styles[label].colour}
        figure.add_scatter(x=x, y=error, line=line, fill="tozeroy", name=label, showlegend=False, row=row, col=column)
        figure.update_yaxes(range=[0, 1.05 * _top(errors)], row=row, col=column)
    figure.update_layout(margin={"l": 60, "r": 20, "t": 60, "b": 50})
    return figure


def _arranged(panels: int, widths: Sequence[int]) -> tuple[int, int]:
    """Rows and columns, of so many columns that fewest places stay empty."""
    columns = min((min(width, panels) for width in widths), key=lambda width: -panels % width)
    return -(-panels // columns), columns


def _top(errors: Mapping[str, Array]) -> float:
    return max(float(error.max()) for error in errors.values()) or 1.0


def _panels(rows: int, columns: int, titles: Sequence[str], gap: float, panel: float) -> go.Figure:
    height = rows * (panel + 60) + 60
    figure = make_subplots(
        rows, columns, subplot_titles=titles, horizontal_spacing=gap, vertical_spacing=70 / height if rows > 1 else 0
    )
    figure.update_annotations(font_size=13)
    figure.update_layout(height=height, template="plotly_white", font={"color": BLACK})
    return figure
