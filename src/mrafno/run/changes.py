"""Whether a run's simulator is still the one that it began with."""

import warnings

from mrafno.errors import MrafnoWarning, TaskError
from mrafno.run.recorder import Recorder
from mrafno.tasks.base import Task
from mrafno.tasks.source import same_source, source_change


def check_simulator(recorder: Recorder, task: Task, *, record: bool) -> None:
    """Warn if the source of the task's simulator was changed, with what changed; raise if the task is strict.

    Args:
        record: record the change, so that it is told once and stays in the run.
    """
    before, now = recorder.state.task.get("simulator"), task.describe_simulator()
    if before is None or now is None or same_source(before, now):
        return
    change = source_change(before, now)
    text = f"{task.name}: the source of its simulator was changed since the run last used it:\n{change}"
    if task.strict_source:
        raise TaskError(f"{text}\nGive the simulator as it was, or begin a new run.")
    warnings.warn(f"{text}\nOutputs from before and after are trained on together.", MrafnoWarning, stacklevel=5)
    if record:
        recorder.record("changed", simulator=now)
        step = recorder.state.step
        recorder.warn(
            "simulator", f"the simulator's source was changed at step {step}: outputs of both are trained on."
        )
