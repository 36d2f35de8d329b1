"""Commands that make the publication's tables and figures anew."""

from pathlib import Path
from typing import Annotated

import typer

from mrafno.cli.program import Group, app
from mrafno.studies.commands import register

study = typer.Typer(cls=Group, help="Make the publication's tables and figures anew.", no_args_is_help=True)
app.add_typer(study, name="study")
register(study)


@study.command(epilog="Example: `mrafno study fixed --task burgers --quick --out study`")
def fixed(
    task: Annotated[str, typer.Option(help="burgers or darcy.")] = "burgers",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method.")] = 5,
    methods: Annotated[
        str, typer.Option(help="Comma-separated: point, dropout, sgld, svi, ensemble.")
    ] = "point,dropout,sgld,svi,ensemble",
    out: Annotated[Path, typer.Option(help="Folder for results, TASK.json and TASK.html.")] = Path("study-fixed"),
    preset: Annotated[str, typer.Option(help="fast or paper.")] = "fast",
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time; one uses all cores for each.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Few examples and iterations: shows that it works.")] = False,
) -> None:
    """Five ways of inference on the same 200 + 200 examples: error, likelihood, calibration.

    Interrupted, the same call goes on where it stopped.
    """
    from mrafno.studies.fixed_report import run_and_report

    run_and_report(task, [m.strip() for m in methods.split(",") if m.strip()], seeds, out, preset, workers, quick)
