"""The fixed-data study: progress, table, JSON file and page."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mrafno.data.cache import solve_examples
from mrafno.errors import MrafnoError
from mrafno.plot.axes import Axes
from mrafno.plot.bars import bars_figure
from mrafno.plot.errors import calibration_figure
from mrafno.plot.fields import prediction_figure
from mrafno.plot.text import counted, duration
from mrafno.report.html import Cells, write_page
from mrafno.studies.fixed import PAPER, SHOWN, TEST_SEED, Job, Row, Setup, examples, jobs, run_study, table
from mrafno.studies.summary import Spread, as_table, pm, write_json
from mrafno.tasks import get_task

_HEAD = ("method", "relative L2", "NLL", "per value", "coarse only", "90 % cover", "fit")


def run_and_report(
    task: str, methods: Sequence[str], seeds: int, out: Path, preset: str, workers: int, quick: bool
) -> None:
    """Do the missing runs, then print the table and write ``TASK.json`` and ``TASK.html``."""
    setup = Setup.quick(task, preset) if quick else Setup(task, preset)
    todo = jobs(setup, methods, seeds)
    if out.exists() and not out.is_dir():
        raise MrafnoError(f"study: {out} is a file. Give a folder with --out.")
    console = Console()
    _simulate(setup, seeds)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        whole = bar.add_task(f"{task}: runs", total=len(todo))
        inner = bar.add_task("", total=100, visible=workers == 1)

        def watch(job: Job, share: float, loss: float, error: float) -> None:
            out_of_fold = f", out-of-fold error {error:.4f}" if np.isfinite(error) else ""
            text = f"{job.method} {job.mix} seed {job.seed}: loss {loss:.3f}{out_of_fold}"
            bar.update(inner, completed=int(100 * share), description=text)

        def done(job: Job, result: dict[str, Any]) -> None:
            bar.advance(whole)
            if not bar.console.is_terminal:
                error = result["metrics"]["relative_l2"]
                bar.console.print(
                    f"{job.method} {job.mix} seed {job.seed}: {error:.4f} in {duration(result['seconds'])}"
                )

        results = run_study(todo, out, workers=workers, watch=watch, done=done)
    rows = table(results)
    cells = as_cells(task, rows)
    size = f"{setup.examples} + {setup.examples} examples, {counted(seeds, 'run')}"
    console.print(as_table(f"{task}: {size} (in brackets: the paper)", cells))
    summary = {"setup": asdict(setup), "rows": [asdict(row) for row in rows], "paper": PAPER[task]}
    write_json(out / f"{task}.json", summary)
    page = out / f"{task}.html"
    write_study_page(page, setup, rows, cells, results)
    console.print(f"Results: {out / (task + '.json')}. Page: {page.resolve().as_uri()}")


def _simulate(setup: Setup, seeds: int) -> None:
    """Simulate all examples into the cache before the runs start."""
    task = get_task(setup.task)
    solve_examples(task, task.sample(setup.tests, seed=TEST_SEED), task.levels - 1)
    for seed in range(seeds):
        for mix in ("mixed", "coarse"):
            examples(task, setup, seed, mix, progress=True)


def as_cells(task: str, rows: Sequence[Row]) -> Cells:
    """The table as text, with the paper's figures in brackets."""
    lines = [_HEAD]
    for row in rows:
        error, nll, increase = PAPER[task][row.method]
        lines.append(
            (
                row.method,
                f"{_pm(row, row.error, '.4f')} ({error:.4f})",
                _pm(row, row.nll, ".0f") + (f" ({nll:g})" if nll is not None else ""),
                _pm(row, row.nll_per_value, ".2f"),
                f"{_pm(row, row.increase, '+.0f')} % ({increase:+g} %)",
                f"{100 * row.coverage['0.9']:.1f} %",
                duration(row.seconds),
            )
        )
    return lines


def _pm(row: Row, value: tuple[float, float], form: str) -> str:
    mean, deviation = value
    return pm(Spread(mean, deviation or None, row.seeds), form)


def write_study_page(
    path: Path, setup: Setup, rows: Sequence[Row], cells: Cells, results: Sequence[dict[str, Any]]
) -> None:
    """The study as one HTML file."""
    names = [row.method for row in rows]
    paper = PAPER[setup.task]
    coarse = {
        name: [
            r["metrics"]["relative_l2"] for r in results if r["job"]["method"] == name and r["job"]["mix"] == "coarse"
        ]
        for name in names
    }
    half = f"{setup.examples} fine and {setup.examples} coarse"
    sections: list[tuple[str, str, Any]] = [
        (
            "The table",
            f"Mean and standard deviation over {counted(rows[0].seeds, 'run')}, the paper's in brackets. NLL: of "
            "a test function in normalised units, every value under its own Gaussian, summed over values. Coarse only: "
            "change of the error when the fine examples become coarse ones.",
            cells,
        ),
        (
            "Error",
            "Mean relative L2 error on the finest mesh.",
            bars_figure(
                names,
                {
                    f"{half} examples": [row.error for row in rows],
                    f"{2 * setup.examples} coarse examples": [(float(np.mean(coarse[n])), 0.0) for n in names],
                    "paper": [(paper[n][0], 0.0) for n in names],
                },
                "relative L2 error",
            ),
        ),
        (
            "Calibration",
            "Share of the values inside each method's central intervals.",
            calibration_figure({row.method: row.coverage for row in rows}),
        ),
    ]
    task = get_task(setup.task)
    f = task.sample(setup.tests, seed=TEST_SEED)[:SHOWN]
    truth = solve_examples(task, task.sample(setup.tests, seed=TEST_SEED), task.levels - 1, progress=False)[:SHOWN]
    for result in results:
        if "shown" not in result:
            continue
        mean, std = np.array(result["shown"]["mean"]), np.array(result["shown"]["std"])
        for i in range(len(f)):
            figure = prediction_figure(Axes.of_task(task), f[i], truth[i], mean[i], std[i])
            sections.append((f"{result['job']['method']}: test input {i}", "On the finest mesh, one run.", figure))
    lead = f"{setup.task}, preset {setup.preset}, {half} examples, {setup.tests} test examples."
    write_page(path, f"Five kinds of inference: {setup.task}", lead, sections)
