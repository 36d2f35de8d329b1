"""Commands that check a run's directory and repair it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mrafno.cli import options
from mrafno.cli.program import DAMAGED, app, print_stderr
from mrafno.errors import printable

if TYPE_CHECKING:
    from rich.table import Table

    from mrafno.run.check import Examination
    from mrafno.run.repair import Repair
    from mrafno.tasks import Task

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

#: Rows of the table: what is checked, in words.
_ROWS = {
    "ledger": "lines of the ledger",
    "copy": "copy of the ledger",
    "inputs": "the run's inputs",
    "candidates": "candidates that were added",
    "arrays": "inputs and outputs of queries",
    "checkpoint": "checkpoints",
    "inbox": "answers in the inbox",
    "spool": "results in the spool",
    "asked": "inputs handed out",
    "lock": "lock",
    "call": "call of the run",
    "cache": "cached simulations",
}


@app.command(epilog="Example: `mrafno check runs/b && echo intact`")
def check(folder: options.Folder, as_json: AsJson = False) -> None:
    """Check a run's directory: every line of the ledger, every array, checkpoint, inbox, spool and cached simulation.

    Nothing is written, and the run may advance meanwhile. The exit code is 0 if all is intact, and 4 if something is
    damaged: `mrafno repair` shows what it would do.
    """
    if not _shown(folder, as_json):
        raise typer.Exit(DAMAGED)


@app.command(epilog="Examples: `mrafno repair runs/b`, `mrafno repair runs/b --yes`")
def repair(
    folder: options.Folder,
    yes: Annotated[bool, typer.Option("--yes", help="Repair. Without it, only show what would be done.")] = False,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME", help="A task of your own, to draw damaged inputs again.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Repair a damaged run: with --yes; otherwise show what would be done.

    Damaged lines are restored from the copy of the ledger, damaged inputs are made again. What cannot be restored is to
    be simulated, or told, again. Everything that is taken out of use is kept in DIR/damaged, and the repair is an event
    of the ledger.
    """
    if not yes:
        if not _shown(folder, as_json):
            if not as_json:
                typer.echo(printable(f"Nothing was changed. To repair it: mrafno repair {folder} --yes"))
            raise typer.Exit(DAMAGED)
        return
    from mrafno.run.repair import repair_run

    loaded: Task | None = None
    if task is not None:
        from mrafno.cli.loading import Source

        loaded = Source.of(task).load()
    done = repair_run(folder, loaded)
    if as_json:
        typer.echo(json.dumps({**asdict(done), "kept": None if done.kept is None else str(done.kept)}))
        return
    for line in _said(done):
        typer.echo(printable(line))


def _shown(folder: Path, as_json: bool) -> bool:
    """Check a run and print what is found; returns whether it is intact."""
    from rich.console import Console

    from mrafno.run.check import check_run

    with Console(stderr=True).status("checking") as status:  # prints on a terminal only
        found = check_run(folder, watch=lambda done: status.update(f"checking {100 * done:.0f} %"))
    if as_json:
        typer.echo(json.dumps(_as_json(found)))
    else:
        _print(found)
    return found.intact


def _as_json(found: "Examination") -> dict[str, object]:
    damage = [{**asdict(one), "path": None if one.path is None else str(one.path)} for one in found.damage]
    return {"intact": found.intact, "checked": found.checked, "damage": damage}


def _print(found: "Examination") -> None:
    from rich.console import Console

    console = Console()
    console.print(_table(found))
    for one in found.damage:
        text = printable(f"{one.place}: {one.fault}\n  a repair: {one.remedy}")
        console.print(text, markup=False, highlight=False)
    if found.intact:
        console.print(printable(f"{found.folder} is intact."), markup=False, highlight=False)


def _table(found: "Examination") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for name in ("what", "checked", "damaged"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for what, words in _ROWS.items():
        damaged = sum(one.what == what for one in found.damage)
        number = found.checked.get(what)  # type: ignore[call-overload]
        if number is not None or damaged:
            table.add_row(words, "" if number is None else str(number), str(damaged) if damaged else "-")
    return table


def _said(done: "Repair") -> list[str]:
    if done.kept is None:
        return ["nothing is damaged."]
    lines = [f"repaired; what was damaged is kept in {done.kept}"]
    if done.restored:
        lines.append(f"restored: {_listed(done.restored)}")
    if done.again:
        lines.append(f"to be simulated or told again: {_listed(done.again)}")
    if done.unusable:
        lines.append(f"without input, and closed: {_listed(done.unusable)}")
    if done.dropped:
        lines.append(f"taken out of the ledger: {done.dropped} events, in {done.kept.name}/dropped.jsonl if readable")
    if done.candidates:
        lines.append(
            f"lost: {done.candidates} added candidates that were not used; the run goes on without them. If you have "
            "them, add them again with run.add_candidates(array)."
        )
    if done.inputs:
        print_stderr("warning: the run's inputs are drawn again when it is opened with its task (resume --task).")
    return lines


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
