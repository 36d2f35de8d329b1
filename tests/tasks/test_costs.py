"""Measured costs, with a clock that the test controls, and the published costs."""

import io
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from mrafno.errors import TaskError
from mrafno.grids import relative_l2
from mrafno.tasks import TASKS, FunctionTask, get_task
from mrafno.tasks.costs import PUBLISHED, cost_table, measure_costs, report


def test_means_over_single_solves():
    """A simulator that moves the clock by a known amount, and is off by a known factor on the coarse mesh."""
    now, sizes = [0.0], []

    def solve(f, level):
        now[0] += (0.5, 2.0, 6.0)[level] * (1 + f[0, 0, 0] / 10)
        sizes.append(len(f))
        return f * (0.9, 0.98, 1.0)[level]

    inputs = np.ones((4, 1, 17)) * np.arange(1, 5)[:, None, None]
    task = FunctionTask(solve, inputs, (5, 9, 17), (1, 2, 3), batched=True)
    measured = measure_costs(task, inputs, clock=lambda: now[0])
    assert set(sizes) == {1}
    assert measured.seconds == pytest.approx((0.5 * 1.25, 2.0 * 1.25, 6.0 * 1.25))
    assert measured.ratios == pytest.approx((1.0, 4.0, 12.0))
    assert measured.bias == pytest.approx((0.1, 0.02, 0.0))
    assert measured.solves == 4


def test_batches_are_solved_together_and_counted_one_by_one():
    now, sizes = [0.0], []

    def solve(f, level):
        now[0] += 1.0 + level
        sizes.append(len(f))
        return f * (0.5 + 0.5 * level)

    task = FunctionTask(solve, np.ones((5, 9)), (5, 9), (1, 2), batched=True)
    measured = measure_costs(task, task.sample(5), batch=2, clock=lambda: now[0])
    assert sizes == [1, 1, 2, 2, 2, 2, 1, 1]
    assert measured.seconds == pytest.approx((3 / 5, 6 / 5))
    assert measured.bias == pytest.approx((0.5, 0.0))


def test_burgers_is_compared_at_shared_nodes():
    task = get_task("burgers")
    f = task.sample(3)
    measured = measure_costs(task, f)
    coarse, fine = task.solve(task.restrict(f, 0), 0), task.solve(f, 1)
    assert measured.bias[0] == pytest.approx(relative_l2(coarse, fine[..., ::4]).mean())
    assert measured.seconds[1] > measured.seconds[0] > 0


def test_published_costs_are_those_of_the_tasks():
    assert {name: get_task(name).costs for name in PUBLISHED} == PUBLISHED
    assert PUBLISHED.keys() < TASKS.keys()


def test_the_table_says_what_was_measured():
    out = io.StringIO()
    task = get_task("darcy3")
    measured = measure_costs(task, task.sample(2))
    Console(file=out, width=120).print(cost_table({"darcy3": (task, measured)}))
    text = out.getvalue()
    for part in ("means over 2 solves, one at a time", "64x64", "21.3", "from finest", f"{measured.bias[0]:.2%}"):
        assert part in text


def test_nothing_cannot_be_measured():
    task = get_task("darcy")
    with pytest.raises(TaskError, match="no inputs"):
        measure_costs(task, task.sample(0))
    with pytest.raises(TaskError, match="cannot measure 0 solves"):
        report([], 0, Console())


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "mrafno.tasks.costs"]
    done = subprocess.run([*command, "diffusion", "--solves", "2"], capture_output=True, text=True, check=True)
    assert "17.6" in done.stdout
    failed = subprocess.run([*command, "heat"], capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert "The known ones are burgers" in failed.stderr
