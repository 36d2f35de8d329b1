"""The scripts in examples/ run."""

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"


def run(name, *arguments):
    """What an example prints; shell scripts find mrafno and python where this one runs."""
    command = [sys.executable] if name.endswith(".py") else ["bash"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, FOLDER / name, *arguments],
        capture_output=True, text=True, timeout=600, check=False, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_tested():
    text = Path(__file__).read_text(encoding="utf-8")
    names = [path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".sh")]
    assert len(names) >= 6
    assert [name for name in names if f'("{name}"' not in text] == []


def test_own_simulator():
    lines = run("own_simulator.py").splitlines()
    assert lines[0].startswith("finished 5 steps: cost ")
    assert all(re.fullmatch(r"asked for candidate \d+ on (9|33) points, cost (1|16)", line) for line in lines[1:6])
    first, last = (re.fullmatch(r"after step (\d), cost \d+: relative error (0\.\d+)", line) for line in lines[6:])
    assert (first[1], last[1]) == ("0", "5")
    assert float(last[2]) < float(first[2])


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("acquisition.py", "finished 5 steps: cost ", r"(\(\d+, [01]\)(, )?){5}"),
        ("mesh_rule.py", "finished 6 steps: cost 1039 in all: 168.8 initial, 46.2 chosen", r"0, 0, 0, 0, 1, 0"),
        ("network.py", "finished 3 steps: cost 995.8 in all: 168.8 initial, 3 chosen", r"\(2, 1, 129\)"),
    ],
)
def test_extensions_from_outside(name, first, last):
    """Each is at most 30 lines long."""
    assert len((FOLDER / name).read_text(encoding="utf-8").splitlines()) <= 30
    lines = run(name).splitlines()
    assert lines[0].startswith(first)
    assert re.fullmatch(rf"\[?{last}\]?", lines[1])


@pytest.mark.parametrize(("name", "needs"), [("py_pde.py", "pde"), ("scikit_fem.py", "skfem")])
def test_solvers_of_other_people(name, needs):
    """Installed by ``make examples-solvers``."""
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    assert run(name).startswith("finished 3 steps: cost ")


def test_table():
    """The method of this package has the lower error on a table of which the fine mesh lacks two thirds."""
    *reasons, first, second = run("table.py").splitlines()
    assert reasons == ["mra-auto finished 8 steps", "random-mix finished 8 steps"]
    errors = [float(re.fullmatch(r"\S+ at cost \d+: relative error (0\.\d+)", line)[1]) for line in (first, second)]
    assert errors[0] < errors[1] < 0.5


def test_callback():
    rows = [line.split(",") for line in run("callback.py").splitlines()]
    assert [tuple(row[:2]) for row in rows] == [("0", "0.0"), ("2", "2.0"), ("4", "4.0")]
    assert float(rows[-1][2]) < float(rows[0][2])


def test_external_program():
    said = run("external_program.py")
    assert said.startswith("finished 3 steps")
    assert said.count(" failed ") == 1
    assert "It said: the input is too large for this program" in said
    assert len(re.findall(r"q\d{6} pool on level [01] told", said)) == 3


def test_by_hand(tmp_path):
    said = run("by_hand.sh", tmp_path / "hand")
    assert "told q000004; 2 running\nfailed q000005; 1 running\nabandoned q000006; 0 running\n" in said
    assert "finished 2 steps" in said
    assert "the licence server was down" in said
    assert "this input has no steady state" in said


def test_dask_cluster():
    pytest.importorskip("distributed")
    said = run("dask_cluster.py")
    workers = re.findall(r"process (\d+) simulates on level [01]", said)
    assert len(workers) == 14
    assert len(set(workers)) == 2
    assert "finished 4 steps" in said
    assert len(re.search(r"asked for \(candidate, level\): (.*)", said)[1].split("), (")) == 4


def test_three_dimensions():
    lines = run("three_dimensions.py").splitlines()
    error = re.fullmatch(r"finished 4 steps: .*relative error (0\.\d+) on test examples", lines[0])
    assert float(error[1]) < 0.3
    assert lines[1] == "(2, 1, 12, 12, 12) mean and std on (0.0, 20.0) mm"


def test_parameters_only():
    lines = run("parameters_only.py").splitlines()
    assert lines[0].startswith("finished 5 steps: ")
    said = r"q\d{6} on level [01]: conductivity [\d.]+, convection [\d.]+, base [\d.]+"
    assert all(re.fullmatch(said, line) for line in lines[1:6])
    ends = [float(re.fullmatch(r"temperature at the end: ([\d.]+) \+- [\d.]+", line)[1]) for line in lines[6:]]
    exact = [80 / math.cosh(math.sqrt(2 / conductivity)) for conductivity in (0.5, 5.0, 50.0)]
    assert max(abs(a - b) for a, b in zip(ends, exact, strict=True)) < 20


def test_trajectory():
    lines = run("trajectory.py").splitlines()
    simulated, predicted = ([float(word) for word in line.split(": ")[1].split()] for line in lines[1:3])
    assert simulated[0] == 0.0
    assert max(abs(a - b) for a, b in zip(simulated, predicted, strict=True)) < 0.2
    assert lines[3].endswith("shows input, truth, prediction and error over x (m) and t (s)")


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("own_simulator.py", "finished 5 steps"), ("fields_2d.py", "finished 5 steps"),
        ("fields_3d.py", "finished 4 steps"), ("parameters.py", "finished 8 steps"),
        ("table.py", "mra-auto finished 8 steps"), ("external_program.py", "finished 3 steps"),
        ("dask_cluster.py", "process "),
    ],
)  # fmt: skip
def test_gallery(tmp_path, name, begins):
    if name == "dask_cluster.py":
        pytest.importorskip("distributed")
    picture = tmp_path / "picture.svg"
    said = run(name, "--picture", str(picture))
    assert said.startswith(begins)
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_demo(tmp_path):
    """A budget of five coarse solves beside the first examples; the second call finds everything done."""
    for _ in range(2):
        said = run("demo.py", "--out", str(tmp_path), "--budget", "97.4", "--iterations", "3")
    assert re.search(r"mra-auto: 15 coarse and 2 fine solves, relative error \d", said)
    assert "forecast half-way: none yet" in said
    assert (tmp_path / "report.html").resolve().as_uri() in said
    assert "mra-auto" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "run.html").exists()


def test_demo_tasks(tmp_path):
    page = tmp_path / "tasks.html"
    said = run("demo_tasks.py", "--out", str(page))
    assert page.resolve().as_uri() in said
    text = page.read_text(encoding="utf-8")
    assert all(f"<h2>{name}<a " in text for name in ("burgers", "darcy", "darcy3", "diffusion", "diffusion3d"))


def test_measured_costs():
    lines = run("measured_costs.py").splitlines()
    coarse, fine = map(float, re.fullmatch(r"seconds of a simulation: ([0-9.]+), ([0-9.]+)", lines[-2]).groups())
    assert 0.005 <= coarse < 0.05 <= fine
    spent = re.fullmatch(r"spent: ([0-9.]+) in all: ([0-9.]+) initial, ([0-9.]+) chosen, 0 test", lines[-1])
    assert float(spent[1]) >= 14 * 0.005
