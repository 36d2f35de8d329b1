"""Methods and callbacks from a person's own file, on the command line."""

import json

import pytest

from tests.cli.conftest import TINY, mrafno, shown

OWN = """
import numpy as np
import mrafno

class Spread:
    name = "spread"
    def __init__(self, power=POWER):
        self.power = power
    def score(self, context, chosen):
        spread = context.predict(level=-1).std.mean(axis=(1, 2)) ** self.power
        return spread[:, None] / np.asarray(context.costs)

method = mrafno.Method(acquisition=Spread(), name="mine")

class Lines:
    def on_evaluated(self, run, evaluation):
        with open(run.path.parent / "lines.txt", "a") as file:
            print(evaluation.step, file=file)

def make_method():
    return method

number = 5
"""


@pytest.fixture
def own(tmp_path, request):
    path = tmp_path / f"tiny_own_{abs(hash(request.node.name))}.py"
    path.write_text(OWN.replace("POWER", "1.0"))
    return path


@pytest.fixture
def created(tmp_path, solver, own):
    """A run of two steps with both."""
    how = ("--method", f"{own}:method", "--callback", f"{own}:Lines")
    result = mrafno("run", f"{solver}:task", "--out", tmp_path / "run", *TINY, "--steps", 2, *how)
    assert result.exit_code == 0, result.output
    return tmp_path / "run"


def test_a_run_has_them_and_resume_finds_them_again(created, own, tmp_path):
    assert shown(created)["method"] == "mine"
    assert (tmp_path / "lines.txt").read_text() == "0\n2\n"
    result = mrafno("resume", created, "--steps", 4)
    assert result.exit_code == 0, result.output
    for what in ("task", "method", "callback"):
        assert f"loading the {what} from" in result.stderr
    assert (tmp_path / "lines.txt").read_text() == "0\n2\n4\n"
    kept = json.loads((created / "task.source.json").read_text())
    assert kept["method"] == [f"{own}:method", None]
    assert kept["callbacks"] == [[f"{own}:Lines", None]]


def test_ask_finds_the_method_too(created, own):
    result = mrafno("ask", created)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[0]["kind"] == "pool"
    result = mrafno("ask", created, "--method", f"{own}:make_method")
    assert result.exit_code == 0, result.output


def test_a_changed_method_is_refused(created, own, tmp_path):
    other = tmp_path / "tiny_other_method.py"
    other.write_text(OWN.replace("POWER", "2.0"))
    result = mrafno("resume", created, "--steps", 4, "--method", f"{other}:method")
    assert result.exit_code == 1
    assert "the method is not the one that the run was created with: acquisition was" in result.stderr


def test_code_inside_the_runs_own_folder_is_not_executed_unasked(created, own):
    inside = created / own.name
    own.rename(inside)
    kept = json.loads((created / "task.source.json").read_text())
    kept["method"] = [f"{inside}:method", None]
    kept["callbacks"] = []
    (created / "task.source.json").write_text(json.dumps(kept))
    result = mrafno("resume", created, "--steps", 4)
    assert result.exit_code == 1
    assert f"If you trust it: mrafno resume {created} --method {inside}:method" in result.stderr


@pytest.mark.parametrize(
    ("flag", "name", "words"),
    [
        (
            "--method",
            "mra-uhut",
            "unknown method 'mra-uhut'. Did you mean 'mra-uhat'? Give the name of a built-in method",
        ),
        ("--method", "{own}:number", "it is a int, not a method. Make one with mrafno.Method(acquisition=...)"),
        ("--method", "{own}:methd", "it has no 'methd'. Did you mean 'method'?"),
        ("--callback", "lines", "unknown callback 'lines'. Give FILE.py:NAME or package.module:NAME."),
        (
            "--callback",
            "{own}:number",
            "it is a int, not a callback. A callback has at least one of the methods on_asked",
        ),
        ("--callback", "{own}", "it is a file. Name the callback in it"),
    ],
)
def test_what_is_no_such_thing_leaves_no_run_behind(tmp_path, solver, own, flag, name, words):
    result = mrafno("run", f"{solver}:task", "--out", tmp_path / "run", *TINY, flag, name.format(own=own))
    assert result.exit_code == 1
    assert words in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()
