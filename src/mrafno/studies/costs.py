"""Measured cost of one solve on each mesh, beside the paper's figures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from mrafno._version import __version__
from mrafno.data.cache import make_inputs
from mrafno.errors import MrafnoError
from mrafno.plot.bars import bars_figure
from mrafno.plot.text import counted, mesh_name
from mrafno.report.html import Cells, write_page
from mrafno.studies.summary import NOTHING, Spread, as_table, pm, write_json
from mrafno.tasks import TASKS, Task, get_task
from mrafno.tasks.costs import PUBLISHED, MeasuredCosts, measure_costs

_LEAD = (
    "Seconds of one solve on each mesh, measured one at a time with the meshes in turn, and the ratio to the coarsest "
    "mesh beside the paper's (Li et al. 2024), which is the cost that runs use. The paper used other solvers on "
    "another machine, so the ratios need not agree."
)


def costs_study(names: Sequence[str], out: Path, *, solves: int = 100, seeds: int = 3, note: str = "") -> None:
    """Measure what is missing, ``solves`` on every mesh once per seed, and report it."""
    tasks = {name: get_task(name) for name in (names or TASKS)}
    if solves < 1 or seeds < 1:
        raise MrafnoError(f"study: cannot measure {solves} solves with {seeds} seeds. Give 1 or more of each.")
    if out.exists() and not out.is_dir():
        raise MrafnoError(f"{out} is a file. Give a folder with --out.")
    measured: dict[str, list[MeasuredCosts]] = {}
    notes = Console(stderr=True)
    with Progress(console=notes, disable=not notes.is_terminal) as bar:
        ticket = bar.add_task("", total=len(tasks) * seeds)
        for name, task in tasks.items():
            for seed in range(seeds):
                bar.update(ticket, description=f"{name} seed {seed}")
                measured.setdefault(name, []).append(measure(task, solves, seed, out / "measured"))
                bar.advance(ticket)
    cells = cost_cells(tasks, measured)
    console = Console()
    console.print(as_table(f"Cost of one solve: {solves} solves, {counted(seeds, 'measurement')}", cells))
    summary = {
        "study": "costs", "version": __version__, "solves": solves, "seeds": seeds, "note": note,
        "tasks": {name: _as_json(tasks[name], some) for name, some in measured.items()},
    }  # fmt: skip
    write_json(out / "costs.json", summary)
    page = out / "costs.html"
    write_page(page, "Cost of one solve", " ".join([_LEAD, note]).strip(), _sections(tasks, measured, cells, solves))
    console.print(f"Results: {out / 'costs.json'}. Page: {page.resolve().as_uri()}", soft_wrap=True)


def measure(task: Task, solves: int, seed: int, folder: Path) -> MeasuredCosts:
    """One measurement, from its file if it is there."""
    file = folder / f"{task.name}-{solves}-seed{seed}.json"
    if file.exists():
        values = json.loads(file.read_text(encoding="utf-8"))
        if values.pop("identity") == task.identity:
            return MeasuredCosts(tuple(values.pop("seconds")), tuple(values.pop("bias")), **values)
    found = measure_costs(task, make_inputs(task, solves, seed, progress=False))
    write_json(file, {**asdict(found), "identity": task.identity})
    return found


def cost_cells(tasks: Mapping[str, Task], measured: Mapping[str, Sequence[MeasuredCosts]]) -> Cells:
    """A row for each task and mesh."""
    lines = [["task", "mesh", "ms", "cost ratio", "paper", "distance from finest"]]
    for name, some in measured.items():
        for level, shape in enumerate(tasks[name].resolutions):
            finest = level == tasks[name].levels - 1
            bias = Spread.of([m.bias[level] for m in some])
            lines.append(
                [
                    "" if level else name,
                    mesh_name(shape),
                    pm(Spread.of([m.seconds[level] for m in some]), ".2f", 1e3),
                    pm(Spread.of([m.ratios[level] for m in some]), ".1f") if level else "1",
                    f"{PUBLISHED[name][level]:g}",
                    NOTHING if finest else f"{100 * bias.mean:.2f} %",
                ]
            )
    return lines


def _sections(
    tasks: Mapping[str, Task], measured: Mapping[str, Sequence[MeasuredCosts]], cells: Cells, solves: int
) -> list[Any]:
    seeds = len(next(iter(measured.values())))
    names, ours, published = [], [], []
    for name, some in measured.items():
        for level in range(1, tasks[name].levels):
            names.append(f"{name} {mesh_name(tasks[name].resolutions[level])}")
            spread = Spread.of([m.ratios[level] for m in some])
            ours.append((spread.mean, spread.deviation or 0.0))
            published.append((PUBLISHED[name][level], 0.0))
    text = (
        f"Means{' and standard deviations' if seeds > 1 else ''} of {counted(seeds, 'measurement')} of {solves} solves "
        "each. Distance: relative L2 distance of the coarse solution from the finest one, at the coarse mesh's points."
    )
    figure = bars_figure(names, {"measured": ours, "paper": published}, "cost, relative to the coarsest mesh")
    return [("The table", text, cells), ("Ratios", "Relative to the coarsest mesh of the same task.", figure)]


def _as_json(task: Task, some: Sequence[MeasuredCosts]) -> dict[str, Any]:
    return {
        "resolutions": task.resolutions,
        "published": PUBLISHED[task.name],
        "seconds": [Spread.of([m.seconds[level] for m in some]) for level in range(task.levels)],
        "ratios": [Spread.of([m.ratios[level] for m in some]) for level in range(task.levels)],
        "distance": [Spread.of([m.bias[level] for m in some]) for level in range(task.levels)],
    }
