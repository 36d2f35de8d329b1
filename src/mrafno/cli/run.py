"""Commands that begin a run and go on with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mrafno.cli import options
from mrafno.cli.options import given
from mrafno.cli.program import app, say

if TYPE_CHECKING:
    from mrafno.cli.loading import Source
    from mrafno.run import Run

#: Steps of a run that was told no goal.
_STEPS = 100


@app.command(
    epilog="Examples:\n\n"
    "`mrafno run burgers --out runs/b --budget 500`\n\n"
    "`mrafno run solver.py:task --out runs/own --steps 50 --workers 4 --batch 4 --limit 3600`\n\n"
    "`mrafno run --config settings.toml --seed 3 --json`"
)
def run(
    ctx: typer.Context,
    task: options.TaskName = None,
    out: options.Out = None,
    config: options.Config = None,
    as_json: options.AsJson = None,
    steps: options.Steps = None,
    budget: options.Budget = None,
    target: options.Target = None,
    method: options.Method = None,
    seed: options.Seed = None,
    pool: options.Pool = None,
    initial: options.Initial = None,
    examples: options.Examples = None,
    test: options.Test = None,
    batch: options.Batch = None,
    schedule: options.Schedule = None,
    alpha: options.Alpha = None,
    members: options.Members = None,
    retrain: options.Retrain = None,
    iterations: options.Iterations = None,
    evaluate: options.Evaluate = None,
    preset: options.Preset = None,
    setting: options.Setting = None,
    workers: options.Workers = None,
    asynchronous: options.Asynchronous = None,
    dask: options.Dask = None,
    limit: options.Limit = None,
    isolate: options.Isolate = None,
    memory: options.Memory = None,
    max_failure_rate: options.MaxFailureRate = None,
) -> None:
    """Begin a run and advance it: choose, simulate, retrain, measure, again and again.

    It ends after 100 steps unless you say --steps, --budget or --target; of several, the first that is reached ends it.
    Ctrl-C stops it at any time, and `mrafno resume` goes on. The task's code runs on this machine.
    """
    from mrafno.cli.advance import advance, only_ours

    values = _values(ctx)
    values = {"steps": _STEPS, **values} if not {"budget", "target"} & values.keys() else values
    with only_ours(values.get("json", False)) as stdout, _created(values) as it:
        advance(it, Path(values["out"]), values, stdout)


@app.command(epilog="Example: `mrafno create solver.py:task --out runs/own`, then `mrafno ask runs/own -n 4`")
def create(
    ctx: typer.Context,
    task: options.TaskName = None,
    out: options.Out = None,
    config: options.Config = None,
    method: options.Method = None,
    seed: options.Seed = None,
    pool: options.Pool = None,
    initial: options.Initial = None,
    examples: options.Examples = None,
    test: options.Test = None,
    batch: options.Batch = None,
    schedule: options.Schedule = None,
    alpha: options.Alpha = None,
    members: options.Members = None,
    retrain: options.Retrain = None,
    iterations: options.Iterations = None,
    evaluate: options.Evaluate = None,
    preset: options.Preset = None,
    setting: options.Setting = None,
) -> None:
    """Begin a run without advancing it, to ask and tell by hand.

    In a file of settings the goals, and how simulations run, are kept for `mrafno resume`.
    """
    with _created(_values(ctx)) as it:
        typer.echo(f"created {it.ledger.given}")


@app.command(
    epilog="Examples:\n\n"
    "`mrafno resume runs/b`\n\n"
    "`mrafno resume runs/own --steps 200 --workers 8 --task solver.py:task`"
)
def resume(
    ctx: typer.Context,
    folder: options.Folder,
    task: options.OtherTask = None,
    as_json: options.AsJson = None,
    steps: options.Steps = None,
    budget: options.Budget = None,
    target: options.Target = None,
    workers: options.Workers = None,
    asynchronous: options.Asynchronous = None,
    dask: options.Dask = None,
    limit: options.Limit = None,
    isolate: options.Isolate = None,
    memory: options.Memory = None,
    max_failure_rate: options.MaxFailureRate = None,
) -> None:
    """Go on with a run, as if it had never stopped.

    What you do not say is as the run was called the last time: its goals (if you give one, it replaces them all), and
    how simulations run. A task of your own is loaded from where it was; which file that is, is printed first.
    """
    from mrafno.cli import config
    from mrafno.cli.advance import advance, only_ours
    from mrafno.cli.call_file import Call, recall, remember
    from mrafno.errors import RunError
    from mrafno.storage.ledger import Ledger

    flags = config.checked(config.pick(given(ctx), config.GOALS | config.SIMULATIONS), config.everything(), "the flags")
    Ledger.open(folder)  # what is no run is told before anything else
    last = recall(folder)
    values = {**last.values, **flags}
    for names in (config.GOALS.keys(), ("workers", "dask")):
        if any(name in flags for name in names):
            values = {name: value for name, value in values.items() if name not in names or name in flags}
    if not values.keys() & config.GOALS.keys():
        raise RunError(f"run {folder}: nobody said how far it is to go. Give --steps, --budget or --target.")
    with only_ours(bool(as_json)) as stdout:
        it, source = _opened(folder, task, last.source, "dask" in values)
        with it:
            remember(folder, Call(source, values))
            advance(it, folder, {**values, "json": as_json}, stdout)


def _values(ctx: typer.Context) -> dict[str, Any]:
    """What flags and a file say, checked; a run needs a task and a folder."""
    from mrafno.cli import config

    flags = given(ctx)
    file, settings = flags.pop("config", None), flags.pop("setting", ())
    flags = {name: str(value) if isinstance(value, Path) else value for name, value in flags.items()}
    values = config.gathered(flags, settings, file)
    for name, flag in (("task", "TASK"), ("out", "--out DIR")):
        if name not in values:
            raise typer.BadParameter(f"give it, or {name} in a file with --config.", param_hint=flag)
    return values


def _created(values: dict[str, Any]) -> "Run":
    from mrafno.cli import config
    from mrafno.cli.call_file import Call, remember
    from mrafno.cli.loading import Source
    from mrafno.run import Run

    source = Source.of(values["task"])
    begun = config.pick(values, ["method", "seed", "examples", *config.run_settings()])
    it = Run.create(values["out"], source.load(by_value="dask" in values), **begun)
    try:
        remember(it.ledger.folder, Call(source, config.pick(values, config.GOALS | config.SIMULATIONS)))
    except BaseException:
        it.close()
        raise
    return it


def _opened(folder: Path, task: str | None, known: "Source | None", dask: bool) -> tuple["Run", "Source | None"]:
    """A run with its task, and where that came from: from the flag, from where it was, or from the ledger."""
    from mrafno.cli.call_file import trusted
    from mrafno.cli.loading import Source
    from mrafno.errors import RunError
    from mrafno.run import Run
    from mrafno.tasks.stored import ExternalTask

    source = known if task is None else Source.of(task)
    if source is not None and source.is_code:
        if task is None:
            trusted(source, folder)
            say(f"loading the task from {source.text}, as {folder} remembers it")
        return Run.open(folder, source.load(by_value=dask)), source
    it = Run.open(folder, None if task is None or source is None else source.load())
    if isinstance(it.task, ExternalTask):
        it.close()
        raise RunError(
            f"run {folder}: it does not know where its task {it.task.name!r} is. Give it with --task FILE.py:NAME, or "
            "simulate yourself with `mrafno ask` and `mrafno tell`."
        )
    return it, source
