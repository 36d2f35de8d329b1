"""The study of error against cost: tables and figure."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from mrafno.analysis.curves import at_costs
from mrafno.errors import MrafnoError
from mrafno.plot.errors import Line, error_figure
from mrafno.plot.style import Style, method_styles
from mrafno.report.html import Cells, Section
from mrafno.run.methods import METHODS
from mrafno.run.spending import COUNTED
from mrafno.studies.active import Entry
from mrafno.studies.curves import REFERENCE, Comparison, MeanCurve, Pair, Reach, as_json, compare
from mrafno.studies.pages import Study
from mrafno.studies.summary import NOTHING, pm

#: Points of a line in the figure, and how many of them have a marker.
_POINTS, _MARKERS = 80, 12
_PAPER = (
    "The paper (Li et al. 2024) reports an advantage of its own methods, u and u-hat, over random and coreset "
    "choices at equal cost, and says that without annealed costs choices are often stuck at the coarse mesh."
)


def entries(methods: str) -> list[Entry]:
    """From a comma-separated list; all methods if it is empty."""
    found = [Entry.parse(text) for text in methods.split(",") if text.strip()] or [Entry(m, m) for m in METHODS]
    labels = [entry.label for entry in found]
    if twice := {label for label in labels if labels.count(label) > 1}:
        raise MrafnoError(f"study: {', '.join(sorted(twice))} is given twice. Give each method once.")
    return found


def curves_study(study: Study, methods: str = "", errors: Sequence[float] | None = None) -> None:
    """Do the missing runs, then report error against cost."""
    found = study.results(entries(methods))
    comparison = compare(found.runs, errors)
    tables = _tables(comparison, study.meshes, found.each)
    task, settings = study.setup.task, study.setup.settings
    lead = (
        f"Mean relative L2 error on {settings.test} test examples of the finest mesh against the accumulated cost of "
        f"{COUNTED[study.setup.count]}; {found.each}. All methods begin with the same {settings.initial} initial "
        f"examples of every mesh. {_PAPER}"
    )
    figure = mean_figure(comparison.means, method_styles(found.methods), task)
    sections: list[Section] = [
        ("Error against cost", f"{band_text(comparison.means)} A click on a name hides it.", figure),
        *tables,
    ]
    printed = [(heading, cells) for heading, _, cells in _tables(comparison, study.meshes, found.each, short=True)]
    study.write(f"Error against cost: {task}", lead, sections, printed, as_json(comparison, found.runs), found)


def _tables(
    comparison: Comparison, meshes: Sequence[str], each: str, short: bool = False
) -> list[tuple[str, str, Cells]]:
    """Heading, explanation and cells; ``short`` leaves out what does not fit a terminal."""
    tables: list[tuple[str, str, Cells]] = [
        (
            "At the end of the runs",
            f"Mean and standard deviation over runs, {each}; every run ends at its own cost.",
            end_cells(comparison, meshes),
        ),
        (
            "Area under the curve",
            "Divided by the cost at the top, up to which it reaches: the mean error on the way.",
            area_cells(comparison),
        ),
    ]
    if comparison.errors:
        text = (
            "Cost at which the error was first at or below the number at the top. A dash: no run reached it. In "
            "brackets: how many did, if not all."
        )
        tables.append(("Cost to reach an error", text, reach_cells(comparison)))
    if comparison.pairs:
        text = (
            "Of the costs that both mean curves have, the last two thirds: at how many of them ours has the lower mean "
            "error. In brackets: how many times lower it is there (geometric mean), and which costs were compared."
        )
        tables.append(("At equal cost: ours against the others", text, pair_cells(comparison, short=short)))
    if comparison.savings:
        text = (
            f"Cost to reach the error that {REFERENCE} has at its end; 1 is what {REFERENCE} spent in all. Of the mean "
            "curves, and of every run beside the one of the same seed."
        )
        tables.append((f"The part of the cost of {REFERENCE} for its final error", text, saving_cells(comparison)))
    return tables


def end_cells(comparison: Comparison, meshes: Sequence[str]) -> Cells:
    """Error, cost and chosen examples of each mesh at the end of the runs."""
    lines = [["method", "n", "steps", "relative L2", "cost", *(f"of {mesh}" for mesh in meshes)]]
    for row in comparison.rows:
        steps = str(row.steps[0]) if row.steps[0] == row.steps[1] else f"{row.steps[0]} to {row.steps[1]}"
        counts = [f"{count:.0f}" for count in row.counts]
        lines.append([row.label, str(row.n), steps, pm(row.error), pm(row.cost, ".0f"), *counts])
    return lines


def area_cells(comparison: Comparison, what: str = "method") -> Cells:
    """Mean errors on the way to some costs."""
    lines = [[what, *(f"to cost {cost:.0f}" for cost in comparison.area_costs)]]
    for row in comparison.rows:
        areas = zip(row.areas, comparison.area_costs, strict=True)
        lines.append([row.label, *(pm(area, ".4f", 1 / cost) for area, cost in areas)])
    return lines


def reach_cells(comparison: Comparison) -> Cells:
    """What each error cost; in brackets how many runs reached it, if not all did."""
    lines = [["method", *(f"{error:g}" for error in comparison.errors)]]
    return lines + [[row.label, *map(_reached, row.reached)] for row in comparison.rows]


def _reached(reach: Reach) -> str:
    if reach.cost is None:
        return NOTHING
    return pm(reach.cost, ".0f") + ("" if reach.cost.n == reach.n else f" ({reach.cost.n} of {reach.n})")


def pair_cells(comparison: Comparison, *, short: bool = False) -> Cells:
    """Ours by column, the others by row: share of the costs, and how many times lower the error is."""
    ours = list(dict.fromkeys(pair.ours for pair in comparison.pairs))
    others = list(dict.fromkeys(pair.other for pair in comparison.pairs))
    known = {(pair.ours, pair.other): pair for pair in comparison.pairs}
    return [["against", *ours]] + [
        [other, *(_pair(known.get((mine, other)), short) for mine in ours)] for other in others
    ]


def _pair(pair: Pair | None, short: bool) -> str:
    if pair is None:
        return NOTHING
    where = "" if short else f", {pair.first:.0f} to {pair.last:.0f}"
    return f"{100 * pair.share:.0f} % ({pair.gain:.2f}x{where})"


def saving_cells(comparison: Comparison) -> Cells:
    """The part of the reference's cost that each method needs, from the mean curves and seed by seed."""
    lines = [["method", "mean curves", "seed by seed"]]
    for one in comparison.savings:
        seeds = ", ".join(NOTHING if ratio is None else f"{ratio:.3f}" for ratio in one.seeds)
        lines.append([one.label, "not reached" if one.ratio is None else f"{one.ratio:.3f}", seeds])
    return lines


def mean_figure(means: Mapping[str, MeanCurve], styles: Mapping[str, Style], task: str) -> go.Figure:
    """Mean curves with bands."""
    lines, sizes = [], {}
    least = min((cost for mean in means.values() for cost in mean.curve.costs if cost > 0), default=1.0) / 3
    for label, mean in means.items():
        costs = _drawn_costs(mean.curve.costs, least)
        middle, low, high = at_costs([mean.curve, mean.lowest, mean.highest], costs).tolist()
        bounds = (low, high) if mean.n > 1 else ([], [])
        lines.append(Line(label, costs, middle, bounds[0], bounds[1], styles[label]))
        sizes[label] = _marker_sizes(costs)
    figure = error_figure(lines, f"a coarsest solve of {task} is 1")
    for trace in figure.select_traces(lambda trace: trace.name in sizes):
        # The legend would show the mean size of all markers, so it has an empty trace of its own.
        figure.add_scatter(
            x=[None], y=[None], name=trace.name, legendgroup=trace.legendgroup, showlegend=trace.showlegend,
            **styles[trace.name].scatter(),
        )  # fmt: skip
        trace.update(showlegend=False, marker_size=sizes[trace.name])
    return figure


def band_text(means: Mapping[str, MeanCurve]) -> str:
    """A sentence that explains lines and bands."""
    if all(mean.n == 1 for mean in means.values()):
        return "Every line is one run."
    return "Lines are means over runs, bands reach from the lowest run to the highest."


def _drawn_costs(costs: Sequence[float], least: float) -> list[float]:
    """Costs at which a line is drawn: dense enough to follow the interpolation on a logarithmic axis too."""
    last = costs[-1]
    between = np.geomspace(least, last, _POINTS)[:-1].tolist() if last > least else []
    every = np.linspace(0, len(costs) - 1, min(_POINTS, len(costs))).round().astype(int)
    return sorted({*(costs[i] for i in every), *(cost for cost in between if cost > costs[0])})


def _marker_sizes(costs: Sequence[float]) -> list[float]:
    """Marker sizes, zero but for a few markers: one at every point would hide the lines."""
    marked = {int(np.searchsorted(costs, cost)) for cost in np.linspace(costs[0], costs[-1], _MARKERS)}
    return [7.0 if i in marked else 0.0 for i in range(len(costs))]
