"""Commands for those who simulate themselves: ask for inputs, tell outputs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrafno.cli import options
from mrafno.cli.program import app, say

if TYPE_CHECKING:
    from mrafno.run import Run
    from mrafno.simulation.query import Query

Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why, for people.", show_default=False)]


@app.command(epilog="Example: `mrafno ask runs/own -n 4 --to inputs`")
def ask(
    folder: options.Folder,
    number: Annotated[
        int | None, typer.Option("-n", min=1, metavar="N", help="How many. \\[default: the run's batch]")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="For the input files. \\[default: DIR/asked]")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, metavar="COST", help="What the chosen examples may cost in all.")
    ] = None,
) -> None:
    """Ask which simulations to run next: inputs as .npy files, and a JSON list of what and where on stdout.

    Each has id, kind, level, resolution, candidate, step, input (the file: channels and grid in float64) and cost (as
    the task expects it). There are fewer than N, or none, when the pool or the budget is used up, or too little is told
    yet to choose by. What was asked and not told counts as running: several people may ask at once.
    """
    from rich.console import Console

    from mrafno.errors import LedgerError
    from mrafno.run import Run
    from mrafno.storage.files import make_folder
    from mrafno.storage.layout import ASKED

    with Run.open(folder) as run:
        place = folder / ASKED if to is None else to
        try:
            make_folder(place.absolute())
        except OSError as error:
            raise LedgerError(
                f"ask: the folder {place} cannot be made ({error.strerror}). Give another one."
            ) from error
        with Console(stderr=True).status("choosing") as status:  # seen on a terminal only
            queries = run.ask(
                number, budget=budget, watch=lambda done, *_: status.update(f"training {100 * done:.0f} %")
            )
        typer.echo(json.dumps([_described(run, query, place) for query in queries], indent=2))
        if not queries:
            say(_nothing(run))


def _described(run: "Run", query: "Query", place: Path) -> dict[str, Any]:
    from mrafno.errors import LedgerError
    from mrafno.storage.files import to_npy, write_bytes

    path = (place / f"{query.id}.npy").absolute()
    try:
        write_bytes(path, to_npy(query.f))
    except OSError as error:
        raise LedgerError(
            f"ask: {path} could not be written ({error}). {query.id} is asked all the same, and its input is in "
            f"{run.ledger.folder / 'arrays'} too; tell it, or give it back with: mrafno fail"
        ) from error
    return {
        "id": query.id,
        "kind": query.kind,
        "level": query.level,
        "resolution": list(run.task.resolutions[query.level]),
        "candidate": query.candidate,
        "step": query.step,
        "input": str(path),
        "cost": run.task.costs[query.level],
    }


def _nothing(run: "Run") -> str:
    running = len(run.state.running)
    if running:
        return f"nothing to ask before some of the {running} running simulations are told."
    return "nothing to ask: the pool or the budget is used up, or too many of the first simulations failed."


@app.command(epilog="Example: `mrafno tell runs/own q000012 output.npy --cost 12.3`")
def tell(
    folder: options.Folder,
    query: options.QueryId,
    output: Annotated[Path, typer.Argument(help="A .npy file with (channels, *grid).", show_default=False)],
    cost: Annotated[
        float | None, typer.Option(metavar="X", help="What it cost, in the task's unit. \\[default: as expected]")
    ] = None,
    seconds: Annotated[float | None, typer.Option(metavar="S", help="How long it took.")] = None,
) -> None:
    """Tell the output of a simulation; it is on disk when this returns.

    A second answer, an unknown id, a wrong shape, NaN or a file that is no .npy are refused, and nothing is changed.
    """
    from mrafno.run import Run
    from mrafno.storage.files import read_npy

    values = read_npy(output)
    with Run.open(folder) as run:
        run.tell(query, values, cost=cost, seconds=seconds)
        typer.echo(f"told {query}; {len(run.state.running)} running")


@app.command(epilog='Example: `mrafno fail runs/own q000012 --reason "the node went down"`')
def fail(folder: options.Folder, query: options.QueryId, reason: Reason) -> None:
    """Tell that a simulation gave nothing; its input may be asked for again."""
    from mrafno.run import Run

    with Run.open(folder) as run:
        run.fail(query, reason)
        typer.echo(f"failed {query}; {len(run.state.running)} running")


@app.command(epilog='Example: `mrafno abandon runs/own q000012 --reason "no steady state"`')
def abandon(folder: options.Folder, query: options.QueryId, reason: Reason) -> None:
    """Tell that a simulation gave nothing, and that its input is never to be asked for again."""
    from mrafno.run import Run

    with Run.open(folder) as run:
        run.abandon(query, reason)
        typer.echo(f"abandoned {query}; {len(run.state.running)} running")
