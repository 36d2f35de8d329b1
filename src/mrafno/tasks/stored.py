"""Tasks as JSON in a ledger: a built-in task is restored completely, any other without its simulator."""

from typing import Any, NoReturn

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import Array
from mrafno.tasks.axes import described_coordinates
from mrafno.tasks.base import Task
from mrafno.tasks.candidates import CandidateTask
from mrafno.tasks.registry import TASKS, get_task
from mrafno.tasks.rows import Rows

#: Lists that earlier versions did not record: they were empty.
_LATER = ("parameter_names", "log_parameters", "extent", "points")


class ExternalTask(CandidateTask):
    """A task without a simulator: its inputs and meshes are known, its outputs are given from outside."""

    @property
    def configuration(self) -> dict[str, Any] | None:
        """None: what determines the outputs is unknown."""
        return None

    def _solve(self, f: Array, level: int) -> Array:
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise :class:`SimulationError` with advice."""
        raise SimulationError(
            f"{self.name}: this run does not know its simulator. Open it with the task (Run.open(path, task=...), or "
            "--task FILE.py:NAME from the shell), or simulate yourself and tell the outputs."
        )


def is_builtin(task: Task) -> bool:
    """Whether a task can be made again from its name, meshes and costs."""
    return task.name in TASKS and type(task) is type(get_task(task.name))


def task_as_json(task: Task) -> dict[str, Any]:
    """The description of a task, as JSON values."""
    return {
        "name": task.name,
        "builtin": is_builtin(task),
        "identity": task.identity,
        "parameters": task.configuration,
        "resolutions": [list(shape) for shape in task.resolutions],
        "costs": list(task.costs),
        "measured_costs": task.measured_costs,
        "in_channels": task.in_channels,
        "parameter_names": list(task.parameters),
        "log_parameters": list(task.log_parameters),
        "out_channels": task.out_channels,
        "layout": list(task.layout),
        "interpolation": task.interpolation,
        "inputs": _digest_of_inputs(task),
        "simulator": task.describe_simulator(),
        "zero_boundary": [list(ends) for ends in task.zero_boundary],
        "input_name": task.input_name,
        "output_name": task.output_name,
        "axis_names": list(task.axis_names),
        "axis_units": list(task.axis_units),
        "extent": [list(ends) for ends in task.extent],
        "points": [[list(axis) for axis in level] for level in task.points],
        "input_axes": list(task.input_axes or ()),
    }


def _digest_of_inputs(task: Task) -> dict[str, Any] | None:
    if not isinstance(task, CandidateTask) or isinstance(task, ExternalTask) or task.digest is None:
        return None
    return {"count": len(task.inputs), "sha256": task.digest.sha256}


def task_from_json(values: dict[str, Any], inputs: Rows | None) -> Task:
    """The task of a description: a built-in one complete, any other as :class:`ExternalTask`.

    Args:
        inputs: the candidates of a task that is not built in, ``(n, in_channels, *finest grid)``.
    """
    if values["builtin"]:
        task = get_task(
            values["name"],
            resolutions=values["resolutions"],
            costs="measured" if values.get("measured_costs") else values["costs"],
            **values["parameters"],
        )
        if task.identity != values["identity"]:
            raise TaskError(
                f"{task.name}: its solver gives other numbers now than when the run began. "
                "Go on with the version of mrafno that the run began with, or begin a new run."
            )
        return task
    if inputs is None:
        raise TaskError(
            f"{values['name']}: its inputs are missing. Open the run with the task: Run.open(path, task), or --task "
            "FILE.py:NAME from the shell."
        )
    outside = ExternalTask(
        inputs,
        values["resolutions"],
        values["costs"],
        name=values["name"],
        in_channels=values["in_channels"],
        parameter_names=values.get("parameter_names", ()),
        log_parameters=values.get("log_parameters", ()),
        out_channels=values["out_channels"],
        layout=values["layout"],
        extent=values.get("extent") or (),
        coordinates=described_coordinates(values),
        interpolation=values["interpolation"],
        zero_boundary=values["zero_boundary"],
        version=None,
    )
    outside.input_name, outside.output_name = values["input_name"], values["output_name"]
    outside.axis_names = tuple(values["axis_names"])
    outside.measured_costs = values.get("measured_costs", False)
    outside.axis_units = tuple(values.get("axis_units") or ())
    # The inputs are there already repeated.
    outside.input_axes = tuple(values.get("input_axes") or ()) or None
    return outside


def check_same_task(task: Task, values: dict[str, Any]) -> None:
    """Raise :class:`TaskError` unless a task matches a description."""
    now = task_as_json(task)
    told = ("name", "resolutions", "costs", "in_channels", "out_channels", "layout", "interpolation", "zero_boundary")
    different = [name for name in told if now[name] != values[name]]
    different += [name for name in _LATER if now[name] != values.get(name, now[name][:0])]
    if not different and None not in (now["identity"], values["identity"]) and now["identity"] != values["identity"]:
        different = ["version, inputs or parameters"]
    if different:
        raise TaskError(
            f"{task.name}: it is not the task that the run began with; different: {', '.join(different)}. "
            "Give the same task, or begin a new run."
        )
