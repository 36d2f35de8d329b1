"""A tiny task in a file, commands on it, and a run that is finished."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mrafno.cli import app

#: The environment makes it fail or hang, since it may run in another process.
SOLVER = """
import os, time
import numpy as np
from mrafno.tasks import FunctionTask

x = np.linspace(0, 1, 17)
amplitude, phase = np.random.default_rng(0).uniform(0.5, 2.0, (2, 40, 1))
calls = 0

def solve(f, level):
    global calls
    calls += 1
    print("simulating")
    if "TINY_FAILS" in os.environ:
        raise ValueError("no convergence")
    if str(calls) == os.environ.get("TINY_HANGS_AT"):
        time.sleep(600)
    return np.cumsum(f, axis=-1) / f.shape[-1]

task = FunctionTask(solve, amplitude * np.sin(2 * np.pi * x + phase), ((9,), (17,)), (1, 8), name="tiny")
"""
#: Settings with which a step takes no time.
TINY = [
    *("--pool", "12", "--initial", "3", "--test", "4", "--members", "2", "--iterations", "3", "--evaluate", "2"),
    *("--setting", "update_every=10"),
]
#: What a run says when it begins with these settings, on stderr.
PART = (
    "warning: tiny: of 40 inputs 6 are initial and 4 test examples; of the other 30 the setting pool=12 keeps 12 as "
    "candidates. Leave pool out to keep all.\n"
)


def mrafno(*arguments, **environment):
    """Run a command in this process."""
    runner = CliRunner(env={"COLUMNS": "160", **environment})
    return runner.invoke(app, [str(argument) for argument in arguments])


def write_solver(folder: Path, name: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(SOLVER)
    return path


def shown(folder):
    return json.loads(mrafno("show", folder, "--json").stdout)


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch):
    """Loading puts folders on the path and modules into Python's table."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.startswith("tiny_"):
            del sys.modules[name]


@pytest.fixture
def solver(tmp_path, request):
    return write_solver(tmp_path, f"tiny_{abs(hash(request.node.name))}")


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """A run of four steps, and what its command printed."""
    folder = tmp_path_factory.mktemp("original")
    solver = write_solver(folder, "tiny_original")
    result = mrafno("run", f"{solver}:task", "--out", folder / "run", *TINY, "--steps", 4)
    assert result.exit_code == 0, result.output
    return folder / "run", result


@pytest.fixture
def finished(original, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(original[0], tmp_path / "finished"))
