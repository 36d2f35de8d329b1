"""Commands that reproduce the tables and figures of the paper (Li et al., 2024)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrafno.cli.options import Flag, checked_count, given, positive_numbers, with_flags, without
from mrafno.cli.program import Group, app

if TYPE_CHECKING:
    from mrafno.studies.pages import Study

study = typer.Typer(cls=Group, help="Reproduce the tables and figures of the paper.", no_args_is_help=True)
app.add_typer(study, name="study")

NOTE = Flag(name="note", kind=str, value="", help="How alpha and the like were chosen; printed on the page.")
#: Flags of every study of active learning.
ACTIVE = (
    Flag(
        name="task", kind=str, value="burgers", help="burgers, darcy, darcy3, diffusion, ..., see mrafno tasks."
    ),
    Flag(name="seeds", kind=int, min=1, default="3, quick 2", help="Runs of each method: seeds 0 to N-1."),
    Flag(name="first_seed", kind=int, min=0, value=0, help="The first seed."),
    Flag(name="steps", kind=int, min=1, default="500; navier-stokes 300", help="Steps of each run."),
    Flag(name="budget", kind=float, help="A run also ends once it has spent this."),
    Flag(
        name="count", kind=str, value="chosen", metavar="NAME",
        help="What costs have: total, training (all but test examples) or chosen, as in the paper.",
    ),
    Flag(name="alpha", kind=float, default="0.01", help="Rate of the cost schedule."),
    Flag(name="setting", kind=list[str], metavar="NAME=VALUE", help="A setting of every run. May be repeated."),
    Flag(name="out", kind=Path, default="study-TASK", help="Folder of runs, JSON and page."),
    Flag(name="workers", kind=int, min=1, default="one per core", help="Runs at a time, one thread each."),
    NOTE,
    Flag(
        name="quick", kind=bool, value=False, help="Few examples, steps and iterations, to see that everything works."
    ),
    Flag(name="report", kind=bool, value=False, help="Run nothing, only report the runs that exist."),
)  # fmt: skip
METHOD_LIST = Flag(
    name="methods", kind=str, value="",
    help="Comma-separated; METHOD@ALPHA, METHOD@sigmoid:ALPHA or METHOD@constant for a schedule of its own.",
)  # fmt: skip

ONE_SEED = Flag(name="seeds", kind=int, min=1, value=1, help="Runs of each method; the first is shown.")


@study.command(epilog="Example: `mrafno study curves --task burgers --quick --out study`")
@with_flags([METHOD_LIST], ACTIVE)
def curves(
    ctx: typer.Context,
    errors: Annotated[str, typer.Option(help="Comma-separated errors to reach; round numbers if empty.")] = "",
    **_: Any,
) -> None:
    """Error against accumulated cost: methods by seeds, areas, costs to reach errors. All methods by default.

    An interrupted study continues when it is called again; more steps extend the runs.
    """
    from mrafno.studies.curves_report import curves_study

    wanted = positive_numbers(errors, "--errors")
    curves_study(_active("curves", ctx), ctx.params["methods"], wanted or None)


@study.command(epilog="Example: `mrafno study queries --task burgers --quick --out study`")
@with_flags([METHOD_LIST], ACTIVE)
def queries(
    ctx: typer.Context,
    stages: Annotated[int, typer.Option(min=1, help="Equal parts of the steps.")] = 5,
    **_: Any,
) -> None:
    """How many queries of each mesh were asked in each stage. By default, methods that choose the mesh.

    With the same --out it reads the runs of the other studies.
    """
    from mrafno.studies.queries import queries_study

    queries_study(_active("queries", ctx), ctx.params["methods"], stages)


@study.command(epilog="Example: `mrafno study schedules --task burgers --quick --out study`")
@with_flags(without(ACTIVE, "alpha"))
def schedules(
    ctx: typer.Context,
    method: Annotated[str, typer.Option(help="A method with a cost schedule.")] = "mra-uhat",
    alphas: Annotated[str, typer.Option(help="Comma-separated rates.")] = "0.002,0.005,0.01,0.02,0.5,1",
    **_: Any,
) -> None:
    """Both decays of the cost schedule at several rates, and the schedules themselves."""
    from mrafno.studies.schedules import ALPHAS, schedules_study

    rates = positive_numbers(alphas, "--alphas")
    schedules_study(_active("schedules", ctx), method, rates or ALPHAS)


@study.command(epilog="Example: `mrafno study pointwise --task burgers --quick --out study`")
@with_flags([METHOD_LIST, ONE_SEED], without(ACTIVE, "seeds"))
def pointwise(
    ctx: typer.Context,
    examples: Annotated[int, typer.Option(min=1, help="Test inputs to show.")] = 3,
    **_: Any,
) -> None:
    """Error fields of several methods on the same test inputs, on one scale.

    With the same --out it reads the runs of the other studies.
    """
    from mrafno.studies.pointwise import METHODS, pointwise_study

    pointwise_study(_active("pointwise", ctx), ctx.params["methods"] or METHODS, examples)


@study.command(epilog="Example: `mrafno study costs --quick --out study`")
@with_flags([NOTE])
def costs(
    ctx: typer.Context,
    task: Annotated[list[str] | None, typer.Option(help="A problem; may be repeated. All if none.")] = None,
    solves: Annotated[int | None, typer.Option(min=1, help="Solves per mesh. \\[default: 100, quick 5]")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Measurements. \\[default: 3, quick 1]")] = None,
    out: Annotated[Path, typer.Option(help="Folder of measurements, JSON and page.")] = Path("study-costs"),
    quick: Annotated[bool, typer.Option("--quick", help="Few solves, to see that everything works.")] = False,
    **_: Any,
) -> None:
    """Measured cost of each mesh beside the paper's. Solves run one at a time, with nothing beside them."""
    from mrafno.studies.costs import costs_study

    solves, seeds = solves or (5 if quick else 100), seeds or (1 if quick else 3)
    costs_study(task or [], out, solves=solves, seeds=seeds, note=ctx.params["note"])


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
    quick: Annotated[bool, typer.Option("--quick", help="Few examples and iterations, to see that it works.")] = False,
) -> None:
    """Five kinds of inference on the same 200 + 200 examples: error, likelihood, calibration.

    An interrupted study continues when it is called again.
    """
    from mrafno.studies.fixed_report import run_and_report

    run_and_report(task, [m.strip() for m in methods.split(",") if m.strip()], seeds, out, preset, workers, quick)


def _active(name: str, ctx: typer.Context) -> "Study":
    """A study of active learning from a command's flags."""
    from mrafno.cli.config import collect
    from mrafno.studies.active import Setup
    from mrafno.studies.pages import Study

    flags = given(ctx)
    setup = Setup.of(
        flags["task"],
        steps=flags.get("steps"),
        budget=flags.get("budget"),
        count=checked_count(flags["count"]),
        seeds=flags.get("seeds"),
        first_seed=flags["first_seed"],
        settings=collect({"alpha": flags.get("alpha")}, flags.get("setting", ())),
        quick=flags["quick"],
    )
    folder = flags.get("out") or Path(f"study-{setup.task}" + ("-quick" if flags["quick"] else ""))
    return Study(name, setup, folder, flags.get("workers"), flags["note"], run=not flags["report"])
