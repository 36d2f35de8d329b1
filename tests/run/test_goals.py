"""Goals and options that are no such thing are refused before any work is done, with what to give instead."""

import math
import os

import numpy as np
import pytest

from mrafno.errors import RunError
from mrafno.run import Run
from mrafno.run.goals import SimulationOptions
from mrafno.simulation.processes import ProcessPool
from mrafno.tasks import CommandTask, TableTask, Task, get_task
from tests import runs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with runs.create(tmp_path_factory.mktemp("goals") / "run") as run:
        yield run
        assert not run.state.queries


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"steps": 2.5}, "steps must be a whole number, 0 or more, got 2.5"),
        ({"steps": "4"}, "steps must be a whole number, 0 or more, got '4'"),
        ({"steps": -1}, "steps must be a whole number, 0 or more, got -1"),
        ({"steps": True}, "steps must be a whole number, 0 or more, got True"),
        ({"total_steps": 2.5}, "total_steps must be a whole number, 0 or more, got 2.5"),
        ({"steps": 1, "total_steps": 2}, "give steps, which counts from now, or total_steps"),
        ({"budget": -1}, "a budget must be a number, 0 or more, or None, got -1"),
        ({"budget": "500"}, "a budget must be a number, 0 or more, or None, got '500'"),
        ({"budget": math.nan}, "a budget must be a number, 0 or more, or None, got nan"),
        ({"target": -1}, "a target must be a positive relative error, or None, got -1"),
        ({"target": 0}, "a target must be a positive relative error, or None, got 0"),
        ({"workers": 0}, "workers must be a whole number, 1 or more, got 0"),
        ({"workers": 2.0}, "workers must be a whole number, 1 or more, got 2.0"),
        ({"limit": -3}, "limit must be a positive number of seconds, or None, got -3"),
        ({"memory": 0}, "memory must be a positive number of bytes, or None, got 0"),
        ({"max_failure_rate": 50}, "max_failure_rate must be a share from 0 to 1, got 50"),
    ],
)
def test_a_wrong_value_is_named(run, how, message):
    with pytest.raises(RunError, match=message):
        run.advance(**{"steps": 1, **how} if "total_steps" not in how else how)


def test_costs_that_fall_are_refused(tmp_path):
    with pytest.raises(RunError, match=r"costs \(4.0, 1.0\) of tiny fall: 1 for 17 is less than 4 for 9. List costs"):
        Run.create(tmp_path / "run", runs.tiny(costs=(4, 1)))
    assert list(tmp_path.iterdir()) == []
    runs.create(tmp_path / "run", task=runs.tiny(costs=(4, 4))).close()


def a_subclass():
    class Own(Task):
        name, layout = "own", ("nodes",)

        def _sample(self, indices, seed):
            return np.array([np.random.default_rng((seed, i)).normal(size=(1, 17)) for i in indices])

        def _solve(self, f, level):
            return f

        def configuration(self):
            return None

    return Own(((9,), (17,)), (4, 1))


def a_table():
    f = runs.fields(20, 17)[:, None]
    return f, [f[..., ::2], f]


def a_table_from_a_file(folder):
    f, (coarse, fine) = a_table()
    np.savez(folder / "table.npz", inputs=f, output_0=coarse, output_1=fine, costs=(4.0, 1.0))
    return TableTask.load(folder / "table.npz")


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: CommandTask("cp {input} {output}", runs.fields(20, 17), (9, 17), (4, 1)),
        lambda folder: TableTask(*a_table(), (4, 1)),
        a_table_from_a_file,
        lambda folder: get_task("burgers", costs=(4, 1)),
        lambda folder: a_subclass(),
        lambda folder: runs.tiny(resolutions=((5,), (9,), (17,)), costs=(1, 5, 4)),
    ],
    ids=["command", "table", "table file", "built-in", "subclass", "three levels"],
)
def test_costs_that_fall_are_refused_however_the_task_is_made(make, tmp_path):
    task = make(tmp_path)
    with pytest.raises(RunError, match=rf"the costs .* of {task.name} fall: .* leave the coarser one out"):
        Run.create(tmp_path / "run", task)
    assert not (tmp_path / "run").exists()


def test_workers_without_an_executor_are_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("COUNTS", str(tmp_path / "counts"))
    assert SimulationOptions().runner is None
    pool = SimulationOptions(workers=3).runner()
    assert isinstance(pool, ProcessPool)
    assert pool._max_workers == 3
    with runs.create(tmp_path / "run", task=runs.tiny(runs.whereabouts)) as run:
        run.advance(steps=2, workers=2)
    lines = (tmp_path / "counts").read_text().split()
    assert len(lines) == 12
    assert len(set(lines)) == 2
    assert str(os.getpid()) not in lines
