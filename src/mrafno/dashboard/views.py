"""Content of the page for a run, as JSON values."""

import textwrap
import time
from collections.abc import Mapping
from typing import Any, TypedDict

import numpy as np

from mrafno.run.progress import outlook
from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord
from mrafno.run.status import Status
from mrafno.tasks.labels import task_labels

#: Queries per page of the table.
PAGE = 25
#: Longest state that is shown in full, and most points of a row's curve.
_SHORT, _POINTS = 40, 40
#: Statuses of a query that gave no output.
_WITHOUT_OUTPUT = ("failed", "abandoned", "expired")


class Row(TypedDict):
    """A run's row of the list, with None for unknown values.

    Times are seconds since the epoch. ``curve`` has pairs of cost and error, ``seconds`` what simulations, fits,
    choices and measurements took together.
    """

    name: str
    problem: str | None
    task: str | None
    method: str | None
    seed: int | None
    standing: str | None
    state: str | None
    short_state: str | None
    steps: int | None
    goal_steps: float | None
    budget: float | None
    cost_left: float | None
    target: float | None
    share: float | None
    seconds_left: float | None
    cost: float | None
    error: float | None
    estimate: float | None
    curve: list[list[float]]
    failed: int | None
    seconds: float | None
    created: float | None
    changed: float | None
    tags: list[str]
    note: str


def row(name: str, run: RunReader, *, now: float | None = None) -> Row:
    """The row of a run."""
    state, status, notes = run.state, run.status, run.notes
    progress = run.progress(status, time.time() if now is None else now)
    where = run.standing
    curve = run.curve
    points = [] if curve is None else list(zip(curve.costs, curve.errors, strict=True))
    kept = np.unique(np.linspace(0, len(points) - 1, min(_POINTS, len(points))).round().astype(int))
    return {
        "name": name,
        "problem": " ".join(run.ledger.damage) or None,
        "task": str(state.task["name"]),
        "method": state.method,
        "seed": state.seed,
        "standing": where,
        "state": run.activity,
        "short_state": short_state(run.activity),
        "steps": state.step,
        "goal_steps": progress.steps,
        "budget": progress.budget,
        "cost_left": progress.cost_left,
        "target": progress.target,
        "share": progress.share,
        "seconds_left": progress.seconds_left if where == "running" else None,
        "cost": run.cost,
        "error": float(state.measurements[-1].metrics["relative_l2"]) if state.measurements else None,
        "estimate": state.estimate,
        "curve": [[float(value) for value in points[i]] for i in kept],
        "failed": sum(q.status in _WITHOUT_OUTPUT for q in state.queries.values()),
        "seconds": sum(run.seconds.values()),
        "created": state.created,
        "changed": state.last,
        "tags": list(notes.tags),
        "note": notes.note,
    }


def blank_row(name: str, problem: str | None = None, changed: float | None = None) -> Row:
    """The row of a run that cannot be read, or was not read yet."""
    return {
        "name": name,
        "problem": problem,
        "task": None,
        "method": None,
        "seed": None,
        "standing": None,
        "state": None,
        "short_state": None,
        "steps": None,
        "goal_steps": None,
        "budget": None,
        "cost_left": None,
        "target": None,
        "share": None,
        "seconds_left": None,
        "cost": None,
        "error": None,
        "estimate": None,
        "curve": [],
        "failed": None,
        "seconds": None,
        "created": None,
        "changed": changed,
        "tags": [],
        "note": "",
    }


def short_state(state: str) -> str:
    """A state for a narrow column; of a long one, which is an error message, the reason."""
    if len(state) <= _SHORT:
        return state
    why = state.partition(" raised ")[2] or state.partition(": ")[2] or state
    return "stopped: " + textwrap.shorten(why.partition(". ")[0], 2 * _SHORT, placeholder=" ...")


def overview(name: str, run: RunReader) -> dict[str, Any]:
    """Key figures of a run, what its driver does, running queries, and settings."""
    state, levels, now, status = run.state, range(len(run.grids)), time.time(), run.status
    last = state.measurements[-1] if state.measurements else None
    told = {kind: [q.level for q in state.of_kind(kind, "told")] for kind in ("initial", "pool")}
    return {
        **row(name, run, now=now),
        "measured": last and last.step,
        "interval": None if (known := run.estimate()) is None else [known.low, known.high],
        "forecast": outlook(state, None if status is None else status.goals.get("target")),
        "spent": state.spent.as_json(),
        "levels": [
            {
                "mesh": run.meshes[level],
                "cost": run.costs[level],
                "initial": told["initial"].count(level),
                "chosen": told["pool"].count(level),
            }
            for level in levels
        ],
        "warnings": list(state.warnings.values()),
        "driven": run.lock == "held",
        "now": _doing(status, now) if run.lock == "held" else None,
        "running": [_query(run, query, {}) for query in state.running],
        "fits": len(state.trainings),
        "tests": len(state.of_kind("test", "told")),
        "settings": state.settings.as_json(),
        "pool": run.pool,
    }


def _doing(status: Status | None, now: float) -> dict[str, Any] | None:
    """What the driver is doing."""
    if status is None or not status.phase:
        return None
    return {
        "phase": status.phase,
        "note": status.note,
        "done": status.done,
        "since": status.since,
        "seconds_left": status.phase_seconds_left(now),
    }


def queries(run: RunReader, *, kind: str = "", status: str = "", page: int = 0, order: str = "") -> dict[str, Any]:
    """A page of the queries, the newest first, optionally of one kind or status.

    Args:
        order: ``seconds`` for the slowest first, ``cost`` for the dearest first.
    """
    every = run.state.queries.values()
    found = [q for q in every if kind in ("", q.kind) and status in ("", q.status)][::-1]
    if order == "seconds":
        found.sort(key=lambda q: -(q.seconds or 0.0))
    elif order == "cost":
        found.sort(key=lambda q: -q.cost)
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 0), pages - 1)
    prequential_errors = {query.id: error for query, error in run.state.prequential_errors()}
    rows = [_query(run, query, prequential_errors) for query in found[page * PAGE : (page + 1) * PAGE]]
    return {"total": len(found), "page": page, "pages": pages, "rows": rows}


def about_query(run: RunReader, query: QueryRecord) -> dict[str, Any]:
    """A query and its answer."""
    return {
        "id": query.id,
        "kind": query.kind,
        "step": query.step,
        "mesh": run.meshes[query.level],
        "status": query.standing,
        "reason": query.reason,
    }


def _query(run: RunReader, query: QueryRecord, prequential_errors: Mapping[str, float]) -> dict[str, Any]:
    return {
        **about_query(run, query),
        "cost": query.cost if query.status in ("told", "failed", "abandoned") else None,
        "seconds": query.seconds,
        "asked": query.asked,
        "answered": query.answered,
        "prequential_error": prequential_errors.get(query.id),
    }


def figures(run: RunReader) -> list[dict[str, Any]]:
    """The report's figures."""
    from mrafno.plot.bundle import figure_json
    from mrafno.report.html import anchors  # late: plotly takes a second to import
    from mrafno.report.page import figure_sections

    sections = figure_sections(run)
    names = anchors([heading for heading, _, _ in sections])
    return [
        {"id": name, "heading": heading, "text": text, "figure": figure_json(content)}
        for name, (heading, text, content) in zip(names, sections, strict=True)
    ]


def overlay(runs: Mapping[str, RunReader]) -> dict[str, Any] | None:
    """A figure of the errors of several runs against their costs; None if none was measured."""
    from mrafno.plot.bundle import figure_json  # late: plotly takes a second to import
    from mrafno.plot.of_run import error_against_cost, names_of

    runs = {name: run for name, run in runs.items() if run.state.measurements}
    if not runs:
        return None
    figure = error_against_cost(*runs.values())
    # Runs of different tasks are no comparison of methods, so each line says of which one it is.
    tasks = task_labels([run.state.task for run in runs.values()])
    several = len(set(tasks)) > 1
    drawn = names_of(list(runs.values()))
    names = {
        drawn[str(run.folder)]: f"{name}, {task}" if several and task != name else name
        for (name, run), task in zip(runs.items(), tasks, strict=True)
    }
    for trace in figure.data:
        trace.name = trace.legendgroup = names[trace.name]
    return figure_json(figure)
