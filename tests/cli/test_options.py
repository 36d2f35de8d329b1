"""Flags from one table: signatures, values, types and lists of numbers."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from mrafno.cli import app, config, options
from mrafno.cli.options import Flag, given, positive_numbers, types, with_flags, without

COMMANDS = typer.main.get_command(app).commands
FLAGS = (
    Flag(name="steps", kind=int, min=0, help="Steps.", metavar="N", default="100"),
    Flag(name="async", kind=bool, help="Whether to wait."),
    Flag(name="quick", kind=bool, value=False, help="Few steps."),
    Flag(name="first_seed", kind=int, value=3, help="The first seed."),
    Flag(name="out", kind=Path, help="Folder."),
)


@pytest.fixture
def call():
    program, found = typer.Typer(), []

    @program.command()
    @with_flags(FLAGS)
    def command(ctx: typer.Context, own: str = "x", **_):
        found.append((own, given(ctx)))

    def call(*arguments):
        result = CliRunner().invoke(program, arguments)
        return found.pop() if not result.exit_code else result

    return call


def test_values_are_given_by_the_names_of_flags(call):
    assert call() == ("x", {"own": "x", "quick": False, "first_seed": 3})
    own, values = call("--no-async", "--steps", "4", "--quick", "--first-seed", "5", "--out", "a", "--own", "y")
    assert own == "y"
    assert values == {"own": "y", "async": False, "steps": 4, "quick": True, "first_seed": 5, "out": Path("a")}


def test_limits_and_help_are_those_of_the_table(call):
    assert call("--steps", "-1").exit_code == 2
    assert call("--no-quick").exit_code == 2
    help = " ".join(f"{p.opts} {p.help}" for p in COMMANDS["run"].params)
    assert "['--steps'] Chosen examples in all." in help
    assert "Rate of the schedule. \\[default: 0.01]" in help


def test_commands_share_the_flags_of_the_table():
    names = {name: [p.name for p in COMMANDS[name].params] for name in ("run", "create", "resume")}
    new, goals, simulations = (
        [flag.name for flag in group] for group in (options.NEW_RUN, options.GOALS, options.SIMULATIONS)
    )
    simulations[simulations.index("async")] = "async_"
    assert names["run"] == ["task", "out", "config", "json", *goals, "count", *new, *simulations, "dry_run"]
    assert names["create"] == ["task", "out", "config", *new]
    assert names["resume"] == ["folder", "task", "trust", "json", *goals, "count", *simulations, "callback", "method"]


def test_types_for_settings_files():
    assert types(FLAGS) == {"steps": int, "async": bool, "quick": bool, "first_seed": int, "out": str}
    assert [flag.name for flag in without(FLAGS, "async", "out")] == ["steps", "quick", "first_seed"]
    assert {flag.name for flag in options.NEW_RUN} - {"setting"} <= config.all_settings().keys()


def test_positive_numbers():
    assert positive_numbers(".1,2", "--errors") == [0.1, 2.0]
    assert positive_numbers("", "--errors") == positive_numbers(None, "--errors") == []
    for text in ("x", "0", "-1", "1,,2", "inf", "nan"):
        with pytest.raises(typer.BadParameter, match="is not a list of positive numbers"):
            positive_numbers(text, "--errors")
