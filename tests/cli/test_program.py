"""The command line: what it prints, how it fails, and that it answers at once."""

import re
import subprocess
import sys

import pytest
import typer
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
    known = "burgers, darcy, darcy3, diffusion, navier-stokes, burgers-parameters, diffusion3d"
    assert said.err == f"error: unknown task 'heat'. The known ones are {known}.\n"


def test_debug_shows_where_an_error_comes_from(monkeypatch, capsys):
    assert main(monkeypatch, "--debug", "tasks", "heat") == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert "mrafno.errors.TaskError: unknown task 'heat'." in said


@pytest.fixture
def broken(monkeypatch):
    """A command that raises an unexpected error."""

    def broken(error):
        def table(names):
            raise error

        monkeypatch.setattr("mrafno.tasks.describe.task_table", table)

    return broken


def test_unexpected_errors_are_one_paragraph(broken):
    broken(ValueError("two\nlines"))
    result = run("tasks")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: unexpected ValueError: two lines. What was recorded is safe. For a traceback, to report the bug, "
        "repeat the command as: mrafno --debug COMMAND ...\n"
    )
    assert isinstance(run("--debug", "tasks").exception, ValueError)


def test_warnings_are_printed_without_a_line_of_code(tmp_path):
    """In a process of its own: pytest has its own way with warnings."""
    (tmp_path / "own.py").write_text(
        "import warnings\nimport numpy as np\nfrom mrafno import FunctionTask\n"
        "warnings.warn('an older interface', UserWarning)\n"
        "task = FunctionTask(lambda f, level: f, np.random.default_rng(0).normal(size=(30, 1, 9)), (5, 9), (1, 2))\n"
    )
    arguments = ["create", "own.py:task", "--out", "run", "--pool", "5", "--initial", "2", "--test", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "mrafno", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    first, *_, last = done.stderr.splitlines()
    assert first.endswith("own.py:4: UserWarning: an older interface")  # Python's own, of the person's code
    assert last == (
        "warning: function: of 30 inputs 4 are initial and 2 test examples; of the other 24 the setting pool=5 keeps 5 "
        "as candidates. Leave pool out to keep all."
    )


def test_ctrl_c_outside_of_a_run(broken):
    broken(KeyboardInterrupt())
    result = run("tasks")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted.\n")


def test_wrong_usage_has_its_own_exit_code(monkeypatch, capsys):
    assert main(monkeypatch, "tasks", "--solves", "0") == 2
    assert main(monkeypatch, "nonsense") == 2
    capsys.readouterr()


def test_help_names_the_commands_in_the_order_of_use_and_the_exit_codes():
    output = run("--help").output
    names = re.findall(r"^│ ([a-z]+) ", output.partition("Commands")[2], flags=re.MULTILINE)
    first = ["run", "resume", "show", "compare", "report", "dashboard", "predict", "export"]
    first += ["create", "ask", "tell", "fail", "abandon", "check", "repair", "tasks"]
    assert names[: len(first)] == first
    text = " ".join(output.split())
    assert "0 done; 1 an error; 2 wrong usage; 3 too many simulations failed; 4 damaged files; 130 interrupted" in text


@pytest.mark.parametrize("name", [*typer.main.get_command(cli.app).commands])
def test_every_command_has_help_with_an_example(name):
    command = typer.main.get_command(cli.app).commands[name]
    assert command.help
    for param in getattr(command, "params", []):
        assert param.help, f"{name} {param.name}"
    if name != "study":
        assert f"mrafno {name}" in command.epilog
        assert run(name, "--help").exit_code == 0


def completed(*words):
    """Completions for bash after these words."""
    line = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_MRAFNO_COMPLETE": "complete_bash"}
    return CliRunner(env=line).invoke(cli.app, [], prog_name="mrafno").output.split()


def test_shells_complete_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "solver.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "sub").mkdir()
    assert completed("mrafno", "re") == ["resume", "report", "repair"]
    assert completed("mrafno", "run", "d") == ["darcy", "darcy3", "diffusion", "diffusion3d"]
    assert completed("mrafno", "run", "s") == ["solver.py:", "sub/"]
    assert completed("mrafno", "tasks", "nav") == ["navier-stokes"]
    assert completed("mrafno", "run", "burgers", "--method", "mra-") == ["mra-u", "mra-uhat", "mra-auto"]
    assert completed("mrafno", "run", "burgers", "--schedule", "s") == ["sigmoid"]
    assert completed("mrafno", "run", "burgers", "--setting", "re") == [
        "renormalise=",
        "retrain=",
        "refit_growth=",
        "retries=",
    ]


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
    done = subprocess.run([sys.executable, "-m", "mrafno", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"mrafno {__version__}\n"
