"""Tables in the terminal: one run, or a comparison of several."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mrafno.analysis.curves import cost_to_reach, round_errors
from mrafno.cli.display import Snapshot
from mrafno.errors import printable
from mrafno.plot.text import duration
from mrafno.run.prices import is_measured, prices
from mrafno.run.progress import outlook
from mrafno.run.spending import COUNTED, Count, check_count
from mrafno.run.state import QueryRecord, RunState
from mrafno.storage.layout import INBOX, LOCK, REFUSED
from mrafno.storage.lock import LockState, lock_state
from mrafno.tasks.labels import task_labels

#: Failed and running queries that are listed; more are counted.
_LISTED = 8
#: The cost of an error that was not reached.
_NEVER = "\u2013"
#: How many errors to reach are chosen if none are given.
_ERRORS = 3


def run_table(state: RunState, folder: Path, lock: LockState = "free", untaken: Sequence[str] = ()) -> RenderableType:
    """A run: its figures, its queries on each mesh, and its failures.

    Args:
        untaken: queries whose answers are on the disk, and not yet in the ledger.
    """
    now = Snapshot.of(state)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    rows = [
        ("run", str(folder)),
        ("task", state.task["name"]),
        ("method", f"{state.method}, seed {state.seed}"),
        ("state", state.activity(lock)),
        ("steps", str(now.step)),
        ("cost", str(state.spent)),
        ("error", "not measured yet" if now.error is None else f"{now.error:.4g} after step {now.measured}"),
        ("estimate", "none yet" if (own := state.error_estimate) is None else f"{own.interval}, by the run itself"),
        *([("forecast", ahead)] if (ahead := outlook(state, None)) else []),
        ("time", ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in now.seconds.items())),
    ]
    if running := [q for q in state.running if q.id not in untaken]:
        waiting = _listed([f"{q.id} ({now.meshes[q.level]})" for q in running])
        rows.append(("running", waiting) if lock == "held" else ("asked", f"{waiting}; not answered"))
        lost = [q.id for q in running if not q.delivered]
        if lost and lock != "held":
            what = "`mrafno ask --again` hands them out, `mrafno resume` simulates them"
            rows.append(("again", f"{_listed(lost)}; asked and not delivered: {what}"))
    if untaken:
        rows.append(("inbox", f"{_listed(untaken)}; answered, and taken in when the run is asked or resumed"))
    if state.refused:
        rows.append(("refused", f"{_listed(list(state.refused.values()))} Kept in {INBOX}/{REFUSED}."))
    rows += [("warning", text) for text in state.warnings.values()]
    for name, value in rows:
        grid.add_row(name, Text(printable(value)))
    parts: list[RenderableType] = [grid, _queries(state, now.meshes)]
    failed = [q for q in state.queries.values() if q.status in ("failed", "abandoned")]
    return Group(*parts, _failed(failed, now.meshes)) if failed else Group(*parts)


def _queries(state: RunState, meshes: Sequence[str]) -> Table:
    """A column for each mesh: there are few of them, and a terminal may have eighty columns."""
    table = Table("Simulations")
    for mesh in meshes:
        table.add_column(mesh, justify="right", overflow="fold")
    found = [f"{price:.4g}" if is_measured(state) else f"{price:g}" for price in prices(state)]
    table.add_row("cost of one", *found, end_section=True)
    queries = list(state.queries.values())
    for kind in ("imported", "initial", "chosen", "test"):
        if kind != "imported" or any(state.given):
            told = [q.level for q in queries if _kind(q) == kind and q.status == "told"]
            table.add_row(kind, *(str(told.count(level)) for level in range(len(meshes))))
    for status in ("running", "failed", "abandoned", "expired"):
        if levels := [q.level for q in queries if q.status == status]:
            name = "not answered" if status == "running" else status
            table.add_row(name, *(str(levels.count(level)) for level in range(len(meshes))))
    return table


def _kind(query: QueryRecord) -> str:
    """The kind of an example in words."""
    return "imported" if query.imported else "chosen" if query.kind == "pool" else query.kind


def _failed(queries: Sequence[QueryRecord], meshes: Sequence[str]) -> Table:
    table = Table(title=f"Without output, the last of {len(queries)}", title_justify="left")
    for name in ("query", "mesh", "what", "reason"):
        table.add_column(name, overflow="fold")
    for q in queries[-_LISTED:]:
        table.add_row(Text(printable(q.id)), meshes[q.level], q.status, Text(q.reason or ""))
    return table


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def comparison(
    runs: Sequence[tuple[Path, RunState]], errors: Sequence[float], count: Count = "total"
) -> dict[str, Any]:
    """Figures of several runs; ``reached`` has costs by error, None where a run did not reach it.

    Args:
        count: what these costs have, see :mod:`mrafno.run.spending`.
    """
    check_count(count)
    curves = [state.error_curve(count) for _, state in runs]
    labels = task_labels([state.task for _, state in runs])
    known = [curve for curve in curves if curve is not None]
    wanted = sorted(errors, reverse=True)
    if not errors and known:
        low = min(min(curve.errors) for curve in known)
        wanted = round_errors(low, statistics.median(curve.errors[0] for curve in known), _ERRORS)
    return {
        "errors": wanted,
        "count": count,
        "runs": [
            {
                "run": str(folder),
                "task": label,
                "method": state.method,
                "seed": state.seed,
                "state": state.activity(lock_state(folder / LOCK)),
                "steps": state.step,
                "accumulated_cost": state.cost,
                "spent": state.spent.as_json(),
                "cost": state.spent.counted(count),
                "error": None if curve is None else curve.errors[-1],
                "reached": {f"{error:g}": None if curve is None else cost_to_reach(curve, error) for error in wanted},
            }
            for (folder, state), curve, label in zip(runs, curves, labels, strict=True)
        ],
    }


def comparison_table(found: dict[str, Any]) -> Table:
    """The result of :func:`comparison`, a row per run; what all runs have in common is in the title.

    Only the names of runs are wrapped in a narrow terminal, never numbers.
    """
    runs = found["runs"]
    shared = [name for name in ("task", "seed") if len({run[name] for run in runs}) == 1]
    said = [f"cost: {COUNTED[found['count']]}"]
    if found["errors"]:
        said.append(f"to ...: cost when the error was first that low, {_NEVER} if never")
    table = Table(
        title=", ".join(f"{name} {runs[0][name]}" for name in shared) or None, title_justify="left",
        caption="; ".join(said), caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False,
        collapse_padding=True,
    )  # fmt: skip
    names = [name for name in ("task", "method", "seed", "steps", "cost", "error") if name not in shared]
    table.add_column("run", overflow="fold", min_width=8)
    for name in names:
        table.add_column(name, justify="left" if name in ("task", "method") else "right", no_wrap=True)
    for error in found["errors"]:
        table.add_column(f"to {error:g}", justify="right", no_wrap=True)
    for run in runs:
        figures = {
            **{name: str(run[name]) for name in ("task", "method", "seed", "steps")},
            "cost": f"{run['cost']:.6g}",
            "error": "none" if run["error"] is None else f"{run['error']:.4g}",
        }
        costs = (_NEVER if cost is None else f"{cost:.4g}" for cost in run["reached"].values())
        table.add_row(Text(printable(run["run"])), *(figures[name] for name in names), *costs)
    return table
