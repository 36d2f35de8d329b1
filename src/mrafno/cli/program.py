"""The program itself: options for all commands, and how errors end.

Exit codes: 0 done; 1 an error; 2 wrong usage; 3 too many simulations failed; 130 interrupted.
"""

import re
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mrafno._version import __version__
from mrafno.errors import FailuresError, MrafnoError

#: Too many simulations failed.
FAILURES = 3
#: After Ctrl-C, as every shell has it.
INTERRUPTED = 130

#: In which order ``--help`` lists the commands; others come after them.
_ORDER = (
    *("run", "resume", "show", "compare", "report", "dashboard", "predict", "export"),
    *("create", "ask", "tell", "fail", "abandon", "tasks"),
)

_EPILOG = """
[bold]Exit codes:[/] 0 done; 1 an error; 2 wrong usage; 3 too many simulations failed; 130 interrupted (Ctrl-C).

[bold]To begin:[/] `mrafno tasks`, then `mrafno run burgers --out runs/first --steps 20`, then `mrafno show runs/first`.
"""


class Group(TyperGroup):
    """Commands whose help is as wide as the terminal, not as the docstrings in the code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for command in self.commands.values():
            command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help or "")


class Commands(Group):
    """All commands; their errors are one paragraph each, and a traceback with ``--debug``."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, as they are listed."""
        return sorted(super().list_commands(ctx), key=lambda name: (*_ORDER, name).index(name))

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except MrafnoError as error:
            if ctx.params["debug"]:
                traceback.print_exc()
            else:
                say(f"error: {error}")
            raise typer.Exit(FAILURES if isinstance(error, FailuresError) else 1) from None
        except Exception as error:
            # Typer's own, and a reader of our output who has seen enough.
            if ctx.params["debug"] or hasattr(error, "exit_code") or isinstance(error, BrokenPipeError):
                raise
            said = " ".join(f"{type(error).__name__}: {error}".split())
            say(
                f"error: something that mrafno did not foresee: {said}. What was recorded is safe. To see where it "
                "comes from, for a report of the mistake, repeat it as: mrafno --debug COMMAND ..."
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


def say(text: str) -> None:
    """A message for people, on stderr."""
    typer.echo(text, err=True)


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
    del version, debug  # the first ends in its callback, the second is looked at where errors end


def main() -> None:
    """Run the command line."""
    app()
