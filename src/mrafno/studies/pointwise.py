"""Error fields of several methods on the same test inputs, on one scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mrafno.errors import MrafnoError
from mrafno.grids import Array, relative_l2
from mrafno.plot.axes import Axes
from mrafno.plot.error_fields import error_fields_figure
from mrafno.report.html import Cells, Section
from mrafno.run.reader import RunReader
from mrafno.studies.active import Result
from mrafno.studies.curves_report import entries
from mrafno.studies.pages import Study

#: Methods that choose among all meshes, and the random one on the finest mesh alone.
METHODS = "mra-uhat,mra-u,mra-auto,mr-predvar,mr-dropout,random-mix,random-high,coreset-mix"
_PAPER = (
    "The paper (Li et al. 2024) draws such fields to show that its methods are better point by point, not only on "
    "average."
)


@dataclass(frozen=True)
class Fields:
    """Predictions for test inputs, ``(n, out_channels, *grid)``, and the step, cost and error of the surrogate."""

    prediction: Array
    step: int
    cost: float
    error: float


def pointwise_study(study: Study, methods: str = METHODS, examples: int = 3) -> None:
    """Do the missing runs, then show errors of the first seed on the first test examples."""
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
    for i in range(len(f)):
        shown = {label: np.abs(one.prediction[i] - truth[i]) for label, one in fields.items()}
        labels = {label: f"{label}, {errors[label][i]:.4f}" for label in fields}
        figure = error_fields_figure(Axes.of_task(task), truth[i], shown, labels, found.methods)
        text = "Size of prediction minus truth, on one scale; in the titles, the relative L2 error of the whole."
        sections.append((f"Test input {i}", text, figure))
    lead = f"Error fields of several methods on the first test inputs of {task.name}. {_PAPER}"
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
    """Test inputs and outputs, which must be the same in all runs."""
    every = [RunReader(result.folder).tests(most) for result in some]
    f, truth = every[0]
    if any(not np.array_equal(f, other) for other, _ in every[1:]):
        raise MrafnoError(
            "study: the runs have different test inputs, so their errors cannot be compared. Use one test_seed."
        )
    return f, truth


def predicted(result: Result, f: Array) -> Fields:
    """Predictions of a run's last checkpoint for inputs on the finest mesh."""
    reader = RunReader(result.folder)
    prediction = reader.predict(f, len(reader.grids) - 1)
    if prediction is None or reader.surrogate is None:
        why = f" ({reader.trouble})" if reader.trouble else ""
        raise MrafnoError(f"study: {result.folder} has no surrogate{why}. Continue the run: leave --report out.")
    step = result.state.trainings[max(reader.surrogate.fits, 1) - 1].step
    last = [e for e in result.state.measurements if e.step <= step][-1]
    return Fields(prediction.mean, step, last.cost, last.metrics["relative_l2"])


def error_cells(fields: Mapping[str, Fields], errors: Mapping[str, Array]) -> Cells:
    """Errors of every surrogate, over all test examples and on the shown ones."""
    number = len(next(iter(errors.values())))
    lines = [["method", "steps", "cost", "all inputs", *(f"input {i}" for i in range(number))]]
    for label, one in fields.items():
        single = [f"{error:.4f}" for error in errors[label]]
        lines.append([label, str(one.step), f"{one.cost:.0f}", f"{one.error:.4f}", *single])
    return lines
