"""Studies of active learning on the command line: flags to functions, and no logic.

What a command needs is imported when it runs, so that ``--help`` answers at once.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mrafno.studies.pages import Study

Task = Annotated[str, typer.Option(help="burgers, darcy, darcy3, diffusion or navier-stokes.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="Runs of each method: seeds 0 to N-1. \\[default: 3, quick 2]")]
FirstSeed = Annotated[int, typer.Option(min=0, help="Where the seeds begin.")]
Steps = Annotated[
    int | None,
    typer.Option(min=1, help="Steps of each run. \\[default: 500; navier-stokes 300]"),
]
Budget = Annotated[float | None, typer.Option(help="A run also ends once it has spent this.")]
Alpha = Annotated[float | None, typer.Option(help="Rate of the cost schedule. \\[default: 0.01]")]
Out = Annotated[Path | None, typer.Option(help="Folder of runs, JSON and page. \\[default: study-TASK]")]
Workers = Annotated[int | None, typer.Option(min=1, help="Runs at a time, one thread each. \\[default: one per core]")]
Settings = Annotated[
    list[str] | None, typer.Option("--setting", metavar="NAME=VALUE", help="A setting of every run; several times.")
]
Note = Annotated[str, typer.Option(help="How alpha and the like were chosen; printed on the page.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few examples, steps and iterations: shows that it works.")]
Report = Annotated[bool, typer.Option("--report", help="Run nothing, only report what there is.")]
Methods = Annotated[
    str,
    typer.Option(
        help="Comma-separated; METHOD@ALPHA, METHOD@sigmoid:ALPHA or METHOD@constant for a schedule of its own."
    ),
]


def register(study: typer.Typer) -> None:
    """Add the commands."""
    for command in (curves, queries, schedules, pointwise, costs):
        example = "--task burgers --quick" if command is not costs else "--quick"
        study.command(epilog=f"Example: `mrafno study {command.__name__} {example} --out study`")(command)


def curves(
    task: Task = "burgers",
    methods: Methods = "",
    seeds: Seeds = None,
    first_seed: FirstSeed = 0,
    steps: Steps = None,
    budget: Budget = None,
    alpha: Alpha = None,
    errors: Annotated[str, typer.Option(help="Comma-separated errors whose cost is asked; round ones if empty.")] = "",
    setting: Settings = None,
    out: Out = None,
    workers: Workers = None,
    note: Note = "",
    quick: Quick = False,
    report: Report = False,
) -> None:
    """Error against accumulated cost: methods by seeds, areas, costs to reach errors. All methods by default.

    Interrupted, the same call goes on where it stopped; more steps extend the runs.
    """
    from mrafno.studies.curves_report import curves_study

    made = _study("curves", task, steps, budget, seeds, first_seed, alpha, setting, out, workers, note, quick, report)
    curves_study(made, methods, _numbers(errors, "errors"))


def queries(
    task: Task = "burgers",
    methods: Methods = "",
    stages: Annotated[int, typer.Option(min=1, help="Equal parts of the steps.")] = 5,
    seeds: Seeds = None,
    first_seed: FirstSeed = 0,
    steps: Steps = None,
    budget: Budget = None,
    alpha: Alpha = None,
    setting: Settings = None,
    out: Out = None,
    workers: Workers = None,
    note: Note = "",
    quick: Quick = False,
    report: Report = False,
) -> None:
    """How many of each mesh were asked for in each stage. Methods that have a choice by default.

    With the same --out it reads the runs of the other studies.
    """
    from mrafno.studies.queries import queries_study

    made = _study("queries", task, steps, budget, seeds, first_seed, alpha, setting, out, workers, note, quick, report)
    queries_study(made, methods, stages)


def schedules(
    task: Task = "burgers",
    method: Annotated[str, typer.Option(help="A method with a cost schedule.")] = "mra-uhat",
    alphas: Annotated[str, typer.Option(help="Comma-separated rates.")] = "0.002,0.005,0.01,0.02,0.5,1",
    seeds: Seeds = None,
    first_seed: FirstSeed = 0,
    steps: Steps = None,
    budget: Budget = None,
    setting: Settings = None,
    out: Out = None,
    workers: Workers = None,
    note: Note = "",
    quick: Quick = False,
    report: Report = False,
) -> None:
    """Both decays of the cost schedule at several rates, and the schedules themselves."""
    from mrafno.studies.schedules import ALPHAS, schedules_study

    made = _study("schedules", task, steps, budget, seeds, first_seed, None, setting, out, workers, note, quick, report)
    schedules_study(made, method, _numbers(alphas, "alphas") or ALPHAS)


def pointwise(
    task: Task = "burgers",
    methods: Methods = "",
    examples: Annotated[int, typer.Option(min=1, help="Test inputs to show.")] = 3,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method; the first is shown.")] = 1,
    first_seed: FirstSeed = 0,
    steps: Steps = None,
    budget: Budget = None,
    alpha: Alpha = None,
    setting: Settings = None,
    out: Out = None,
    workers: Workers = None,
    note: Note = "",
    quick: Quick = False,
    report: Report = False,
) -> None:
    """Error fields of several methods on the same test inputs, on one scale.

    With the same --out it reads the runs of the other studies.
    """
    from mrafno.studies.pointwise import METHODS, pointwise_study

    made = _study(
        "pointwise", task, steps, budget, seeds, first_seed, alpha, setting, out, workers, note, quick, report
    )
    pointwise_study(made, methods or METHODS, examples)


def costs(
    task: Annotated[list[str] | None, typer.Option(help="Which problem; several times. All if none.")] = None,
    solves: Annotated[int | None, typer.Option(min=1, help="Solves per mesh. \\[default: 100, quick 5]")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Measurements. \\[default: 3, quick 1]")] = None,
    out: Annotated[Path, typer.Option(help="Folder of measurements, JSON and page.")] = Path("study-costs"),
    note: Note = "",
    quick: Annotated[bool, typer.Option("--quick", help="Few solves: shows that it works.")] = False,
) -> None:
    """Measured cost of each mesh against the publication's. Solves run one at a time, with nothing beside them."""
    from mrafno.studies.costs import costs_study

    costs_study(task or [], out, solves=solves or (5 if quick else 100), seeds=seeds or (1 if quick else 3), note=note)


def _study(
    name: str,
    task: str,
    steps: int | None,
    budget: float | None,
    seeds: int | None,
    first_seed: int,
    alpha: float | None,
    setting: list[str] | None,
    out: Path | None,
    workers: int | None,
    note: str,
    quick: bool,
    report: bool,
) -> "Study":
    from mrafno.cli.config import gathered
    from mrafno.studies.active import Setup
    from mrafno.studies.pages import Study

    settings = gathered({"alpha": alpha}, setting or [])
    setup = Setup.of(
        task, steps=steps, budget=budget, seeds=seeds, first_seed=first_seed, settings=settings, quick=quick
    )
    folder = out or Path(f"study-{task}" + ("-quick" if quick else ""))
    return Study(name, setup, folder, workers, note, run=not report)


def _numbers(text: str, what: str) -> list[float] | None:
    from mrafno.errors import MrafnoError

    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = [-1.0]
    if any(not number > 0 for number in found):
        raise MrafnoError(f"study: {what} are positive numbers separated by commas, got {text!r}.")
    return found or None
