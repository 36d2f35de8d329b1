"""Flags that several commands have, and what shells complete.

A flag that was not given is None: only so can a file of settings, or what a run remembers, speak in its place.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

#: Names of parameters that differ from their flags, because Python has another use for those.
_RENAMED = {"asynchronous": "async", "as_json": "json"}

_GOAL, _HOW, _CHOICE, _SURROGATE = "What to reach", "How simulations run", "What is chosen", "The surrogate"


def given(ctx: typer.Context) -> dict[str, Any]:
    """The flags of a command that were given, by the name of the flag."""
    return {_RENAMED.get(name, name): value for name, value in ctx.params.items() if value is not None}


def complete_task(incomplete: str) -> Iterator[str]:
    """Names of our tasks, and Python files."""
    from mrafno.tasks import TASKS

    yield from (name for name in TASKS if name.startswith(incomplete))
    folder, name = Path(incomplete).parent, Path(f"{incomplete}x").name[:-1]
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        if path.name.startswith(name) and (path.suffix == ".py" or (path.is_dir() and name)):
            yield f"{path}/" if path.is_dir() else f"{path}:"


def complete_method(incomplete: str) -> list[str]:
    """Names of methods."""
    from mrafno.run.methods import METHODS

    return [name for name in METHODS if name.startswith(incomplete)]


def _words(*words: str) -> Any:
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def complete_setting(incomplete: str) -> list[str]:
    """Names of settings, up to their ``=``."""
    from mrafno.cli.config import run_settings

    return [f"{name}=" for name in run_settings() if name.startswith(incomplete)]


# Where.

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The run's folder.", show_default=False)]
QueryId = Annotated[str, typer.Argument(metavar="ID", help="Of the query, like q000012.", show_default=False)]
TaskName = Annotated[
    str | None,
    typer.Argument(
        metavar="TASK",
        help="A problem's name (see `mrafno tasks`), or FILE.py:NAME or package.module:NAME, "
        "where NAME is a task or a function that returns one.",
        autocompletion=complete_task,
        show_default=False,
    ),
]
OtherTask = Annotated[
    str | None,
    typer.Option(
        "--task", metavar="TASK", help="Take the task from FILE.py:NAME instead of where the run took it from.",
        autocompletion=complete_task,
    ),
]  # fmt: skip
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The new run's folder.", show_default=False)]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML or YAML with any of these flags as names, without dashes; flags go first.",
    ),
]
AsJson = Annotated[
    bool | None, typer.Option("--json/--no-json", help="JSON for machines, and nothing else, on stdout.")
]

# What ends a run.

Steps = Annotated[int | None, typer.Option(min=0, metavar="N", help="Chosen examples in all.", rich_help_panel=_GOAL)]
Budget = Annotated[
    float | None,
    typer.Option(min=0, metavar="COST", help="What the chosen examples may cost in all.", rich_help_panel=_GOAL),
]
Target = Annotated[
    float | None,
    typer.Option(
        min=0, metavar="ERROR", help="End when the run is sure that its error is lower.", rich_help_panel=_GOAL
    ),
]

# How simulations run.

Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Processes that simulate. \\[default: 1, this one]", rich_help_panel=_HOW),
]
Asynchronous = Annotated[
    bool | None,
    typer.Option(
        "--async/--no-async",
        help="Ask again as soon as a worker is free, not after a whole batch.",
        rich_help_panel=_HOW,
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Simulate on a Dask cluster: its scheduler's address, or local for one here.",
        rich_help_panel=_HOW, autocompletion=_words("local", "tcp://"),
    ),
]  # fmt: skip
Limit = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="End simulations that take longer.", rich_help_panel=_HOW),
]
Isolate = Annotated[
    bool | None,
    typer.Option("--isolate/--no-isolate", help="A process for every simulation: it may crash.", rich_help_panel=_HOW),
]
Memory = Annotated[
    float | None, typer.Option(min=0, metavar="GB", help="Memory that a simulation may take.", rich_help_panel=_HOW)
]
MaxFailureRate = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, metavar="SHARE", help="Of the simulations that may fail. \\[default: 0.5]", rich_help_panel=_HOW
    ),
]

# What a run is.

Method = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="How to choose: mra-u, mra-uhat, mra-auto, mr-predvar, mr-dropout, random-* or coreset-*, "
        "where * is low, high or mix. \\[default: mra-auto]", autocompletion=complete_method, rich_help_panel=_CHOICE,
    ),
]  # fmt: skip
Seed = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Of all that is random. \\[default: 0]", rich_help_panel=_CHOICE)
]
Pool = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Candidates. \\[default: 990]", rich_help_panel=_CHOICE)
]
Initial = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="First examples of every mesh. \\[default: 10]", rich_help_panel=_CHOICE),
]
Examples = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Earlier simulations in place of as many first ones: .npz with input_0, output_0, input_1 "
        "and so on by mesh, and perhaps cost_0 and so on.", rich_help_panel=_CHOICE,
    ),
]  # fmt: skip
Test = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="Examples of the finest mesh to measure on. \\[default: 200]", rich_help_panel=_CHOICE
    ),
]
Batch = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Queries asked together. \\[default: 1]", rich_help_panel=_CHOICE)
]
Schedule = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="How costs come in: exp, sigmoid or constant. \\[default: exp]", rich_help_panel=_CHOICE,
        autocompletion=_words("exp", "sigmoid", "constant"),
    ),
]  # fmt: skip
Alpha = Annotated[
    float | None,
    typer.Option(min=0, metavar="RATE", help="The schedule's rate. \\[default: 0.01]", rich_help_panel=_CHOICE),
]
Members = Annotated[
    int | None, typer.Option(min=2, metavar="N", help="Of the ensemble. \\[default: 5]", rich_help_panel=_SURROGATE)
]
Retrain = Annotated[
    str | None,
    typer.Option(
        metavar="HOW", help="warm goes on from the last weights, scratch begins anew. \\[default: warm]",
        rich_help_panel=_SURROGATE, autocompletion=_words("warm", "scratch"),
    ),
]  # fmt: skip
Iterations = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Of each whole fit. \\[default: the preset's]", rich_help_panel=_SURROGATE),
]
Evaluate = Annotated[
    int | None,
    typer.Option(min=1, metavar="K", help="Measure after every K steps. \\[default: 10]", rich_help_panel=_SURROGATE),
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="fast or paper. \\[default: fast]", rich_help_panel=_SURROGATE,
        autocompletion=_words("fast", "paper"),
    ),
]  # fmt: skip
Setting = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", autocompletion=complete_setting, rich_help_panel=_SURROGATE,
        help="Any setting of a run, also those without a flag: inference, renormalise, targets, candidates, refresh, "
        "brief, first, test_seed, retries, lease. May be repeated.",
    ),
]  # fmt: skip
