"""Tasks on their way to another process."""

import copy
import pickle
from dataclasses import dataclass
from multiprocessing import current_process
from multiprocessing.spawn import get_preparation_data, prepare
from pathlib import Path
from typing import Any

from mrafno.errors import TaskError
from mrafno.simulation.attempt import failure_reason
from mrafno.tasks import CommandTask, FunctionTask, Task


@dataclass(frozen=True)
class PackedTask:
    """A task that can be sent to another process.

    Attributes:
        name: the task's, for messages.
        data: the pickled task.
        script: where the script is that defines a part of it, as ``multiprocessing.spawn`` describes it; or empty.
    """

    name: str
    data: bytes
    script: dict[str, str]


def without_candidates(task: Task) -> Task:
    """The task without candidates: simulating needs none of them, and they may be gigabytes."""
    if type(task) not in (FunctionTask, CommandTask):
        return task
    task = copy.copy(task)
    task.inputs, task.draw_inputs = None, None  # type: ignore[attr-defined]
    return task


def pack_task(task: Task) -> PackedTask:
    """Pickle a task for another process; raises :class:`TaskError` if that is impossible.

    What a module defines is pickled by its name. So is what the running script defines: the other process imports the
    script, as ``multiprocessing`` does, so what the script *does* must be under ``if __name__ == "__main__":``.
    A lambda, a nested function and what was typed into a notebook have no such name; they are pickled by value, with
    cloudpickle.
    """
    task = without_candidates(task)
    try:
        data = pickle.dumps(task)
    except Exception as error:  # a person's object can raise anything when it is pickled
        return _packed_by_value(task, f"{type(error).__name__}: {error}")
    if b"__main__" not in data and b"__mp_main__" not in data:
        return PackedTask(task.name, data, {})
    known = get_preparation_data("simulation").items()
    script = {name: str(value) for name, value in known if name in ("init_main_from_name", "init_main_from_path")}
    place = script.get("init_main_from_path")
    if not script or (place is not None and not Path(place).is_file()):  # what was typed, or came through a pipe
        return _packed_by_value(task, "a part of it is defined in an interactive session")
    return PackedTask(task.name, data, script)


def _packed_by_value(task: Task, why: str) -> PackedTask:
    advice = ""
    try:
        from cloudpickle import dumps  # type: ignore[import-untyped]

        return PackedTask(task.name, dumps(task), {})
    except ImportError:
        advice = "Install cloudpickle (pip install cloudpickle), or d"
    except Exception as error:  # a person's object can raise anything
        why = f"{type(error).__name__}: {error}"
    raise TaskError(
        f"{task.name}: the task cannot be sent to another process because {why}. {advice or 'D'}efine its function at "
        "the top level of a module or script, or use neither workers nor a time limit nor isolation."
    )


def unpack_task(packed: PackedTask) -> Task:
    """The task, in the process it was sent to; raises :class:`TaskError` if it cannot be loaded there."""
    try:
        if packed.script:
            _import_script(packed.script)
        task: Task = pickle.loads(packed.data)
    except (Exception, SystemExit) as error:
        why = failure_reason(error, packed.name).removeprefix(f"{packed.name}: the simulator raised ")
        advice = "Everything that it needs must be installed where the workers run."
        if packed.script:
            [script] = packed.script.values()
            advice = f'Workers import {script}: put what it does, not what it defines, under if __name__ == "__main__".'
        raise TaskError(f"{packed.name}: the task cannot be loaded in a worker process ({why}). {advice}") from error
    return task


def can_be_imported_elsewhere(task: Task) -> bool:
    """Whether a process that does not import the caller's script can load the pickled task."""
    try:
        return b"__main__" not in pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


def _import_script(script: dict[str, str]) -> None:
    # A script that does its work on import would start the same workers again, and those again. With this flag, which
    # multiprocessing sets for the same reason, starting a process and packing a task raise an error.
    process: Any = current_process()
    process._inheriting = True
    try:
        prepare(script)
    finally:
        del process._inheriting
