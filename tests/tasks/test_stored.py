"""Tasks as JSON: built-in ones are restored completely, any other without its simulator."""

import json

import numpy as np
import pytest

from mrafno.errors import SimulationError, TaskError
from mrafno.tasks import TASKS, Burgers, CommandTask, Darcy, FunctionTask, NavierStokes, get_task
from mrafno.tasks.stored import ExternalTask, check_same_task, task_as_json, task_from_json
from tests import runs


def stored(task):
    """As a ledger gives it back."""
    return json.loads(json.dumps(task_as_json(task), allow_nan=False))


@pytest.mark.parametrize("name", TASKS)
def test_every_built_in_task_is_restored_completely(name):
    task = get_task(name)
    again = task_from_json(stored(task), None)
    assert type(again) is type(task)
    assert (again.identity, again.resolutions, again.costs) == (task.identity, task.resolutions, task.costs)
    assert (again.domain, again.layout, again.interpolation) == (task.domain, task.layout, task.interpolation)
    check_same_task(again, stored(task))


@pytest.mark.parametrize(
    "task",
    [
        Burgers(resolutions=(9, 17), viscosity=0.05, costs=(1, 3)),
        Darcy(resolutions=((4, 4), (6, 6), (8, 8)), high=9.0, shift=8.0),
        NavierStokes(resolutions=((6, 6), (12, 12)), frames=2, final_time=1.0),
    ],
    ids=lambda task: task.name,
)
def test_other_meshes_parameters_and_costs_are_restored(task):
    again = task_from_json(stored(task), None)
    assert (again.identity, again.costs) == (task.identity, task.costs)
    f = task.restrict(task.sample(1), 0)
    np.testing.assert_array_equal(again.solve(f, 0), task.solve(f, 0))


def test_a_solver_that_gives_other_numbers_now_is_refused(monkeypatch):
    values = stored(Burgers(resolutions=(9, 17)))
    monkeypatch.setattr(Burgers, "revision", 99)
    with pytest.raises(TaskError, match="its solver gives other numbers now than when the run began"):
        task_from_json(values, None)


def outside():
    task = runs.tiny(layout="periodic", zero_boundary=[(True, False)], version="1", interpolation="nearest")
    task.input_name, task.output_name, task.axis_names = "load", "bend", ("length",)
    return task


@pytest.mark.parametrize(
    "task",
    [
        outside(),
        runs.tiny3(),
        CommandTask("solver {input} {output}", runs.fields(5, 17), ((9,), (17,)), (1, 2)),
        Darcy(resolutions=((4, 4), (8, 8)), name="mine"),
        FunctionTask(runs.smooth, np.ones((5, 17, 17)), (9, 17), (1, 2), in_channels=17),
        FunctionTask(runs.smooth, runs.fields(5, 129), (33, 129), (1, 2), name="burgers"),
    ],
    ids=["function", "three levels", "command", "renamed", "as many channels as points", "borrowed name"],
)
def test_any_other_task_is_restored_without_its_simulator(task):
    values = stored(task)
    assert not values["builtin"]
    again = task_from_json(values, task.sample(5))
    assert isinstance(again, ExternalTask)
    unknown = {"identity": None, "parameters": None, "inputs": None, "simulator": None}
    assert task_as_json(again) | unknown == values | unknown
    assert (again.domain, again.costs) == (task.domain, task.costs)
    np.testing.assert_array_equal(again.restrict(task.sample(2), 0), task.restrict(task.sample(2), 0))
    with pytest.raises(
        SimulationError, match=rf"{task.name}: this run does not know its simulator.*Run.open\(path, ta"
    ):
        again.solve(again.restrict(again.sample(1), 0), 0)
    check_same_task(task, values)


def test_a_task_without_its_inputs_is_refused():
    with pytest.raises(TaskError, match="tiny: its inputs are missing"):
        task_from_json(stored(runs.tiny()), None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "other"}, "name"),
        ({"costs": (1.0, 6.0)}, "costs"),
        ({"resolutions": ((5,), (17,))}, "resolutions"),
        ({"out_channels": 2}, "out_channels"),
        ({"layout": "cells"}, "layout"),
        ({"interpolation": "nearest"}, "interpolation"),
        ({"zero_boundary": [(True, True)]}, "zero_boundary"),
        ({"version": "2"}, "version, inputs or parameters"),
        ({"version": "1", "n": 39}, "version, inputs or parameters"),
    ],
)
def test_another_task_is_refused_with_the_names_of_what_differs(change, told):
    values = stored(runs.tiny(version="1"))
    check_same_task(runs.tiny(version="1"), values)
    with pytest.raises(TaskError, match=f"not the task that the run began with; different: {told}. Give the same task"):
        check_same_task(runs.tiny(**{"version": "1", **change}), values)


def test_without_a_version_a_changed_function_is_not_detected():
    check_same_task(runs.tiny(runs.broken), stored(runs.tiny()))
