"""Queries of each mesh in each stage of the runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from mrafno.plot.style import level_styles, new_figure
from mrafno.report.html import Cells, Section
from mrafno.run.methods import METHODS
from mrafno.studies.active import Entry, Result
from mrafno.studies.curves_report import entries
from mrafno.studies.pages import Study
from mrafno.studies.summary import Spread, pm

STAGES = 5
_COLUMNS = 4
_PAPER = (
    "The paper (Li et al. 2024) anneals costs so that the fine mesh is not over-penalised at the early stage, "
    "and says that otherwise choices are often stuck at the coarse mesh."
)


@dataclass(frozen=True)
class Stage:
    """Steps from first to last, both included, and the queries of each level in them."""

    first: int
    last: int
    counts: tuple[Spread, ...]


def queries_study(study: Study, methods: str = "", stages: int = STAGES) -> None:
    """Do the missing runs, then report the queries of each mesh."""
    chosen = (
        entries(methods)
        if methods
        else [Entry(m.name, m.name) for m in METHODS.values() if not m.name.endswith(("-low", "-high"))]
    )
    found = study.results(chosen)
    counted = {label: stage_counts(some, stages, _steps(found.runs)) for label, some in found.runs.items()}
    cells, short = (stage_cells(counted, study.meshes, short=short) for short in (False, True))
    heading = f"Queries of each mesh in {len(next(iter(counted.values())))} stages"
    text = f"Mean and standard deviation over runs, {found.each}; the steps of a stage are at the top."
    sections: list[Section] = [
        ("Stage by stage", "A bar is a stage; means over runs.", stages_figure(counted, study.meshes)),
        (heading, text, cells),
    ]
    left_out = "" if methods else "; methods that use one mesh only are left out"
    lead = f"Queries of each mesh, by method and stage{left_out}. {_PAPER}"
    title = f"Queries: {study.setup.task}"
    study.write(
        title, lead, sections, [(f"{heading}, {found.each}", short)], {"stages": counted, "meshes": study.meshes}, found
    )


def _steps(runs: Mapping[str, Sequence[Result]]) -> int:
    return max(r.state.step for some in runs.values() for r in some)


def stage_bounds(steps: int, stages: int) -> list[tuple[int, int]]:
    """First and last step of stages of nearly equal length; no stage is empty."""
    ends = [round(steps * i / min(stages, steps)) for i in range(min(stages, steps) + 1)]
    return [(first + 1, last) for first, last in pairwise(ends)]


def stage_counts(some: Sequence[Result], stages: int, steps: int) -> list[Stage]:
    """Queries of each level in each stage, over the runs of one method."""
    found = []
    for first, last in stage_bounds(max(steps, 1), stages):
        counts = np.array([r.counts(first, last) for r in some])
        found.append(Stage(first, last, tuple(Spread.of(column.tolist()) for column in counts.T)))
    return found


def stage_cells(counted: Mapping[str, Sequence[Stage]], meshes: Sequence[str], *, short: bool = False) -> Cells:
    """A row for each method and mesh, a column for each stage; ``short`` has no deviations."""
    stages = next(iter(counted.values()))
    lines = [["method", "mesh", *(f"{stage.first} to {stage.last}" for stage in stages), "in all"]]
    for label, some in counted.items():
        for level, mesh in enumerate(meshes):
            total = sum(stage.counts[level].mean for stage in some)
            numbers = [
                (f"{stage.counts[level].mean:.1f}" if short else pm(stage.counts[level], ".1f")) for stage in some
            ]
            lines.append(["" if level else label, mesh, *numbers, f"{total:.1f}"])
    return lines


def stages_figure(counted: Mapping[str, Sequence[Stage]], meshes: Sequence[str]) -> go.Figure:
    """A panel of stacked bars for each method."""
    columns = min(_COLUMNS, len(counted))
    rows = -(-len(counted) // columns)
    figure = new_figure(
        rows, columns, subplot_titles=list(counted), shared_yaxes="all", horizontal_spacing=0.03,
        vertical_spacing=0.34 / rows,
    )  # fmt: skip
    for place, some in enumerate(counted.values()):
        names = [f"{stage.first} to {stage.last}" for stage in some]
        for level, (mesh, style) in enumerate(zip(meshes, level_styles(len(meshes)), strict=True)):
            figure.add_bar(
                x=names, y=[stage.counts[level].mean for stage in some], name=mesh, legendgroup=mesh,
                marker=style.bar(level),
                showlegend=place == 0, hovertemplate="%{y:.1f}", row=place // columns + 1, col=place % columns + 1,
            )  # fmt: skip
    figure.update_yaxes(title_text="queries", col=1)
    figure.update_xaxes(tickangle=-35)
    figure.update_annotations(font_size=14)
    figure.update_layout(
        barmode="stack", height=120 + 230 * rows,
        margin={"l": 60, "r": 20, "t": 60, "b": 90},
        legend={"orientation": "h", "y": -0.32 / rows, "title_text": "mesh"},
    )  # fmt: skip
    return figure
