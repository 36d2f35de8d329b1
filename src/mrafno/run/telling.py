"""Telling outputs to a run that another process may hold: nobody waits.

An answer is checked against the ledger as it is, and then left in the run's inbox, where it is durable. If nobody holds
the run, this process takes in everything that is there. Otherwise whoever holds it does, before it asks again, and so
does whoever opens the run next. Any number of processes may tell at the same moment.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import LedgerError, LedgerLockedError, RunError
from mrafno.run.answers import Answer, checked_measure, checked_output, leave_answer, open_query, untaken
from mrafno.run.run import Run
from mrafno.run.state import RunState
from mrafno.storage.ledger import Ledger
from mrafno.tasks.stored import task_from_json


@dataclass(frozen=True)
class Receipt:
    """What became of an answer, which is on the disk in any case.

    Attributes:
        recorded: whether it is in the ledger; otherwise it is in the inbox.
        running: queries that wait for an answer, those not counted whose answers are in the inbox.
        refused: why it was not accepted, if another answer was faster.
        trouble: why it is still in the inbox, if nobody else holds the run.
    """

    recorded: bool
    running: int
    refused: str | None = None
    trouble: str | None = None


def tell(
    path: Path | str, id: str, output: ArrayLike, *, cost: float | None = None, seconds: float | None = None
) -> Receipt:
    """Tell the output of a simulation, ``(out_channels, *level's grid)``; it is on the disk when this returns.

    Raises an error, and changes nothing, if the query is unknown or answered, or if the output has a wrong shape, NaN
    or infinite values.

    Args:
        path: the run's folder. Another process may hold the run.
        cost: in the task's unit; the task's own figure for the level by default.
        seconds: how long it took, if known.
    """
    price, duration = checked_measure(f"the cost of {id}", cost), checked_measure(f"the seconds of {id}", seconds)
    folder, state = _read(path)
    query = open_query(state, id, late=True)
    _check_inbox(folder, state, id)
    # The simulator and the inputs are not needed to check an output.
    task = task_from_json(state.task, np.zeros((1, state.task["in_channels"], *state.task["resolutions"][-1])))
    values = checked_output(task, query, output)
    return _deliver(folder, Answer(id, "told", values, price, duration))


def fail(path: Path | str, id: str, reason: str, *, cost: float | None = None, seconds: float | None = None) -> Receipt:
    """Tell that a simulation gave no output; its input may be asked for again.

    Args:
        cost: in the task's unit; by default as much as a simulation of the level that gives an output.
        seconds: how long it took, if known.
    """
    price, duration = checked_measure(f"the cost of {id}", cost), checked_measure(f"the seconds of {id}", seconds)
    return _without_output(path, Answer(id, "failed", None, price, duration, str(reason)))


def abandon(
    path: Path | str, id: str, reason: str, *, cost: float | None = None, seconds: float | None = None
) -> Receipt:
    """Tell that a simulation gave no output, and that its input is never to be asked for again.

    Args:
        cost: in the task's unit; nothing by default, as it may not have begun.
        seconds: how long it took, if known.
    """
    price, duration = checked_measure(f"the cost of {id}", cost), checked_measure(f"the seconds of {id}", seconds)
    return _without_output(path, Answer(id, "abandoned", None, price, duration, str(reason)))


def _without_output(path: Path | str, answer: Answer) -> Receipt:
    folder, state = _read(path)
    open_query(state, answer.id)
    _check_inbox(folder, state, answer.id)
    return _deliver(folder, answer)


def _read(path: Path | str) -> tuple[Path, RunState]:
    ledger = Ledger.open(path)
    return ledger.folder, RunState.of(ledger.events)


def _check_inbox(folder: Path, state: RunState, id: str) -> None:
    for message in untaken(folder, state):
        if message.query == id:
            raise RunError(
                f"run: {id} was {message.kind} already by another process; the answer is in the run's inbox. Nothing "
                "is changed."
            )


def _deliver(folder: Path, answer: Answer) -> Receipt:
    message = leave_answer(folder, answer)
    trouble = None
    try:
        with Run.open(folder, brief=True) as run:  # takes everything in
            state = run.state
    except LedgerLockedError:
        _, state = _read(folder)
    except LedgerError as error:  # a full disk, for example; the answer itself is safe
        trouble = str(error)
        _, state = _read(folder)
    waiting = {one.query for one in untaken(folder, state)}
    running = sum(query.id not in waiting for query in state.running)
    refused = state.refused.get(message.name)
    return Receipt(state.queries[answer.id].message == message.name, running, refused, trouble)
