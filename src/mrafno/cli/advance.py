"""Advance a run from the command line: display, executor, Ctrl-C, exit code."""

import contextlib
import faulthandler
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from mrafno.cli import config
from mrafno.cli.options import checked_count
from mrafno.cli.program import INTERRUPTED, print_stderr
from mrafno.errors import MrafnoError, MrafnoWarning, RunError

if TYPE_CHECKING:
    from mrafno.cli.display import Display
    from mrafno.run import Run
    from mrafno.run.fit_time import FitAhead
    from mrafno.run.spending import Count
    from mrafno.storage.ledger import Event

#: Seconds that Ctrl-C waits for a safe point of the run.
_GRACE_SECONDS = 1.0


def advance(run: "Run", folder: Path, values: Mapping[str, Any], stdout: TextIO) -> None:
    """Advance a run to its goals, and print how it ended.

    Args:
        values: goals, how simulations run, and ``json``, by the names of their flags.
        stdout: where lines are printed if there is no live display.
    """
    how = config.pick(values, config.SIMULATIONS)
    goals, count = config.pick(values, config.GOALS), checked_count(values.get("count", "total"))
    _advise(how, run.settings.batch)
    if not faulthandler.is_enabled():
        with contextlib.suppress(OSError, ValueError):  # stderr is no file
            faulthandler.enable()  # a simulator that crashes says where
    with (
        warnings.catch_warnings(action="ignore", category=MrafnoWarning),  # the display shows them
        _display(run, goals, count, bool(values.get("json")), stdout) as display,
        safe_interrupts() as safe_point,
    ):

        def heard(event: "Event") -> None:
            if event.kind == "warned" and event.data["text"] is not None:
                display.warn(event.data["text"])

        def watch(phase: str, done: float | None = None) -> None:
            safe_point()
            display(phase, done)

        run.recorder.listeners.append(heard)
        try:
            outcome = run.advance(
                **_renamed(goals),
                count=count,
                executor=executor(how),
                workers=concurrent_simulations(how),
                asynchronous=how.get("async", False),
                limit=how.get("limit"),
                isolate=how.get("isolate", False),
                memory=round(how["memory"] * 1e9) if "memory" in how else None,
                max_failure_rate=how.get("max_failure_rate", 0.5),
                watch=watch,
                progress=sys.stderr.isatty() and not values.get("json"),
            )
        except KeyboardInterrupt:
            display.finish("interrupted", "Ctrl-C")
        except MrafnoError as error:
            display.finish("failed", str(error))
            raise
        else:
            display.finish("done", outcome.reason)
            return
    print_stderr(f"stopped; resume with: mrafno resume {shlex.quote(str(folder))}")
    raise typer.Exit(INTERRUPTED)


def _renamed(goals: Mapping[str, Any]) -> dict[str, Any]:
    """Goals by the names of :meth:`Run.advance`: on the command line steps count from the beginning."""
    return {"total_steps" if name == "steps" else name: value for name, value in goals.items()}


def executor(how: Mapping[str, Any]) -> Callable[[], Executor] | None:
    """A function that makes the executor that the flags ask for; None to simulate in this process."""
    from mrafno.simulation.executors import dask_executor, process_pool

    workers, dask = how.get("workers"), how.get("dask")
    if dask is None:
        return partial(process_pool, workers) if workers and workers > 1 else None
    return partial(dask_executor, None, workers) if dask == "local" else partial(dask_executor, dask)


def concurrent_simulations(how: Mapping[str, Any]) -> int:
    """How many simulations an asynchronous run keeps running."""
    from mrafno.simulation.processes import cores

    if "workers" in how or "dask" not in how:
        return int(how.get("workers", 1))
    if how["dask"] != "local" and how.get("async"):
        raise RunError(f"--async with --dask {how['dask']}: give --workers, the number of simulations to keep running.")
    return cores()


def _advise(how: Mapping[str, Any], batch: int) -> None:
    workers = how.get("workers", 1)
    if workers > batch and not how.get("async"):
        print_stderr(
            f"note: with --batch {batch} and without --async, at most {batch} of {workers} workers simulate at a time "
            "after the initial examples."
        )


def _display(run: "Run", goals: Mapping[str, float], count: "Count", as_json: bool, stdout: TextIO) -> "Display":
    from rich.console import Console

    from mrafno.cli.display import JsonDisplay, LineDisplay, LiveDisplay

    def ahead() -> "FitAhead | None":
        return run.trainer.ahead

    if as_json:
        return JsonDisplay(run, goals, stdout, count, ahead=ahead)
    console = Console()
    if sys.stdout.isatty() and not console.is_dumb_terminal:
        return LiveDisplay(run, goals, console, count, ahead=ahead)
    return LineDisplay(run, goals, stdout, count, ahead=ahead)


@contextlib.contextmanager
def reserved_stdout(wanted: bool) -> Iterator[TextIO]:
    """A stream to stdout for the caller alone, if ``wanted``; what simulators print, in any process, goes to stderr."""
    if not wanted:
        yield sys.stdout
        return
    with contextlib.ExitStack() as stack:
        ours = sys.stdout
        with contextlib.suppress(OSError):  # stdout is not a file, as in tests
            number = ours.fileno()
            ours.flush()
            ours = stack.enter_context(os.fdopen(os.dup(number), "w", encoding="utf-8"))
            stack.callback(os.dup2, ours.fileno(), number)
            os.dup2(sys.stderr.fileno(), number)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield ours


@contextlib.contextmanager
def safe_interrupts() -> Iterator[Callable[[], None]]:
    """Delay Ctrl-C to the next call of the function that this yields, for a second at most.

    So it does not interrupt the writing of a record, and does not wait for a simulation in this process either, which
    may take hours. A second Ctrl-C does not wait.
    """
    pressed = False

    def at_once(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise KeyboardInterrupt

    def soon(*_: object) -> None:
        nonlocal pressed
        if pressed:
            at_once()
        pressed = True
        signal.signal(signal.SIGALRM, at_once)
        signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)

    def safe_point() -> None:
        if pressed:
            at_once()

    before = signal.getsignal(signal.SIGALRM)
    interrupt = signal.signal(signal.SIGINT, soon)
    try:
        yield safe_point
    finally:
        if pressed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, interrupt)
