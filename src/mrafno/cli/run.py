"""Commands that create, advance and resume runs."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from mrafno.cli import options
from mrafno.cli.options import given, with_flags
from mrafno.cli.program import app, print_stderr

if TYPE_CHECKING:
    from mrafno.cli.call_file import Call
    from mrafno.cli.loading import Source
    from mrafno.run import Run
    from mrafno.run.plan import Plan

#: Steps of a run without a goal.
_STEPS = 100


@app.command(
    epilog="Examples:\n\n"
    "`mrafno run burgers --out runs/b --budget 500`\n\n"
    "`mrafno run solver.py:task --out runs/own --steps 50 --workers 4 --batch 4 --limit 3600`\n\n"
    "`mrafno run --config settings.toml --seed 3 --json`"
)
@with_flags(
    options.PLACE,
    [options.CONFIG, options.AS_JSON],
    options.GOALS,
    [options.COUNT],
    options.NEW_RUN,
    options.SIMULATIONS,
    [options.DRY_RUN],
)
def run(ctx: typer.Context, **_: Any) -> None:
    """Create a run and advance it: choose, simulate, retrain and measure, step by step.

    It ends after 100 steps unless --steps, --budget or --target is given; of several, the first that is reached ends
    it. Ctrl-C stops it at any time, and `mrafno resume` continues it. The task's code is executed on this machine.
    """
    from mrafno.cli.advance import advance, reserved_stdout

    dry_run = ctx.params.pop("dry_run")
    values = _values(ctx, "task") if dry_run else _values(ctx)
    values = {"steps": _STEPS, **values} if not {"budget", "target"} & values.keys() else values
    parts = _loaded(values)
    plan = _plan(parts, values)
    if dry_run:
        typer.echo(json.dumps(plan.as_json()) if values.get("json") else str(plan))
        return
    plan.check()
    with reserved_stdout(values.get("json", False)) as stdout, _created(parts, values) as it:
        advance(it, Path(values["out"]), values, stdout)


@app.command(epilog="Example: `mrafno create solver.py:task --out runs/own`, then `mrafno ask runs/own -n 4`")
@with_flags(options.PLACE, [options.CONFIG], options.NEW_RUN)
def create(ctx: typer.Context, **_: Any) -> None:
    """Create a run without advancing it, for `mrafno ask` and `mrafno tell`.

    Goals and simulation settings of a settings file are kept for `mrafno resume`.
    """
    values = _values(ctx)
    with _created(_loaded(values), values) as it:
        typer.echo(f"created {it.ledger.given}")


@app.command(
    epilog="Examples:\n\n"
    "`mrafno resume runs/b`\n\n"
    "`mrafno resume runs/own --steps 200 --workers 8 --task solver.py:task`"
)
@with_flags(
    [options.AS_JSON], options.GOALS, [options.COUNT], options.SIMULATIONS, [options.CALLBACK, options.OTHER_METHOD]
)
def resume(
    ctx: typer.Context,
    folder: options.Folder,
    task: options.OtherTask = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Execute the code that the run names, though somebody else wrote its name.")
    ] = False,
    **_: Any,
) -> None:
    """Continue a run, as if it had never stopped.

    Goals and simulation settings that are not given are those of the last call; a goal that is given replaces all
    earlier goals. A task, a method and callbacks from files are loaded from the same files, whose names are printed; if
    somebody else has written these names, you are asked before.
    """
    from mrafno.cli import config
    from mrafno.cli.advance import advance, reserved_stdout
    from mrafno.cli.call_file import Call, read_call, write_call
    from mrafno.cli.loading import Source
    from mrafno.errors import RunError
    from mrafno.storage.ledger import Ledger

    flags = given(ctx)
    as_json, method, callback = flags.get("json", False), flags.get("method"), flags.get("callback")
    flags = config.check_types(
        config.pick(flags, config.GOALS | config.SIMULATIONS), config.all_settings(), "the flags"
    )
    Ledger.open(folder)  # a folder that is not a run is an error before anything else happens
    last = read_call(folder)
    values = {**last.values, **flags}
    for names in (config.GOALS.keys(), ("workers", "dask")):
        if any(name in flags for name in names):
            values = {name: value for name, value in values.items() if name not in names or name in flags}
    if not values.keys() & config.GOALS.keys():
        raise RunError(f"run {folder}: it has no goal. Give --steps, --budget or --target.")
    call = Call(
        last.source if task is None else Source.of(task),
        values,
        last.method if method is None else Source.of(method, "method"),
        tuple(Source.of(text, "callback") for text in callback) if callback else last.callbacks,
    )
    if trust:
        last = replace(last, signed=True)
    if "dask" in flags:
        last = replace(last, values={})
    with reserved_stdout(as_json) as stdout, open_run(folder, call, last) as it:
        write_call(folder, call)
        advance(it, folder, {**values, "json": as_json}, stdout)


def _values(ctx: typer.Context, *needed: str) -> dict[str, Any]:
    """Checked values of flags and settings file; a run needs a task and a folder unless fewer are ``needed``."""
    from mrafno.cli import config

    flags = given(ctx)
    file, settings = flags.pop("config", None), flags.pop("setting", ())
    flags = {name: str(value) if isinstance(value, Path) else value for name, value in flags.items()}
    values = config.collect(flags, settings, file)
    for name, flag in (("task", "TASK"), ("out", "--out DIR")):
        if name not in values and name in (needed or ("task", "out")):
            raise typer.BadParameter(f"missing. Give it, or set {name} in a file with --config.", param_hint=flag)
    return values


class _Parts(NamedTuple):
    """A new run's task, method and callbacks, and where they came from."""

    source: "Source"
    method_source: "Source"
    callback_sources: tuple["Source", ...]
    task: Any
    method: Any
    callbacks: list[Any]


def _loaded(values: dict[str, Any]) -> _Parts:
    from mrafno.cli.loading import Source
    from mrafno.storage.new_folder import check_new

    if "out" in values:
        check_new(values["out"])  # before anything is loaded or drawn
    source = Source.of(values["task"])
    method = Source.of(values.get("method", "mra-auto"), "method")
    callbacks = tuple(Source.of(text, "callback") for text in values.get("callback", ()))
    task = source.load(by_value="dask" in values)
    loaded = [callback.load() for callback in callbacks]
    return _Parts(source, method, callbacks, task, method.load(), loaded)


def _plan(parts: _Parts, values: dict[str, Any]) -> "Plan":
    """What a new run is going to simulate."""
    from mrafno.cli import config
    from mrafno.data.imports import read_examples
    from mrafno.run.goals import check_goals, goals_of
    from mrafno.run.methods import get_method, settings_of
    from mrafno.run.plan import Plan

    method = get_method(parts.method) if isinstance(parts.method, str) else parts.method
    settings = settings_of(parts.task, method, config.pick(values, config.run_settings()))
    count = options.checked_count(values.get("count", "total"))
    goals = goals_of(None, values.get("steps"), values.get("budget"), count, values.get("target"), done=0)
    check_goals(goals, method.spec(settings.inference).name)
    given = read_examples(values["examples"], parts.task) if "examples" in values else []
    return Plan.of_new(parts.task, settings, goals, [len(one.inputs) for one in given])


def _created(parts: _Parts, values: dict[str, Any]) -> "Run":
    from mrafno.cli import config
    from mrafno.cli.call_file import Call, write_call
    from mrafno.run import Run

    source, method, callbacks = parts.source, parts.method_source, parts.callback_sources
    begun = config.pick(values, ["seed", "examples", *config.run_settings()])
    device = values.get("device", "auto")
    it = Run.create(values["out"], parts.task, parts.method, callbacks=parts.callbacks, device=device, **begun)
    try:
        kept = config.pick(values, config.GOALS | config.SIMULATIONS)
        write_call(it.ledger.folder, Call(source, kept, method if method.is_code else None, callbacks))
    except BaseException:
        it.close()
        raise
    return it


def open_run(folder: Path, call: "Call", last: "Call") -> "Run":
    """A run with its task, method and callbacks; what the run's call file names is checked and printed first."""
    from mrafno.cli.call_file import check_author, check_there, check_trusted
    from mrafno.errors import RunError
    from mrafno.run import Run
    from mrafno.tasks.stored import ExternalTask

    # What was given again as a flag is another object, and is trusted.
    remembered = [source for source in (last.source, last.method, *last.callbacks) if source is not None]
    used = [call.source, call.method, *call.callbacks]
    sources = [source for source in remembered if source.is_code and any(source is one for one in used)]
    address = last.values.get("dask")
    addresses = [] if address in (None, "local") or call.values.get("dask") != address else [address]
    for source in sources:
        check_there(source, folder)
        check_trusted(source, folder)
    named = [*(source.text for source in sources), *addresses]
    check_author(folder, last, named, f"mrafno resume {shlex.quote(str(folder))} --trust")
    for source in sources:
        print_stderr(f"loading the {source.what} from {source.text}, the source in {folder}")
    task = None if call.source is None else call.source.load(by_value="dask" in call.values)
    method = None if call.method is None else call.method.load()
    callbacks = [callback.load() for callback in call.callbacks]
    # A built-in task comes from the ledger, which knows its meshes and costs.
    given = call.source
    own = task if given is not None and (given.is_code or given.is_table or given is not last.source) else None
    it = Run.open(folder, own, method=method, callbacks=callbacks, device=call.values.get("device", "auto"))
    if isinstance(it.task, ExternalTask):
        it.close()
        raise RunError(
            f"run {folder}: the source of its task {it.task.name!r} is not known. Give it with --task FILE.py:NAME, or "
            "simulate outside of mrafno with `mrafno ask` and `mrafno tell`."
        )
    return it
