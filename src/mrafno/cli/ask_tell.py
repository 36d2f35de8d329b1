"""Commands for simulations outside of mrafno: ask for inputs, tell outputs."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrafno.cli import options
from mrafno.cli.program import app, print_stderr

if TYPE_CHECKING:
    from mrafno.run import Run
    from mrafno.run.methods import Method
    from mrafno.run.telling import Receipt
    from mrafno.simulation.query import Query

Seconds = Annotated[float | None, typer.Option(metavar="S", help="How long it took.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why there is no output.", show_default=False)]

#: Seconds that pass before it is said what is waited for.
_SILENT = 1.0

_NOTHING_AGAIN = "nothing to hand out again: all that was asked was delivered, or answered. For all that wait: --all."


@app.command(epilog="Example: `mrafno ask runs/own -n 4 --to inputs`")
def ask(
    folder: options.Folder,
    number: Annotated[
        int | None, typer.Option("-n", min=1, metavar="N", help="Number of queries. \\[default: the run's batch]")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for the input files. \\[default: DIR/asked]")
    ] = None,
    budget: Annotated[float | None, typer.Option(min=0, metavar="COST", help="What the run may cost in all.")] = None,
    count: options.CountOption = "total",
    method: Annotated[
        str | None,
        typer.Option(metavar="FILE.py:NAME", help="The run's method, if it is not built in and not where it was."),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long to wait while another process holds the run.")
    ] = 60.0,
    again: Annotated[
        bool,
        typer.Option("--again", help="Hand out queries that were asked before and not delivered; nothing is chosen."),
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="With --again: all that wait for an answer, also those that were delivered.")
    ] = False,
    device: options.Device = "auto",
) -> None:
    """Ask which simulations to run next: writes inputs as .npy files and prints a JSON list of queries.

    Each has id, kind, level, resolution, candidate, step, input (the file: channels and grid in float64; null if inputs
    are parameters only), parameters (by name) and cost (as the task expects it). There are fewer than N, or none, when
    the pool or the budget is used up, or when too few examples are told to choose by. Queries that are asked and not
    told count as running: several people may ask.
    """
    from rich.console import Console

    from mrafno.errors import LedgerError
    from mrafno.run import Run
    from mrafno.run.fit_time import row
    from mrafno.storage.files import make_folder
    from mrafno.storage.layout import ASKED

    ways = options.checked_count(count)
    if every and not again:
        raise typer.BadParameter("it goes with --again.", param_hint="--all")
    known = None if again else _method(folder, method)
    with _opened(partial(Run.open, folder, method=known, device=device), wait) as run:
        place = folder / ASKED if to is None else to
        try:
            make_folder(place.absolute())
        except OSError as error:
            raise LedgerError(
                f"ask: the folder {place} cannot be made ({error.strerror}). Choose another with --to."
            ) from error
        with Console(stderr=True).status("choosing") as status:  # prints on a terminal only
            if again:
                queries = run.undelivered(delivered=every)[:number]
            else:

                def show(done: float, *_: float) -> None:
                    fit = " ".join(row(run.trainer.ahead).values())
                    status.update(f"training {100 * done:.0f} % ({fit})")

                queries = run.ask(number, budget=budget, count=ways, watch=show)
        typer.echo(json.dumps([_query_json(run, query, place) for query in queries], indent=2))
        sys.stdout.flush()
        if to is None:
            _clear_told(run, place)
        run.session.deliver([query.id for query in queries])
        if not queries:
            print_stderr(_NOTHING_AGAIN if again else _nothing_to_ask(run))


def _opened(opening: Callable[..., "Run"], wait: float) -> "Run":
    """A run, as soon as nobody else holds it; says whom it waits for."""
    from mrafno.errors import LedgerLockedError

    try:
        return opening(wait=min(wait, _SILENT))
    except LedgerLockedError as error:
        if wait <= _SILENT:
            raise
        print_stderr(f"waiting for up to {wait:g} s: the run is being written by {error.holder}")
        return opening(wait=wait - _SILENT)


def _method(folder: Path, text: str | None) -> "Method | None":
    """A method that is not built in: from the flag, or from where the run had it."""
    from mrafno.cli.call_file import check_author, check_trusted, read_call
    from mrafno.cli.loading import Source

    if text is not None:
        loaded: Method = Source.of(text, "method").load()
        return loaded
    last = read_call(folder)
    source = last.method
    if source is None:
        return None
    check_trusted(source, folder)
    check_author(folder, last, [source.text], f"mrafno ask {folder} --method {source.text}")
    print_stderr(f"loading the method from {source.text}, the source in {folder}")
    remembered: Method = source.load()
    return remembered


def _query_json(run: "Run", query: "Query", place: Path) -> dict[str, Any]:
    from mrafno.errors import LedgerError
    from mrafno.run.prices import prices
    from mrafno.storage.files import to_npy, write_bytes

    path = (place / f"{query.id}.npy").absolute() if len(query.functions) else None
    try:
        if path is not None:
            write_bytes(path, to_npy(query.functions))
    except OSError as error:
        raise LedgerError(
            f"ask: {path} could not be written ({error}). {query.id} is recorded as asked, and its input is also in "
            f"{run.ledger.folder / 'arrays'}. Tell its output, or return it with: mrafno fail"
        ) from error
    return {
        "id": query.id,
        "kind": query.kind,
        "level": query.level,
        "resolution": list(run.task.resolutions[query.level]),
        "candidate": query.candidate,
        "step": query.step,
        "input": None if path is None else str(path),
        "parameters": query.parameters,
        "cost": prices(run.state)[query.level],
    }


def _clear_told(run: "Run", place: Path) -> None:
    """Remove inputs whose outputs are told, so that their files do not become more and more.

    Those of failures stay, to look at.
    """
    for path in place.glob("q*.npy"):
        query = run.state.queries.get(path.stem)
        if query is not None and query.status == "told":
            path.unlink(missing_ok=True)


def _nothing_to_ask(run: "Run") -> str:
    running = len(run.state.running)
    if running:
        return f"nothing to ask until some of the {running} running simulations are told."
    return "nothing to ask: the pool or the budget is used up, or too many initial simulations failed."


@app.command(epilog="Example: `mrafno tell runs/own q000012 output.npy --cost 12.3`")
def tell(
    folder: options.Folder,
    query: options.QueryId,
    output: Annotated[Path, typer.Argument(help="A .npy file with (channels, *grid).", show_default=False)],
    cost: Annotated[
        float | None, typer.Option(metavar="X", help="What it cost, in the task's unit. \\[default: as expected]")
    ] = None,
    seconds: Seconds = None,
) -> None:
    """Tell the output of a simulation; it is on disk when the command ends.

    Any number of processes may tell at the same moment, also while another one holds the run: then the output is left
    in the run's inbox, and taken in by whoever holds it. A second output, an unknown id, a wrong shape, NaN or a file
    that is not .npy is an error, and changes nothing.
    """
    from mrafno.run import telling
    from mrafno.storage.files import read_npy

    values = read_npy(output)
    _say("told", query, telling.tell(folder, query, values, cost=cost, seconds=seconds))


@app.command(epilog='Example: `mrafno fail runs/own q000012 --reason "the node went down"`')
def fail(
    folder: options.Folder,
    query: options.QueryId,
    reason: Reason,
    cost: Annotated[
        float | None,
        typer.Option(metavar="X", help="What it cost, in the task's unit. \\[default: as one with output]"),
    ] = None,
    seconds: Seconds = None,
) -> None:
    """Record that a simulation failed; its input may be asked for again."""
    from mrafno.run import telling

    _say("failed", query, telling.fail(folder, query, reason, cost=cost, seconds=seconds))


@app.command(epilog='Example: `mrafno abandon runs/own q000012 --reason "no steady state"`')
def abandon(
    folder: options.Folder,
    query: options.QueryId,
    reason: Reason,
    cost: Annotated[
        float | None, typer.Option(metavar="X", help="What it cost, in the task's unit. \\[default: 0]")
    ] = None,
    seconds: Seconds = None,
) -> None:
    """Record that a simulation failed, and never ask for its input again."""
    from mrafno.run import telling

    _say("abandoned", query, telling.abandon(folder, query, reason, cost=cost, seconds=seconds))


def _say(what: str, query: str, receipt: "Receipt") -> None:
    """Print what became of an answer."""
    from mrafno.errors import RunError

    if receipt.refused:
        raise RunError(f"{receipt.refused} The answer to {query} is kept in the run's inbox.")
    place = "" if receipt.recorded else ", in the run's inbox until the process that holds the run takes it in"
    typer.echo(f"{what} {query}{place}; {receipt.running} running")
    if receipt.trouble:
        print_stderr(f"warning: it is safe in the run's inbox, but could not be taken in: {receipt.trouble}")
