"""Content of the page for a run, as JSON values."""

import textwrap
from collections.abc import Mapping
from typing import Any, TypedDict

from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord

#: Queries per page of the table.
PAGE = 25
#: Longest state that is shown in full.
_SHORT = 40


class Row(TypedDict):
    """A run's row of the list, with None for unknown values. Times are seconds since the epoch."""

    name: str
    problem: str | None
    task: str | None
    method: str | None
    seed: int | None
    state: str | None
    short_state: str | None
    steps: int | None
    cost: float | None
    error: float | None
    changed: float | None


def row(name: str, run: RunReader) -> Row:
    """The row of a run."""
    state = run.state
    return {
        "name": name,
        "problem": " ".join(run.ledger.damage) or None,
        "task": str(state.task["name"]),
        "method": state.method,
        "seed": state.seed,
        "state": run.activity,
        "short_state": short_state(run.activity),
        "steps": state.step,
        "cost": run.cost,
        "error": float(state.measurements[-1].metrics["relative_l2"]) if state.measurements else None,
        "changed": state.last,
    }


def blank_row(name: str, problem: str | None = None, changed: float | None = None) -> Row:
    """The row of a run that cannot be read, or was not read yet."""
    return {
        "name": name,
        "problem": problem,
        "task": None,
        "method": None,
        "seed": None,
        "state": None,
        "short_state": None,
        "steps": None,
        "cost": None,
        "error": None,
        "changed": changed,
    }


def short_state(state: str) -> str:
    """A state for a narrow column; of a long one, which is an error message, the reason."""
    if len(state) <= _SHORT:
        return state
    why = state.partition(" raised ")[2] or state.partition(": ")[2] or state
    return "stopped: " + textwrap.shorten(why.partition(". ")[0], 2 * _SHORT, placeholder=" ...")


def overview(name: str, run: RunReader) -> dict[str, Any]:
    """Key figures of a run, running queries, and settings."""
    state, levels = run.state, range(len(run.grids))
    last = state.measurements[-1] if state.measurements else None
    told = {kind: [q.level for q in state.of_kind(kind, "told")] for kind in ("initial", "pool")}
    return {
        **row(name, run),
        "measured": last and last.step,
        "spent": state.spent.as_json(),
        "estimate": state.estimate,
        "levels": [
            {
                "mesh": run.meshes[level],
                "cost": run.costs[level],
                "initial": told["initial"].count(level),
                "chosen": told["pool"].count(level),
            }
            for level in levels
        ],
        "driven": run.lock == "held",
        "running": [_query(run, query, {}) for query in state.running],
        "fits": len(state.trainings),
        "tests": len(state.of_kind("test", "told")),
        "failed": sum(q.status in ("failed", "abandoned", "expired") for q in state.queries.values()),
        "created": state.created,
        "settings": state.settings.as_json(),
        "pool": run.pool,
    }


def queries(run: RunReader, *, kind: str = "", status: str = "", page: int = 0) -> dict[str, Any]:
    """A page of the queries, the newest first, optionally of one kind or status."""
    every = run.state.queries.values()
    found = [q for q in every if kind in ("", q.kind) and status in ("", q.status)][::-1]
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
