"""Studies on the command line."""

import pytest
from typer.testing import CliRunner

from mrafno.cli.study import study
from mrafno.errors import MrafnoError


def call(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(study, arguments)


def test_commands(tmp_path):
    assert call("--help").output.count("Error") >= 1
    tiny = ["--quick", "--workers", "1", "--seeds", "1", "--steps", "2", "--out", str(tmp_path / "out")]
    for name in ("pool=5", "initial=2", "test=2", "iterations=2", "evaluate=2"):
        tiny += ["--setting", name]
    done = call("curves", *tiny, "--methods", "random-low", "--errors", "0.5,0.3")
    assert done.exit_code == 0, done.output
    again = call("queries", *tiny, "--methods", "random-low", "--report")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "out" / "queries.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["curves", "--report", "--out", "nowhere-at-all"], "has no run"),
        (["curves", "--setting", "colour=3"], "unknown setting 'colour'"),
        (["costs", "--task", "heat"], "unknown task 'heat'"),
    ],
)
def test_invalid_arguments(arguments, said):
    failed = call(*arguments)
    assert isinstance(failed.exception, MrafnoError)
    assert said in str(failed.exception)


@pytest.mark.parametrize("arguments", [["curves", "--errors", "small"], ["schedules", "--alphas", "-1"]])
def test_numbers_that_are_not_positive_are_wrong_usage(arguments):
    failed = call(*arguments)
    assert failed.exit_code == 2
    assert "is not a list of positive numbers" in failed.stderr
