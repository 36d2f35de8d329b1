"""docs/cluster.md on a real Slurm: two nodes on this machine, one of them taken down, a job over its time limit."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from mrafno.run import RunReader
from mrafno.run.check import check_run
from tests.slurm import NODES, Slurm, missing

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "cluster.md").read_text()
#: A simulator that takes a second, and leaves a line for each simulation that it ends.
ROD = """
import os, time
import numpy as np
from mrafno.tasks import FunctionTask

x = np.linspace(0, 1, 17)
a, b = np.random.default_rng(0).uniform(0.5, 2.0, (2, 60, 1))

def solve(f, level):
    time.sleep(1.0)
    return np.cumsum(f, axis=-1) / f.shape[-1]

task = FunctionTask(solve, a * np.sin(2 * np.pi * x + b), ((9,), (17,)), (1, 8), name="rod")
"""
SIMULATE = """
import os, sys, time
import numpy as np
from pathlib import Path

f, level, out = np.load(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
slow = Path("slow")
if os.environ["SLURM_ARRAY_TASK_ID"] == "2" and slow.exists():
    slow.unlink()
    time.sleep(600)
time.sleep(3.0)
np.save(out, np.cumsum(f, axis=-1) / f.shape[-1])
"""
SETTINGS = {"pool": 20, "initial": 3, "test": 2, "members": 2, "iterations": 1, "update_every": 99}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing() or "there is a Slurm")]


@pytest.fixture
def slurm(tmp_path):
    cluster = Slurm(tmp_path / "slurm")
    yield cluster
    cluster.stop()


def from_page(title, **changes):
    """A script as the page has it, with some words replaced."""
    [(_, text)] = re.findall(rf'```(\w+) title="{re.escape(title)}"\n(.*?)```', PAGE, re.DOTALL)
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, str(new))
    return text


def environment(slurm, place):
    path = f"{place}:{ROOT / 'src'}"
    commands = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**slurm.environment, "PYTHONPATH": path, "PATH": commands, "OMP_NUM_THREADS": "1"}


def told_events(folder):
    return Counter(event.data["id"] for event in RunReader(folder).ledger.events if event.kind == "told")


def check_finished(folder, least):
    told = told_events(folder)
    assert len(told) >= least
    assert max(told.values()) == 1
    assert check_run(folder).intact


def test_dask_jobqueue_with_a_node_that_goes_down(slurm, tmp_path, record_property):
    pytest.importorskip("dask_jobqueue")
    (tmp_path / "rod.py").write_text(ROD)
    folder = tmp_path / "rod"
    changes = {
        "/shared/runs/rod": folder, "32": 3, 'memory="2GB"': 'memory="500MB", job_extra_directives=["--requeue"]',
        'method="mra-auto"': f'method="random-mix", **{SETTINGS}', "budget=5000": "total_steps=8",
    }  # fmt: skip
    (tmp_path / "drive.py").write_text(from_page("drive.py", **changes))
    with (tmp_path / "drive.log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, "drive.py"], cwd=tmp_path, env=environment(slurm, tmp_path), stdout=log, stderr=log
        )
        try:
            slurm.wait(lambda: driver.poll() is not None or (folder.exists() and len(told_events(folder)) >= 2), 240)
            [node, *_] = [line.split()[1] for line in slurm.jobs("-t", "running")]
            before = told_events(folder)
            slurm.take_down(node)
            time.sleep(3)
            slurm.bring_back(node)
            assert driver.wait(300) == 0, (tmp_path / "drive.log").read_text()
        finally:
            driver.kill()
            driver.wait()
    assert before.keys() <= told_events(folder).keys()
    state = RunReader(folder).state
    assert (state.step, state.stopped) == (8, "finished 8 steps")
    check_finished(folder, 16)
    lost = [query.reason for query in state.queries.values() if query.status == "failed"]
    record_property("simulations", len(told_events(folder)))
    record_property("nodes down", 1)
    print(f"dask-jobqueue: {len(told_events(folder))} told, {len(lost)} failed with {node} down: {Counter(lost)}")


def test_a_job_array_with_a_node_that_goes_down_and_a_job_over_its_time_limit(slurm, tmp_path, record_property):
    (tmp_path / "rod.py").write_text(ROD)
    (tmp_path / "simulate.py").write_text(SIMULATE)
    (tmp_path / "slow").write_text("")
    folder, env = tmp_path / "own", environment(slurm, tmp_path)
    places = {"/shared/runs/own": folder}
    (tmp_path / "array.sbatch").write_text(from_page("array.sbatch", **places, **{"01:00:00": "00:01:00"}))
    (tmp_path / "round.sh").write_text(from_page("round.sh", **places))
    sizes = [
        f"--{name.replace('_', '-')}={SETTINGS[name]}" for name in ("pool", "initial", "test", "members", "iterations")
    ]
    command = [sys.executable, "-m", "mrafno", "create", "rod.py:task", "--out", str(folder), *sizes]
    subprocess.run(command, check=True, cwd=tmp_path, env=env, capture_output=True)
    with (tmp_path / "round.log").open("wb") as log:
        first = subprocess.Popen(["sh", "round.sh", "-n", "8"], cwd=tmp_path, env=env, stdout=log, stderr=log)
    try:
        # The job that will not end is on one node; the other one goes down.
        slurm.wait(lambda: any(line.endswith("_2") for line in slurm.jobs("-t", "running")), 120)
        [held] = [line.split()[1] for line in slurm.jobs("-t", "running") if line.endswith("_2")]
        [down] = [node for node in NODES if node != held]
        slurm.wait(lambda: any(line.split()[1] == down for line in slurm.jobs("-t", "running")), 60)
        slurm.take_down(down)
        time.sleep(3)
        slurm.bring_back(down)
        first.wait(400)
    finally:
        first.kill()
        first.wait()
    state = RunReader(folder).state
    # All told but the one that was cut off, whose job ended with TIMEOUT.
    assert [query.id for query in state.running] == ["q000002"], (tmp_path / "round.log").read_text()
    assert "TIMEOUT" in slurm.run("scontrol", "show", "jobs").stdout
    again = ["sh", "round.sh", "--again", "--all"]
    done = subprocess.run(again, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert json.loads(Path(f"{folder}.json").read_text())[0]["id"] == "q000002", done.stderr
    assert RunReader(folder).state.running == []
    check_finished(folder, 8)
    record_property("simulations", len(told_events(folder)))
    record_property("nodes down", 1)
    record_property("jobs over their limit", 1)
    print(f"job array: {len(told_events(folder))} told, each once, with {down} down and one job over its time limit")
