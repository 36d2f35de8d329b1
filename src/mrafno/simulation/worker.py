"""What a worker does with a query: simulate it here or in a child process, and spool the result."""

import contextlib
import warnings
from pathlib import Path

from mrafno.simulation.attempt import attempt
from mrafno.simulation.child_process import simulate_in_child
from mrafno.simulation.packing import PackedTask, pack_task, unpack_task
from mrafno.simulation.query import Observation, Query
from mrafno.simulation.spool import check_spool, claim_query, read_result, write_result
from mrafno.tasks.base import Task


def simulate(
    task: Task | PackedTask,
    query: Query,
    *,
    limit: float | None = None,
    isolate: bool = False,
    memory: int | None = None,
    spool: Path | None = None,
) -> Observation:
    """Simulate a query; whatever the simulator does, the result is an observation.

    Raised are only KeyboardInterrupt and, for a task that cannot be loaded in the process where it is to run,
    :class:`TaskError`: neither is the fault of this simulation.

    Args:
        task: a task, or one that was packed for this process.
        limit: seconds after which the simulation is killed, with everything it started; None for no limit.
        isolate: simulate in a child process, so that a crash is a reason too. The child stays for the next simulation;
            starting it takes about a second. A limit of time or memory implies it.
        memory: bytes that the simulation may take, see :func:`mrafno.simulation.child_process.simulate_in_child`.
        spool: folder for the result. It must exist; workers on several machines share it.
    """
    if spool is None:
        return _simulate(task, query, limit, isolate, memory)
    check_spool(spool)
    with claim_query(spool, query):
        known = read_result(spool, query)
        if known is not None and known.output is not None:
            return known
        observation = _simulate(task, query, limit, isolate, memory)
        try:
            write_result(spool, query, observation)
        except OSError as error:
            # The result in memory is still good, so it is returned, even where warnings are errors.
            with contextlib.suppress(RuntimeWarning):
                warnings.warn(
                    f"{query.id}: its result could not be kept in the spool {spool} ({error}), so it is lost if the "
                    "driver stops now. The spool must have space, and be a folder that all workers see.",
                    RuntimeWarning,
                    stacklevel=2,
                )
    return observation


def _simulate(
    task: Task | PackedTask, query: Query, limit: float | None, isolate: bool, memory: int | None
) -> Observation:
    if isolate or limit is not None or memory is not None:
        packed = task if isinstance(task, PackedTask) else pack_task(task)
        return simulate_in_child(packed, query, limit=limit, memory=memory)
    return attempt(unpack_task(task) if isinstance(task, PackedTask) else task, query)
