"""Commands that show tasks and runs, and change nothing."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mrafno.cli import options
from mrafno.cli.program import app, print_stderr

if TYPE_CHECKING:
    from mrafno.run.state import RunState

Folders = Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders of runs.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Errors = Annotated[
    str | None, typer.Option(metavar="E,E,...", help="Errors to reach, like .1,.05. \\[default: round numbers]")
]


@app.command(epilog="Examples: `mrafno tasks`, `mrafno tasks darcy darcy3 --measure`")
def tasks(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK", help="Tasks; all if none.", autocompletion=options.complete_task),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure costs, and the distance between coarse and fine solutions.")
    ] = False,
    solves: Annotated[int, typer.Option(min=1, help="Solves per mesh with --measure.")] = 100,
) -> None:
    """List the built-in tasks: inputs, outputs, meshes and costs."""
    from rich.console import Console

    from mrafno.tasks.describe import task_table

    console = Console()
    console.print(task_table(names or []))
    if measure:
        from mrafno.tasks.costs import report

        report(names or [], solves, console)


@app.command(epilog="Examples: `mrafno show runs/b`, `mrafno show runs/b --json | jq .steps`")
def show(
    folder: options.Folder,
    as_json: AsJson = False,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Read the intact lines of a damaged ledger, and list the damage.")
    ] = False,
) -> None:
    """Show a run, also while it advances: its settings, steps, cost, error and failures."""
    from rich.console import Console

    from mrafno.cli.tables import run_table
    from mrafno.run.answers import untaken
    from mrafno.storage.layout import LOCK
    from mrafno.storage.lock import lock_state

    state, damage = _read(folder, damaged)
    lock = lock_state(folder / LOCK)
    waiting = [message.query for message in untaken(folder, state)]
    if as_json:
        undelivered = [query.id for query in state.running if not query.delivered and query.id not in waiting]
        more = {"untaken": waiting, "undelivered": undelivered, "refused": state.refused}
        more |= {"damage": damage} if damaged else {}
        typer.echo(json.dumps(state.as_json(lock) | more))
        return
    Console().print(run_table(state, folder, lock, waiting))
    for one in damage:
        print_stderr(f"damage: {one}")


def _read(folder: Path, damaged: bool) -> tuple["RunState", list[str]]:
    """A run's state, and the damage of its ledger if ``damaged`` allows any."""
    from mrafno.errors import LedgerError
    from mrafno.run.state import RunState
    from mrafno.storage.ledger import Ledger

    if not damaged:
        return RunState.of(Ledger.open(folder).events), []
    ledger = Ledger.open(folder, damaged="skip")
    state, damage = RunState(), list(ledger.damage)
    for event in ledger.events:
        try:
            state.apply(event)
        except LedgerError as error:  # it depends on an event that is lost
            damage.append(str(error))
    state.trained_on = [id for id in state.trained_on if id in state.queries]
    if not state.task:
        raise LedgerError(f"run {folder}: the first event, which describes the run, is damaged. {' '.join(damage)}")
    return state, damage


@app.command(epilog="Example: `mrafno compare runs/uhat runs/random --errors .1,.05`")
def compare(
    folders: Folders, errors: Errors = None, count: options.CountOption = "total", as_json: AsJson = False
) -> None:
    """Compare runs: cost, error, and the cost to reach given errors.

    The logarithm of the error is interpolated between measurements; the first crossing counts.
    """
    from rich.console import Console

    from mrafno.cli.tables import comparison, comparison_table

    runs = [(folder, _read(folder, False)[0]) for folder in dict.fromkeys(folders)]
    found = comparison(runs, options.positive_numbers(errors, "--errors"), options.checked_count(count))
    if as_json:
        typer.echo(json.dumps(found))
    else:
        Console().print(comparison_table(found))


@app.command(epilog="Example: `mrafno report runs/uhat runs/random --out report.html --images figures`")
def report(
    folders: Folders,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for the page.")] = Path("report.html"),
    images: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also write every figure as a file.")] = None,
    formats: Annotated[str, typer.Option(help="Formats of the images, comma-separated: svg, pdf, png.")] = "svg",
    errors: Errors = None,
    count: options.CountOption = "total",
) -> None:
    """Write a self-contained HTML page about a run, or a comparison of several."""
    from mrafno.errors import MrafnoError
    from mrafno.report import write_report

    wanted = options.positive_numbers(errors, "--errors")
    try:
        write_report(
            folders,
            out,
            images=images,
            formats=[one.strip() for one in formats.split(",")],
            errors=wanted,
            count=options.checked_count(count),
        )
    except OSError as error:
        raise MrafnoError(f"report: {error.filename or out} cannot be written ({error.strerror}).") from error
    typer.echo(f"wrote {out}")
