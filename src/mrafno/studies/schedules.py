"""Cost schedules: both decays at several rates, for one method."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from mrafno.acquisition.cost import Schedule, annealed_cost, cost_shares
from mrafno.errors import MrafnoError
from mrafno.plot.style import AMBER, BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Style, new_figure
from mrafno.report.html import Cells, Section
from mrafno.run.methods import get_method
from mrafno.studies.active import Entry
from mrafno.studies.curves import Comparison, as_json, compare
from mrafno.studies.curves_report import area_cells, band_text, mean_figure
from mrafno.studies.pages import Study
from mrafno.studies.summary import pm
from mrafno.tasks.base import Task

#: The rates of the paper.
ALPHAS = (0.002, 0.005, 0.01, 0.02, 0.5, 1.0)
DECAYS: tuple[Schedule, ...] = ("exp", "sigmoid")
_LOOKS = (
    (BLUE, "solid", "circle"), (ORANGE, "dash", "square"), (GREEN, "dot", "diamond"), (PURPLE, "dashdot", "x"),
    (AMBER, "longdash", "triangle-up"), (SKY, "solid", "star"), (BLACK, "dash", "cross"), (GREY, "dot", "pentagon"),
)  # fmt: skip
_PAPER = (
    "The paper (Li et al. 2024) anneals costs so that the fine mesh is not over-penalised at the early stage, "
    "and leaves the choice of the rate to hand tuning. The larger alpha, the sooner costs count in full."
)


def schedule_entries(method: str, alphas: Sequence[float]) -> list[Entry]:
    """Both decays at every rate."""
    if not get_method(method).divide_by_cost:
        raise MrafnoError(f"study: {method} has no cost schedule to study. Choose mra-uhat, mra-u or mr-predvar.")
    return [
        Entry(f"{decay} {alpha:g}", method, {"schedule": decay, "alpha": alpha})
        for decay in DECAYS
        for alpha in dict.fromkeys(alphas)
    ]


def schedules_study(study: Study, method: str = "mra-uhat", alphas: Sequence[float] = ALPHAS) -> None:
    """Do the missing runs, then report the results of each schedule."""
    found = study.results(schedule_entries(method, alphas))
    comparison = compare(found.runs)
    cells = schedule_cells(comparison, study.meshes)
    areas = area_cells(comparison, "schedule")
    sections: list[Section] = []
    styles = alpha_styles(alphas)
    for decay in DECAYS:
        means = {label: mean for label, mean in comparison.means.items() if label.startswith(f"{decay} ")}
        if means:
            looks = {label: styles[label.split()[1]] for label in means}
            text = f"{band_text(means)} The numbers are alpha."
            sections.append((f"Error against cost: {decay}", text, mean_figure(means, looks, study.setup.task)))
    text = "Mean and standard deviation over runs; every run ends at its own cost. Fine: share of the finest mesh."
    sections.append(("At the end of the runs", text, cells))
    text = "Divided by the cost at the top, up to which it reaches: the mean error on the way."
    sections.append(("Area under the curve", text, areas))
    for decay in DECAYS:
        text = "Weight of a solve on each mesh at each step; grey and dotted is the true share of its cost."
        figure = weights_figure(study.task, decay, alphas, study.setup.steps, study.meshes)
        sections.append((f"The schedule: {decay}", text, figure))
    lead = (
        f"{method} with two decays of the equal start, exp(-alpha t) and 2 (1 - sigmoid(alpha t)), {found.each}. "
        f"{_PAPER} An alpha that is read off this page was chosen on these test "
        "examples; report it as such."
    )
    summary = {"method": method, "alphas": list(alphas), **as_json(comparison, found.runs)}
    printed = [(f"{method}: at the end of the runs", cells), ("Area under the curve / cost", areas)]
    study.write(f"Cost schedules: {study.setup.task}", lead, sections, printed, summary, found)


def alpha_styles(alphas: Sequence[float]) -> dict[str, Style]:
    """A style for every rate, by its text."""
    return {f"{alpha:g}": Style(*_LOOKS[i % len(_LOOKS)]) for i, alpha in enumerate(dict.fromkeys(alphas))}


def schedule_cells(comparison: Comparison, meshes: Sequence[str]) -> Cells:
    """Final error, cost and mixture of every schedule."""
    lines = [["schedule", "n", "relative L2", "cost", *(f"of {mesh}" for mesh in meshes), "fine"]]
    for row in comparison.rows:
        counts = [f"{count:.0f}" for count in row.counts]
        share = row.counts[-1] / max(sum(row.counts), 1)
        lines.append([row.label, str(row.n), pm(row.error), pm(row.cost, ".0f"), *counts, f"{100 * share:.0f} %"])
    return lines


def weights_figure(
    task: Task, decay: Schedule, alphas: Sequence[float], steps: int, meshes: Sequence[str]
) -> go.Figure:
    """Annealed cost weights against the step, a panel for each mesh."""
    shares = cost_shares(task.costs)
    # Fast rates change within a few steps.
    at = np.unique(np.concatenate([np.arange(1, min(steps, 20) + 1), np.linspace(1, steps, 200)]))
    figure = new_figure(
        1, len(meshes), subplot_titles=[f"mesh {mesh}" for mesh in meshes], shared_yaxes=True, horizontal_spacing=0.04
    )
    for alpha, style in alpha_styles(alphas).items():
        # Steps count from 1, schedules from 0.
        weights = [annealed_cost(task.costs, float(t - 1), schedule=decay, rate=float(alpha)) for t in at]
        for level in range(len(meshes)):
            figure.add_scatter(
                x=at, y=[row[level] for row in weights], name=alpha, legendgroup=alpha, showlegend=level == 0,
                mode="lines", line={"color": style.colour, "dash": style.dash}, row=1, col=level + 1,
                hovertemplate="step %{x:.0f}, weight %{y:.3f}",
            )  # fmt: skip
    for level, share in enumerate(shares):
        figure.add_hline(y=share, line={"color": GREY, "dash": "dot", "width": 1}, row=1, col=level + 1)
    figure.update_xaxes(title_text="step")
    figure.update_yaxes(range=[0, 1.02])
    figure.update_yaxes(title_text="weight of one solve's cost", col=1)
    figure.update_layout(
        height=400, margin={"l": 60, "r": 20, "t": 60, "b": 50},
        legend={"title_text": "alpha"},
    )  # fmt: skip
    return figure
