"""The program: options for all commands, errors and exit codes.

Exit codes: 0 done; 1 an error; 2 wrong usage; 3 too many simulations failed; 4 a run's files are damaged; 130
interrupted.
"""

import contextlib
import re
import traceback
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mrafno._version import __version__
from mrafno.errors import FailuresError, MrafnoError, MrafnoWarning, printable

#: Too many simulations failed.
FAILURES = 3
#: Something in a run's directory is damaged.
DAMAGED = 4
#: After Ctrl-C, as in every shell.
INTERRUPTED = 130

#: Order of the commands in ``--help``; others follow.
_ORDER = (
    *("run", "resume", "show", "compare", "report", "dashboard", "predict", "export"),
    *("create", "ask", "tell", "fail", "abandon", "check", "repair", "tasks"),
)

_EPILOG = """
[bold]Exit codes:[/] 0 done; 1 an error; 2 wrong usage; 3 too many simulations failed; 4 damaged files; 130
interrupted (Ctrl-C).

[bold]To begin:[/] `mrafno tasks`, then `mrafno run burgers --out runs/first --steps 20`, then `mrafno show runs/first`.
"""


class Group(TyperGroup):
    """Commands whose help fills the width of the terminal instead of keeping the line breaks of docstrings."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for command in self.commands.values():
            command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help or "")


class Commands(Group):
    """All commands; an error is printed as one paragraph, or as a traceback with ``--debug``."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of the help text."""
        return sorted(super().list_commands(ctx), key=lambda name: (*_ORDER, name).index(name))

    def invoke(self, ctx: Any) -> Any:
        """Run a command and turn exceptions into exit codes."""
        try:
            with _plain_warnings():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            print_stderr("interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except MrafnoError as error:
            if ctx.params["debug"]:
                traceback.print_exc()
            else:
                print_stderr(f"error: {error}")
            raise typer.Exit(FAILURES if isinstance(error, FailuresError) else 1) from None
        except Exception as error:
            # Typer's own errors, and a reader that closed the pipe.
            if ctx.params["debug"] or hasattr(error, "exit_code") or isinstance(error, BrokenPipeError):
                raise
            said = " ".join(f"{type(error).__name__}: {error}".split())
            print_stderr(
                f"error: unexpected {said}. What was recorded is safe. For a traceback, to report the bug, repeat the "
                "command as: mrafno --debug COMMAND ..."
            )
            raise typer.Exit(1) from None


app = typer.Typer(
    name="mrafno",
    cls=Commands,
    help="Multi-resolution active learning of Fourier neural operators.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def print_stderr(text: str) -> None:
    """Print a message on stderr."""
    typer.echo(printable(text), err=True)


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print warnings of mrafno like errors, without the line of code that issued them."""
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, MrafnoWarning):
            print_stderr(f"warning: {message}")
        else:
            before(message, category, *where, **more)

    with warnings.catch_warnings(action="always", category=MrafnoWarning):
        warnings.showwarning = show
        yield


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mrafno {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    del version, debug  # the first is handled by its callback, the second in Commands.invoke


def main() -> None:
    """Run the command line."""
    app()
