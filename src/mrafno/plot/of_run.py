"""Figures of runs: each function takes a run, a reader of one, or a run's folder, and returns a Plotly figure.

They are the figures of reports and of the dashboard. A run may be advancing: what is on the disk is drawn.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Union

import numpy as np
import plotly.graph_objects as go

from mrafno.errors import MrafnoError
from mrafno.plot.axes import Axes
from mrafno.plot.bars import time_figure
from mrafno.plot.choices import timeline_figure
from mrafno.plot.errors import Line, add_cost_choices, calibration_figure, coverage_figure, error_figure
from mrafno.plot.fields import prediction_figure
from mrafno.plot.run_inputs import input_map as inputs_of
from mrafno.plot.run_inputs import map_figure
from mrafno.plot.style import method_styles
from mrafno.plot.text import counted
from mrafno.plot.work import Course, Simulation, learning_figure, simulations_figure
from mrafno.run.fit_curves import read_fit_curves
from mrafno.run.reader import RunReader
from mrafno.run.spending import COUNTED, Count

if TYPE_CHECKING:
    from mrafno.run.run import Run

#: What a figure can be made of.
Source = Union["Run", RunReader, Path, str]  # Run is imported for types only
#: Fits whose learning curves are shown, and test examples from which one is picked.
FITS, _TESTS = 12, 40


def reader_of(run: Source, count: Count = "total") -> RunReader:
    """A reader of a run; a reader is taken as it is."""
    if isinstance(run, RunReader):
        return run
    return RunReader(run if isinstance(run, Path | str) else run.path, count=count)


def error_against_cost(*runs: Source, count: Count = "total") -> go.Figure:
    """Measured relative L2 error of one or several runs against what they have cost.

    Args:
        count: what the cost has: ``total``, ``training`` or ``chosen``, see :mod:`mrafno.run.spending`.
    """
    readers = {str(reader.folder): reader for reader in (reader_of(run, count) for run in runs)}
    curves = {name: curve for name, reader in readers.items() if (curve := reader.state.error_curve(count))}
    if not curves:
        raise MrafnoError("plot: none of these runs has a measured error. Create a run with test=1 or more.")
    measured = [readers[name] for name in curves]
    styles = method_styles({name: readers[name].state.method for name in curves})
    names = names_of(list(readers.values()))
    lines = [Line(names[name], curve.costs, curve.errors, style=styles[name]) for name, curve in curves.items()]
    units = {unit_of(reader) for reader in measured}
    unit = units.pop() if len(units) == 1 else "each in the unit of its own task"
    return add_cost_choices(error_figure(lines, unit), cost_choices(measured, count), unit)


def names_of(runs: Sequence[RunReader]) -> dict[str, str]:
    """Names of runs in a figure, by folder: the part of the path in which they differ."""
    folders = {str(run.folder): Path(run.folder).absolute() for run in runs}
    common = Path(os.path.commonpath([folder.parent for folder in folders.values()]))
    return {name: str(folder.relative_to(common)) for name, folder in folders.items()}


def cost_choices(runs: Sequence[RunReader], count: Count) -> dict[str, list[tuple[float, ...]]]:
    """Costs of the measurements of runs by what they count, ``count`` first."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for way in sorted(COUNTED, key=lambda way: way != count):
        curves = [run.state.error_curve(way) for run in runs]
        found[COUNTED[way]] = [() if curve is None else curve.costs for curve in curves]
    return found


def unit_of(run: RunReader) -> str:
    """The unit of costs."""
    coarsest = run.costs[0]
    return "one coarsest solve = 1" if coarsest == 1 else f"in the task's unit; one coarsest solve = {coarsest:g}"


def meshes(run: Source) -> go.Figure:
    """Which mesh was chosen at which step."""
    reader = reader_of(run)
    # In the order of `mrafno show`, by which evaluations count steps.
    told = [step["level"] for step in reader.state.as_json()["steps"]]
    if not told:
        raise MrafnoError("plot: no example of this run has been chosen and simulated yet.")
    return timeline_figure(told, reader.meshes)


def calibration(run: Source) -> go.Figure:
    """Observed against stated coverage of central intervals at the last measurement."""
    reader = reader_of(run)
    if not reader.state.evaluations:
        raise MrafnoError("plot: nothing of this run has been measured. Create a run with test=1 or more.")
    last = reader.state.evaluations[-1]
    return calibration_figure({f"after step {last.step}": last.metrics["coverage"]})


def coverage(run: Source) -> go.Figure:
    """Coverage of 90 % intervals at every measurement, against cost."""
    reader = reader_of(run)
    last = {e.step: e for e in reader.state.evaluations}  # of several measurements of one step the last counts
    found = [e for e in last.values() if "0.9" in e.metrics["coverage"]]
    if not found:
        raise MrafnoError("plot: nothing of this run has been measured. Create a run with test=1 or more.")
    shares = [e.metrics["coverage"]["0.9"] for e in found]
    return coverage_figure([e.cost_of(reader.count) for e in found], shares, 0.9, unit_of(reader))


def learning_curves(run: Source, fits: int = FITS) -> go.Figure:
    """Losses of the members in the last fits."""
    reader = reader_of(run)
    curves = [curve for curve in read_fit_curves(reader.folder) if curve.fit <= len(reader.state.trainings)][-fits:]
    if not curves:
        raise MrafnoError("plot: there are no learning curves of this run; versions before 0.3 did not keep them.")
    courses = [Course(f"fit {c.fit} ({c.kind}, {counted(c.examples, 'example')})", c.steps, c.losses) for c in curves]
    return learning_figure(courses)


def simulations(run: Source) -> go.Figure:
    """Seconds of every simulation, and those that gave no output."""
    reader = reader_of(run)
    queries = [q for q in reader.state.queries.values() if q.status != "running" and not q.imported]
    if not queries:
        raise MrafnoError("plot: no simulation of this run has ended yet.")
    found = [
        Simulation(q.id, q.level, q.seconds, None if q.status == "told" else q.reason or q.status) for q in queries
    ]
    return simulations_figure(found, reader.meshes)


def time_spent(run: Source) -> go.Figure:
    """Seconds by activity."""
    return time_figure(reader_of(run).seconds)


def input_map(run: Source) -> go.Figure:
    """The candidates in the plane of the surrogate's features, what was chosen when and on which mesh."""
    reader = reader_of(run)
    found = inputs_of(reader)
    if found is None:
        raise MrafnoError(
            reader.trouble or "plot: the run has no checkpoint of its surrogate yet. Advance it, or save it."
        )
    return map_figure(reader, found)


def example(run: Source, query: str | None = None) -> go.Figure:
    """Input, truth, prediction with its spread, and error of a simulation.

    Args:
        query: its id; None for the test example whose error is the median of the first 40.
    """
    reader = reader_of(run)
    if query is None:
        f, y = reader.tests(_TESTS)
        if not len(f):
            raise MrafnoError("plot: the run has no test examples. Give the id of a query.")
        found, level = (f, y), len(reader.grids) - 1
    else:
        record = reader.state.queries.get(query)
        if record is None or (output := reader.output(record)) is None:
            raise MrafnoError(f"plot: there is no query {query!r} with an output in this run.")
        found, level = (reader.input(record)[None], output[None]), record.level
    prediction = reader.predict(found[0], level)
    if prediction is None:
        raise MrafnoError(reader.trouble or "plot: the run has no checkpoint of its surrogate yet.")
    order = np.argsort(reader.errors(prediction.mean, found[1]))
    row = int(order[(len(order) - 1) // 2])
    axes = Axes.of(reader.state.task, reader.grids[level])
    functions, _ = reader.split(found[0][row])
    return prediction_figure(axes, functions, found[1][row], prediction.mean[row], prediction.std[row])
