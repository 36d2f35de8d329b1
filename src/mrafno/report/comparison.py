"""A page about several runs: error against cost, and the cost to reach given errors."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrafno.analysis.curves import Curve, area, band, cost_to_reach, round_errors, rounded_cost
from mrafno.plot.bars import mixture_figure
from mrafno.plot.errors import Line, error_figure
from mrafno.plot.of_run import unit_of
from mrafno.plot.style import method_styles
from mrafno.plot.text import counted, duration, listed
from mrafno.report.html import Cells, Section
from mrafno.run.reader import RunReader
from mrafno.run.spending import COUNTED
from mrafno.tasks.labels import task_key, task_labels

#: Settings that do not change the choices of a run.
_IRRELEVANT = ("evaluate", "lease", "retries")


@dataclass(frozen=True)
class Group:
    """Runs of one task that differ in their seed alone, and the curves of those that were measured."""

    label: str
    method: str
    runs: tuple[RunReader, ...]

    @property
    def curves(self) -> list[Curve]:
        """Error against cost; a run with one measurement has just begun and is left out if others have more."""
        found = [c for c in (run.curve for run in self.runs) if c is not None]
        return [c for c in found if len(c.costs) > 1] or found


def comparison(runs: Sequence[RunReader], errors: Sequence[float] = ()) -> tuple[str, str, list[Section]]:
    """Title, first paragraph and sections; runs of different tasks have sections of their own."""
    tasks: dict[Any, list[RunReader]] = {}
    for run in runs:
        tasks.setdefault(_task_key(run), []).append(run)
    names = [here[0].state.task["name"] for here in tasks.values()]
    labels = [
        f"{name} ({', '.join(here[0].meshes)})" if names.count(name) > 1 else name
        for name, here in zip(names, tasks.values(), strict=True)
    ]
    if len(set(labels)) < len(labels):
        labels = task_labels([here[0].state.task for here in tasks.values()])
    sections: list[Section] = []
    for label, here in zip(labels, tasks.values(), strict=True):
        sections += _task_sections(label, here, errors)
    lead = f"{len(runs)} runs of {listed(list(dict.fromkeys(names)))}. Costs are those of {COUNTED[runs[0].count]}."
    return "Runs compared", lead, sections


def grouped(runs: Sequence[RunReader]) -> list[Group]:
    """Runs of one task by method and by the settings in which they differ."""
    settings = [run.state.settings.as_json() for run in runs]
    differ = [k for k in settings[0] if k not in _IRRELEVANT and any(s[k] != settings[0][k] for s in settings)]
    found: dict[str, list[RunReader]] = {}
    for run, values in zip(runs, settings, strict=True):
        label = ", ".join([run.state.method, *(f"{k} {values[k]}" for k in differ)])
        found.setdefault(label, []).append(run)
    return [Group(label, here[0].state.method, tuple(here)) for label, here in sorted(found.items())]


def _task_key(run: RunReader) -> Any:
    task = run.state.task
    return (*task_key(task), str(task["costs"]))


def _task_sections(name: str, runs: Sequence[RunReader], errors: Sequence[float]) -> list[Section]:
    groups = grouped(runs)
    measured = [group for group in groups if group.curves]
    counts = [np.mean([_counts(run) for run in group.runs], axis=0).tolist() for group in groups]
    figure = mixture_figure([group.label for group in groups], counts, runs[0].meshes)
    # The two figures stand side by side.
    sections: list[Section] = [
        _errors(name, measured, unit_of(runs[0]))
        if measured
        else (f"{name}: error against cost", "No error of these runs has been measured.", None),
        (
            f"{name}: queries per resolution",
            "How many simulations were chosen on each mesh, mean over a method's runs.",
            figure,
        ),
    ]
    if measured:
        sections.append(_reached(name, measured, errors))
    about = "Time is that of simulating, training, choosing and evaluating."
    return [*sections, (f"{name}: the runs", about, _runs(groups))]


def _errors(name: str, groups: Sequence[Group], unit: str) -> Section:
    styles = method_styles({group.label: group.method for group in groups})
    lines = []
    for group in groups:
        b = band(group.curves)
        several = len(group.curves) > 1
        label = f"{group.label} ({counted(len(group.curves), 'run')})"
        low, high = (b.low.tolist(), b.high.tolist()) if several else ((), ())
        lines.append(Line(label, b.costs.tolist(), b.middle.tolist(), low, high, styles[group.label]))
    text = (
        "Mean relative L2 error on test examples of the finest mesh. Lines: geometric mean over a method's runs, "
        "interpolated at common costs, up to the cost that all have reached. Bands: from the best to the worst run. On "
        "a logarithmic cost axis the start, at cost 0, is not visible."
    )
    return f"{name}: error against cost", text, error_figure(lines, unit)


def _reached(name: str, groups: Sequence[Group], errors: Sequence[float]) -> Section:
    curves = [c for group in groups for c in group.curves]
    lows = [statistics.median(min(c.errors) for c in group.curves) for group in groups]
    wanted = sorted(errors, reverse=True) or round_errors(min(lows), min(c.errors[0] for c in curves))
    first, upto = max(c.costs[0] for c in curves), min(c.costs[-1] for c in curves)
    rows: list[list[str]] = [["method", *(f"error {error:g}" for error in wanted)]]
    rows += [[group.label, *(_cost_cell(group.curves, error) for error in wanted)] for group in groups]
    if first < upto:
        rows[0].append(f"mean error up to cost {rounded_cost(upto)}")
        for row, group in zip(rows[1:], groups, strict=True):
            row.append(f"{statistics.fmean(area(c, upto) / (upto - c.costs[0]) for c in group.curves):.4g}")
    text = (
        "Accumulated cost at which a run's error first fell to a value, with the logarithm of the error interpolated "
        "between measurements; a later rise does not count. Median over runs, and in brackets the lowest and the "
        "highest, or the number of runs that reached it."
    )
    if not errors:
        text += " The errors are round numbers below all initial errors that at least one method reached."
    return f"{name}: cost to reach an error", text, rows


def _cost_cell(curves: Sequence[Curve], error: float) -> str:
    """Median cost; a run that did not reach the error counts as infinite, so that the median is not too low."""
    costs = [cost_to_reach(c, error) for c in curves]
    reached = [cost for cost in costs if cost is not None]
    if not reached:
        return "not reached"
    middle = statistics.median(math.inf if cost is None else cost for cost in costs)
    first = rounded_cost(middle) if math.isfinite(middle) else "not reached"
    if len(reached) < len(curves):
        return f"{first} ({len(reached)} of {len(curves)} runs)"
    return f"{first} ({rounded_cost(min(reached))} to {rounded_cost(max(reached))})" if len(curves) > 1 else first


def _counts(run: RunReader) -> list[int]:
    told = run.state.of_kind("pool", "told")
    return [sum(q.level == level for q in told) for level in range(len(run.grids))]


def _runs(groups: Sequence[Group]) -> Cells:
    rows = [("folder", "method", "seed", "steps", "cost", "error", "time", "state")]
    for group in groups:
        for run in sorted(group.runs, key=lambda run: run.state.seed):
            state, error = run.state, "not measured"
            if state.measurements:
                last = state.measurements[-1]
                error = f"{last.metrics['relative_l2']:.4g} (step {last.step})"
            time = duration(sum(run.seconds.values()))
            numbers = (str(state.seed), str(state.step), f"{run.cost:.6g}")
            rows.append((str(run.folder), group.label, *numbers, error, time, run.activity))
    return rows
