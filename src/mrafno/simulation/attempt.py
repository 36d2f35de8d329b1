"""One simulation in this process: timed, and with a reason instead of an exception when it fails."""

import time

import numpy as np

from mrafno.errors import TaskError, place_of, printable, raised
from mrafno.simulation.query import Observation, Query
from mrafno.simulation.surroundings import restored
from mrafno.tasks.base import Task

#: Longest reason in characters; an exception can contain a whole array.
_LONGEST = 600


def attempt(task: Task, query: Query) -> Observation:
    """Simulate a query in this process. Every exception but KeyboardInterrupt becomes the observation's reason."""
    start = time.perf_counter()
    try:
        # A copy, because a solver may work in place, and the query may be tried again.
        with restored():
            [output] = task.solve(np.array(query.f[None]), query.level)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Observation(query.id, None, time.perf_counter() - start, failure_reason(error, task.name))
    return Observation(query.id, output, time.perf_counter() - start)


def failure_reason(error: BaseException, name: str) -> str:
    """What a simulator raised, as one line of at most 600 characters.

    Args:
        name: of the task.
    """
    try:
        if isinstance(error, TaskError):
            text = str(error)
        elif isinstance(error, SystemExit):
            where = f" ({place})" if (place := place_of(error)) else ""
            text = f"{name}: the simulator called exit({error.code!r}){where}. Return an output, or raise an error."
        else:
            text = f"{name}: the simulator raised {raised(error)}"
    except Exception:  # str() of an exception or of an exit code can fail
        text = f"{name}: the simulator raised {type(error).__name__}"
    line = printable(" ".join(text.encode(errors="replace").decode().split()))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
