"""Runs as tables for people: one by itself, several beside each other."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mrafno.curves import Curve, cost_to_reach, round_errors
from mrafno.display import Snapshot, duration
from mrafno.state import Asked, RunState

#: Failed and running queries that are listed; the others are counted.
_LISTED = 8
#: Errors whose costs are told if nobody chose any.
_ERRORS = 3


def run_table(state: RunState, folder: Path) -> RenderableType:
    """A run: its figures, its queries on each mesh, and what failed."""
    now = Snapshot.of(state)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    aside = {
        kind: sum(q.cost for q in state.queries.values() if q.kind == kind and q.status == "told")
        for kind in ("initial", "test")
    }
    rows = [
        ("run", str(folder)),
        ("task", state.task["name"]),
        ("method", f"{state.method}, seed {state.seed}"),
        ("state", state.activity),
        ("steps", str(now.step)),
        ("cost", f"{now.cost:g}, and {aside['initial']:g} of initial and {aside['test']:g} of test examples"),
        ("error", "not measured yet" if now.error is None else f"{now.error:.4f} after step {now.measured}"),
        ("estimate", "none yet" if now.estimate is None else f"{now.estimate:.4f}, by the run itself"),
        ("time", ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in now.seconds.items())),
    ]
    if state.running:
        rows.append(("running", _listed([f"{q.id} ({now.meshes[q.level]})" for q in state.running])))
    for name, value in rows:
        grid.add_row(name, Text(value))
    parts: list[RenderableType] = [grid, _queries(state, now.meshes)]
    failed = [q for q in state.queries.values() if q.status in ("failed", "abandoned")]
    return Group(*parts, _failed(failed, now.meshes)) if failed else Group(*parts)


def _queries(state: RunState, meshes: Sequence[str]) -> Table:
    table = Table(title="Simulations", title_justify="left")
    statuses = [
        s for s in ("running", "failed", "abandoned", "expired") if any(q.status == s for q in state.queries.values())
    ]
    columns = ("mesh", "cost of one", "initial", "chosen", "test", *statuses)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    for level, mesh in enumerate(meshes):
        here = [q for q in state.queries.values() if q.level == level]
        told = [sum(q.kind == kind and q.status == "told" for q in here) for kind in ("initial", "pool", "test")]
        others = [sum(q.status == status for q in here) for status in statuses]
        table.add_row(mesh, f"{state.task['costs'][level]:g}", *map(str, told), *map(str, others))
    return table


def _failed(queries: Sequence[Asked], meshes: Sequence[str]) -> Table:
    table = Table(title=f"Without output, the last of {len(queries)}", title_justify="left")
    for name in ("query", "mesh", "what", "reason"):
        table.add_column(name, overflow="fold")
    for q in queries[-_LISTED:]:
        table.add_row(q.id, meshes[q.level], q.status, Text(q.reason or ""))
    return table


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def comparison(runs: Sequence[tuple[Path, RunState]], errors: Sequence[float]) -> dict[str, Any]:
    """Figures of several runs; ``reached`` are costs by error, None where a run did not come so far."""
    curves = [_curve(state) for _, state in runs]
    known = [curve for curve in curves if curve is not None]
    wanted = sorted(errors, reverse=True)
    if not errors and known:
        low = min(min(curve.errors) for curve in known)
        wanted = round_errors(low, statistics.median(curve.errors[0] for curve in known), _ERRORS)
    return {
        "errors": wanted,
        "runs": [
            {
                "run": str(folder),
                "task": state.task["name"],
                "method": state.method,
                "seed": state.seed,
                "state": state.activity,
                "steps": state.step,
                "accumulated_cost": state.cost,
                "error": None if curve is None else curve.errors[-1],
                "reached": {f"{error:g}": None if curve is None else cost_to_reach(curve, error) for error in wanted},
            }
            for (folder, state), curve in zip(runs, curves, strict=True)
        ],
    }


def _curve(state: RunState) -> Curve | None:
    measured = [(e.cost, e.metrics["relative_l2"]) for e in state.measurements]
    return Curve(*zip(*measured, strict=True)) if measured else None


def comparison_table(found: dict[str, Any]) -> Table:
    """What :func:`comparison` found, a run a row."""
    table = Table(
        caption="Costs are those of the chosen examples." if found["errors"] else None, caption_justify="left"
    )
    for name in ("run", "task", "method", "seed", "steps", "cost", "error"):
        table.add_column(
            name, justify="right" if name in ("seed", "steps", "cost", "error") else "left", overflow="fold"
        )
    for error in found["errors"]:
        table.add_column(f"cost to {error:g}", justify="right")
    for run in found["runs"]:
        error = "not measured" if run["error"] is None else f"{run['error']:.4f}"
        figures = (str(run["seed"]), str(run["steps"]), f"{run['accumulated_cost']:g}", error)
        costs = ("not reached" if cost is None else f"{cost:.4g}" for cost in run["reached"].values())
        table.add_row(run["run"], run["task"], run["method"], *figures, *costs)
    return table
