"""What a worker does with a query: simulate it here or in a child process, and spool the result."""

import logging
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mrafno.simulation.attempt import attempt
from mrafno.simulation.child_process import simulate_in_child
from mrafno.simulation.notices import Notice, different_versions, nearly_full
from mrafno.simulation.packing import PackedTask, pack_task, unpack_task
from mrafno.simulation.query import Observation, Query
from mrafno.simulation.spool import check_spool, claim_query, read_result, write_result
from mrafno.tasks.base import Task

logger = logging.getLogger(__name__)


def simulate(
    task: Task | PackedTask,
    query: Query,
    *,
    limit: float | None = None,
    isolate: bool = False,
    memory: int | None = None,
    spool: Path | None = None,
    driver: Mapping[str, str] | None = None,
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
        driver: versions of the process that hears of the result, if that is another one: see
            :mod:`mrafno.simulation.notices`.
    """
    notices = [] if driver is None else [*different_versions(driver), *nearly_full(Path(tempfile.gettempdir()))]
    if spool is None:
        observation = _simulate(task, query, limit, isolate, memory)
    else:
        observation = _simulate_once(task, query, limit, isolate, memory, spool, notices)
    return replace(observation, notices=tuple(notices)) if notices else observation


def _simulate_once(
    task: Task | PackedTask,
    query: Query,
    limit: float | None,
    isolate: bool,
    memory: int | None,
    spool: Path,
    notices: list[Notice],
) -> Observation:
    """The observation in the spool if it is there already; else simulate, and spool it."""
    check_spool(spool)
    notices += nearly_full(spool)
    with claim_query(spool, query):
        known = read_result(spool, query)
        if known is not None and known.output is not None:
            return known
        observation = _simulate(task, query, limit, isolate, memory)
        try:
            write_result(spool, query, observation)
        except OSError as error:  # the result in memory is still good, so it is returned
            text = (
                f"the result of {query.id} could not be kept in the spool {spool} by the worker on "
                f"{socket.gethostname()} ({error}): results are lost if the driver stops now. The spool must have "
                "space, and be a folder that all workers see."
            )
            notices.append(Notice("spool", text))
            logger.warning("%s", text)
    return observation


def _simulate(
    task: Task | PackedTask, query: Query, limit: float | None, isolate: bool, memory: int | None
) -> Observation:
    if isolate or limit is not None or memory is not None:
        packed = task if isinstance(task, PackedTask) else pack_task(task)
        return simulate_in_child(packed, query, limit=limit, memory=memory)
    return attempt(unpack_task(task) if isinstance(task, PackedTask) else task, query)
