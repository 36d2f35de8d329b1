"""What the page shows of a run, as JSON values."""

import json
import textwrap
from collections.abc import Mapping
from typing import Any, TypedDict

from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord

#: Queries on a page of their table.
PAGE = 25
#: Characters of a state that is told in a column as it is.
_SHORT = 40


class Row(TypedDict):
    """A run's line in the list; what is not known is None. Times are seconds since the epoch."""

    name: str
    problem: str | None
    task: str | None
    method: str | None
    seed: int | None
    state: str | None
    brief: str | None
    steps: int | None
    cost: float | None
    error: float | None
    changed: float | None


def row(name: str, run: RunReader) -> Row:
    """What the list says of a run."""
    state = run.state
    return {
        "name": name,
        "problem": " ".join(run.ledger.damage) or None,
        "task": str(state.task["name"]),
        "method": state.method,
        "seed": state.seed,
        "state": run.activity,
        "brief": brief(run.activity),
        "steps": state.step,
        "cost": state.cost,
        "error": float(state.measurements[-1].metrics["relative_l2"]) if state.measurements else None,
        "changed": state.last,
    }


def blank_row(name: str, problem: str | None = None, changed: float | None = None) -> Row:
    """What the list says of a run that cannot be read, or has not been yet."""
    return {
        "name": name,
        "problem": problem,
        "task": None,
        "method": None,
        "seed": None,
        "state": None,
        "brief": None,
        "steps": None,
        "cost": None,
        "error": None,
        "changed": changed,
    }


def brief(state: str) -> str:
    """A state for a narrow column: of a long one, which tells why a run stopped, what matters most."""
    if len(state) <= _SHORT:
        return state
    why = state.partition(" raised ")[2] or state.partition(": ")[2] or state
    return "stopped: " + textwrap.shorten(why.partition(". ")[0], 2 * _SHORT, placeholder=" ...")


def overview(name: str, run: RunReader) -> dict[str, Any]:
    """Key figures of a run, the queries running now, and its settings."""
    state, levels = run.state, range(len(run.grids))
    last = state.measurements[-1] if state.measurements else None
    told = {kind: [q.level for q in state.of_kind(kind, "told")] for kind in ("initial", "pool")}
    return {
        **row(name, run),
        "measured": last and last.step,
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
    """A page of the queries, the newest first, of a kind and with a status if these are given."""
    every = run.state.queries.values()
    found = [q for q in every if kind in ("", q.kind) and status in ("", q.status)][::-1]
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 0), pages - 1)
    prequential_errors = {query.id: error for query, error in run.state.prequential_errors()}
    rows = [_query(run, query, prequential_errors) for query in found[page * PAGE : (page + 1) * PAGE]]
    return {"total": len(found), "page": page, "pages": pages, "rows": rows}


def about_query(run: RunReader, query: QueryRecord) -> dict[str, Any]:
    """What a query is, and what became of it."""
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
        "cost": query.cost if query.status == "told" else None,
        "seconds": query.seconds,
        "asked": query.asked,
        "answered": query.answered,
        "prequential_error": prequential_errors.get(query.id),
    }


def figures(run: RunReader) -> list[dict[str, Any]]:
    """The report's figures, as the page draws them."""
    from mrafno.report.html import anchors  # late: plotly takes a second to import
    from mrafno.report.page import figure_sections

    sections = figure_sections(run)
    names = anchors([heading for heading, _, _ in sections])
    return [
        {"id": name, "heading": heading, "text": text, "figure": drawn(content)}
        for name, (heading, text, content) in zip(names, sections, strict=True)
    ]


def drawn(figure: Any) -> dict[str, Any] | None:
    """A figure as plotly.js takes it; None where there is none. How it looks beside its data is the page's business."""
    if figure is None:
        return None
    values: dict[str, Any] = json.loads(figure.to_json())
    values["layout"].pop("template", None)
    return values
