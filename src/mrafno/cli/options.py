"""Flags as one table: a command's signature, its help, shell completion and the names in settings files follow from it.

A flag that was not given is None. Then a settings file, or the call that a run directory remembers, sets the value.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

if TYPE_CHECKING:
    from mrafno.run.spending import Count

Command = TypeVar("Command", bound=Callable[..., None])
Complete = Callable[[str], Iterable[str]]

#: Ways of counting costs, see mrafno.run.spending.
_COUNTS = ("total", "training", "chosen")
# Panels of the help text.
_GOAL, _HOW, _CHOICE, _SURROGATE = "When to stop", "How simulations run", "What is chosen", "The surrogate"


def complete_task(incomplete: str) -> Iterator[str]:
    """Names of built-in tasks, and Python files."""
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


def complete_setting(incomplete: str) -> list[str]:
    """Names of settings, each with its ``=``."""
    from mrafno.cli.config import run_settings

    return [f"{name}=" for name in run_settings() if name.startswith(incomplete)]


def _complete_words(*words: str) -> Complete:
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class Flag:
    """A flag of one or more commands.

    Attributes:
        name: in settings files, and with dashes on the command line.
        kind: type of the value; a bool without a default is a pair of flags, ``--name/--no-name``.
        panel: of the help text; None for the first one.
        default: what the help text gives as the default if the value is None.
        value: when the flag is not given.
        argument: whether it is a positional argument.
    """

    name: str
    kind: Any
    help: str
    metavar: str | None = None
    panel: str | None = None
    default: str | None = None
    value: Any = None
    min: float | None = None
    max: float | None = None
    complete: Complete | None = None
    argument: bool = False

    def parameter(self) -> Parameter:
        """The parameter of a command, as Typer reads it; a Python keyword gets an underscore, see :func:`given`."""
        text = self.help if self.default is None else f"{self.help} \\[default: {self.default}]"
        about: dict[str, Any] = {
            "help": text,
            "metavar": self.metavar,
            "rich_help_panel": self.panel,
            "autocompletion": self.complete,
            "min": self.min,
            "max": self.max,
        }
        if self.argument:
            option = typer.Argument(show_default=False, **about)
        else:
            dashed = self.name.replace("_", "-")
            pair = self.kind is bool and self.value is None
            option = typer.Option(f"--{dashed}/--no-{dashed}" if pair else f"--{dashed}", **about)
        kind = self.kind if self.value is not None else self.kind | None
        name = f"{self.name}_" if self.name == "async" else self.name
        return Parameter(name, Parameter.KEYWORD_ONLY, default=self.value, annotation=Annotated[kind, option])


def with_flags(*groups: Sequence[Flag]) -> Callable[[Command], Command]:
    """Give a command these flags after its own parameters; it finds their values with :func:`given`."""

    def decorate(command: Command) -> Command:
        own = [p for p in signature(command).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        shared = [flag.parameter() for group in groups for flag in group]
        command.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
        return command

    return decorate


def given(ctx: typer.Context) -> dict[str, Any]:
    """Values of a command's flags by name, those that are not None."""
    return {name.removesuffix("_"): value for name, value in ctx.params.items() if value is not None}


def types(*groups: Sequence[Flag]) -> dict[str, Any]:
    """Names and types of flags, as settings files have them."""
    return {flag.name: str if flag.kind is Path else flag.kind for group in groups for flag in group}


def without(group: Sequence[Flag], *names: str) -> list[Flag]:
    """The flags of a group that have none of these names."""
    return [flag for flag in group if flag.name not in names]


def positive_numbers(text: str | None, flag: str) -> list[float]:
    """Positive numbers from a comma-separated text; an empty text has none."""
    try:
        found = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        found = [math.nan]
    if not all(0 < number < math.inf for number in found):
        raise typer.BadParameter(
            f"{text!r} is not a list of positive numbers with commas between, like .1,.05", param_hint=flag
        )
    return found


# Parameters that commands declare themselves.

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The run's folder.", show_default=False)]
QueryId = Annotated[str, typer.Argument(metavar="ID", help="Id of the query, like q000012.", show_default=False)]
OtherTask = Annotated[
    str | None,
    typer.Option(
        "--task", metavar="TASK", help="Take the task from FILE.py:NAME instead of where the run took it from.",
        autocompletion=complete_task,
    ),
]  # fmt: skip

CountOption = Annotated[
    str,
    typer.Option(
        "--count", metavar="NAME", help="What costs have: total, training (all but test examples) or chosen.",
        autocompletion=_complete_words(*_COUNTS),
    ),
]  # fmt: skip


def checked_count(count: str) -> "Count":
    """A way of counting costs, if there is one of this name."""
    from mrafno.run.spending import check_count

    check_count(count)
    return cast("Count", count)


# Flags that several commands share.

PLACE = (
    Flag(
        name="task", kind=str, argument=True, metavar="TASK", complete=complete_task,
        help="A problem's name (see `mrafno tasks`), a table (.npz, .h5), or FILE.py:NAME or package.module:NAME, "
        "where NAME is a task or a "
        "function that returns one.",
    ),
    Flag(name="out", kind=Path, metavar="DIR", help="The new run's folder."),
)  # fmt: skip
CONFIG = Flag(
    name="config", kind=Path, metavar="FILE",
    help="TOML or YAML with any of these flags as names, without dashes; flags take precedence.",
)  # fmt: skip
AS_JSON = Flag(name="json", kind=bool, help="Print JSON, and nothing else, on stdout.")

GOALS = (
    Flag(name="steps", kind=int, min=0, metavar="N", panel=_GOAL, help="Chosen examples in all."),
    Flag(
        name="budget", kind=float, min=0, metavar="COST", panel=_GOAL, help="What the run may cost in all."
    ),
    Flag(
        name="target", kind=float, min=0, metavar="ERROR", panel=_GOAL,
        help="Stop when the upper ends of the run's last two estimates of its error are lower.",
    ),
)  # fmt: skip

COUNT = Flag(
    name="count", kind=str, metavar="NAME", panel=_GOAL, default="total", complete=_complete_words(*_COUNTS),
    help="What the budget covers: total, training (all but test examples) or chosen (the chosen examples alone).",
)  # fmt: skip

SIMULATIONS = (
    Flag(
        name="workers", kind=int, min=1, metavar="N", panel=_HOW, default="1, this one",
        help="Processes that simulate.",
    ),
    Flag(
        name="async", kind=bool, panel=_HOW, help="Ask again as soon as a worker is free, not after a whole batch."
    ),
    Flag(
        name="dask", kind=str, metavar="ADDRESS", panel=_HOW, complete=_complete_words("local", "tcp://"),
        help="Simulate on a Dask cluster: its scheduler's address, or local for one on this machine.",
    ),
    Flag(name="limit", kind=float, min=0, metavar="SECONDS", panel=_HOW, help="End simulations that take longer."),
    Flag(name="isolate", kind=bool, panel=_HOW, help="Simulate in a child process, so that it may crash."),
    Flag(name="memory", kind=float, min=0, metavar="GB", panel=_HOW, help="Memory that a simulation may take."),
    Flag(
        name="max_failure_rate", kind=float, min=0, max=1, metavar="SHARE", panel=_HOW, default="0.5",
        help="Share of the simulations that may fail.",
    ),
    Flag(
        name="device", kind=str, metavar="NAME", panel=_SURROGATE, default="auto, a GPU where there is one",
        complete=_complete_words("auto", "cpu", "cuda", "mps"), help="Train and predict on cpu, cuda, cuda:1 or mps.",
    ),
)  # fmt: skip

#: The same flag of commands that do not advance a run.
Device = Annotated[
    str, typer.Option(metavar="NAME", help="Train and predict on auto (a GPU where there is one), cpu, cuda or mps.")
]

CALLBACK = Flag(
    name="callback", kind=list[str], metavar="FILE.py:NAME", panel=_HOW,
    help="An object, a class or a function that makes one, with methods that are called after events. May be repeated.",
)  # fmt: skip
#: A method that is not built in, given again.
OTHER_METHOD = Flag(
    name="method", kind=str, metavar="FILE.py:NAME", panel=_CHOICE,
    help="Load the run's own method from here instead of from where it was.",
)  # fmt: skip

CHOICE = (
    Flag(
        name="method", kind=str, metavar="NAME", panel=_CHOICE, default="mra-auto", complete=complete_method,
        help="How to choose: mra-u, mra-uhat, mra-auto, mr-predvar, mr-dropout, random-*, coreset-* or lcmd-*, where * "
        "is low, high or mix; or FILE.py:NAME, where NAME is a mrafno.Method.",
    ),
    CALLBACK,
    Flag(name="seed", kind=int, min=0, metavar="N", panel=_CHOICE, default="0", help="Seed of all random numbers."),
    Flag(
        name="pool", kind=int, min=1, metavar="N", panel=_CHOICE,
        default="all inputs that a task was given, 990 of a built-in task", help="Candidates to choose from.",
    ),
    Flag(
        name="initial", kind=str, metavar="N,N,...", panel=_CHOICE, default="a few with mra-auto, otherwise 10",
        help="Initial examples of every mesh, or of each mesh, coarse to fine: 20,3.",
    ),
    Flag(
        name="examples", kind=Path, metavar="FILE", panel=_CHOICE,
        help="Earlier simulations in place of as many initial ones: .npz with input_0, output_0, input_1 and so on by "
        "mesh, and optionally cost_0 and so on.",
    ),
    Flag(
        name="test", kind=int, min=0, metavar="N", panel=_CHOICE, default="200 of a built-in task, otherwise 0",
        help="Test examples of the finest mesh.",
    ),
    Flag(name="batch", kind=int, min=1, metavar="N", panel=_CHOICE, default="1", help="Queries asked together."),
    Flag(
        name="schedule", kind=str, metavar="NAME", panel=_CHOICE, default="exp",
        complete=_complete_words("exp", "sigmoid", "constant"), help="Cost schedule: exp, sigmoid or constant.",
    ),
    Flag(
        name="alpha", kind=float, min=0, metavar="RATE", panel=_CHOICE, default="0.01", help="Rate of the schedule."
    ),
)  # fmt: skip

SURROGATE = (
    Flag(name="members", kind=int, min=2, metavar="N", panel=_SURROGATE, default="5", help="Members of the ensemble."),
    Flag(
        name="retrain", kind=str, metavar="HOW", panel=_SURROGATE, default="warm",
        complete=_complete_words("warm", "scratch"), help="warm starts from the last weights, scratch from new ones.",
    ),
    Flag(
        name="iterations", kind=int, min=1, metavar="N", panel=_SURROGATE, default="the preset's",
        help="Iterations of each whole fit.",
    ),
    Flag(
        name="evaluate", kind=int, min=1, metavar="K", panel=_SURROGATE, default="10",
        help="Measure the error after every K steps.",
    ),
    Flag(
        name="preset", kind=str, metavar="NAME", panel=_SURROGATE, default="fast",
        complete=_complete_words("fast", "paper"), help="Size of the network and of its training: fast or paper.",
    ),
)  # fmt: skip
SETTING = Flag(
    name="setting", kind=list[str], metavar="NAME=VALUE", panel=_SURROGATE, complete=complete_setting,
    help="Any setting of a run, also those without a flag: inference, design, renormalise, targets, candidates, "
    "refit_growth, update_every, scoring_points, network, training, test_seed, retries, lease. One of network's or "
    "training's as training.rate=0.002. May be repeated.",
)  # fmt: skip

DRY_RUN = Flag(
    name="dry_run", kind=bool, value=False, panel=_GOAL,
    help="Print what would be simulated and what that costs, and do nothing.",
)  # fmt: skip

#: What a new run is given beside its goals.
NEW_RUN = (*CHOICE, *SURROGATE, SETTING)
