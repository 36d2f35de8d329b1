"""The scripts in examples/ run."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "examples"


def run(name, *arguments):
    done = subprocess.run(
        [sys.executable, FOLDER / name, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_tested():
    tested = {"demo.py", "demo_tasks.py", "external_program.py", "own_simulator.py"}
    assert {path.name for path in FOLDER.glob("*.py")} == tested


def test_own_simulator():
    assert run("own_simulator.py").startswith("coarse and fine differ by 1.")


def test_external_program():
    said = run("external_program.py")
    assert "solved (2, 1, 32, 48)" in said
    assert "It said: the input is too large for this program" in said


def test_demo(tmp_path):
    """A budget of five coarse solves; the second call finds everything done."""
    for _ in range(2):
        said = run("demo.py", "--out", str(tmp_path), "--budget", "5", "--iterations", "3")
    assert (tmp_path / "report.html").resolve().as_uri() in said
    assert "mra-auto" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "run.html").exists()


def test_demo_tasks(tmp_path):
    page = tmp_path / "tasks.html"
    said = run("demo_tasks.py", "--out", str(page))
    assert page.resolve().as_uri() in said
    text = page.read_text(encoding="utf-8")
    assert all(f"<h2>{name}</h2>" in text for name in ("burgers", "darcy", "darcy3", "diffusion", "navier-stokes"))
