"""The command line: what it prints, how it fails, and that it answers at once."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from mrafno import __version__, cli


def run(*arguments, width="160"):
    return CliRunner(env={"COLUMNS": width}).invoke(cli.app, arguments)


def main(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["mrafno", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code


def test_version():
    assert run("--version").output == f"mrafno {__version__}\n"


def test_tasks_are_described():
    result = run("tasks")
    assert result.exit_code == 0
    for text in ("burgers", "darcy3", "navier-stokes", "permeability", "33, 129", "1 : 21.3 : 38.3", "20 frames"):
        assert text in result.output


def test_one_task_can_be_named():
    output = run("tasks", "diffusion").output
    assert "1 : 17.6" in output
    assert "burgers" not in output


def test_costs_can_be_measured():
    result = run("tasks", "darcy", "--measure", "--solves", "2")
    assert result.exit_code == 0
    assert "one at a time" in result.output
    assert "38.3" in result.output


def test_errors_are_one_paragraph(monkeypatch, capsys):
    assert main(monkeypatch, "tasks", "heat") == 1
    said = capsys.readouterr()
    assert said.out == ""
    known = "burgers, darcy, darcy3, diffusion, navier-stokes"
    assert said.err == f"error: unknown task 'heat'. The known ones are {known}.\n"


def test_debug_shows_where_an_error_comes_from(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mrafno", "--debug", "tasks", "heat"])
    with pytest.raises(cli.MrafnoError, match="unknown task"):
        cli.main()


def test_wrong_usage_has_its_own_exit_code(monkeypatch, capsys):
    assert main(monkeypatch, "tasks", "--solves", "0") == 2
    assert main(monkeypatch, "nonsense") == 2
    capsys.readouterr()


def test_help_does_not_import_what_it_does_not_need():
    """Torch and SciPy take seconds to import."""
    code = (
        "import sys; sys.argv = ['mrafno', '--help']\n"
        "from mrafno.cli import main\n"
        "try: main()\n"
        "except SystemExit as e: assert not e.code\n"
        "print(sorted({'torch', 'scipy', 'plotly', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "tasks" in done.stdout


def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "mrafno.cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"mrafno {__version__}\n"
