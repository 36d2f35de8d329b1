"""The command line: flags to constructors, and no logic.

Commands import what they need when they run, so that ``--help`` answers at once. A new command is a function below with
``@app.command()``; errors of the exception tree become one paragraph in :func:`main`.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from mrafno._version import __version__
from mrafno.errors import MrafnoError

app = typer.Typer(
    name="mrafno",
    help="Multi-resolution active learning of Fourier neural operators.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mrafno {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the code an error comes from.")] = False,
) -> None:
    del version, debug  # the first ends in its callback, the second is looked at where errors end, in main


@app.command()
def tasks(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TASK]...", help="Which problems; all if none.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure costs, and the distance of coarse from fine solutions.")
    ] = False,
    solves: Annotated[int, typer.Option(min=1, help="Solves per mesh with --measure.")] = 100,
) -> None:
    """Describe the problems: inputs, outputs, meshes and costs."""
    from rich.console import Console

    from mrafno.tasks.describe import task_table

    console = Console()
    console.print(task_table(names or []))
    if measure:
        from mrafno.tasks.costs import report

        report(names or [], solves, console)


study = typer.Typer(help="Make the publication's tables and figures anew.", no_args_is_help=True)
app.add_typer(study, name="study")


@study.command()
def fixed(
    task: Annotated[str, typer.Option(help="burgers or darcy.")] = "burgers",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method.")] = 5,
    methods: Annotated[
        str, typer.Option(help="Comma-separated: point, dropout, sgld, svi, ensemble.")
    ] = "point,dropout,sgld,svi,ensemble",
    out: Annotated[Path, typer.Option(help="Folder for results, table.json and index.html.")] = Path("study-fixed"),
    preset: Annotated[str, typer.Option(help="fast or paper.")] = "fast",
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time; one uses all cores for each.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Few examples and iterations: shows that it works.")] = False,
) -> None:
    """Five ways of inference on the same 200 + 200 examples: error, likelihood, calibration.

    Interrupted, the same call goes on where it stopped.
    """
    from mrafno.studies.fixed_report import run_and_report

    run_and_report(task, [m.strip() for m in methods.split(",") if m.strip()], seeds, out, preset, workers, quick)


def main() -> None:
    """Run a command; an error that mrafno raises on purpose is one paragraph, with ``--debug`` a traceback."""
    try:
        app()
    except MrafnoError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
