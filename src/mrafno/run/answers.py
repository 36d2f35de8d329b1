"""Answers to queries: what is accepted, and answers that other processes left in the run's inbox.

A process that does not hold the run leaves its answer as a message, which is durable at once. Whoever holds the run
takes messages in, see :meth:`mrafno.run.session.Session.take_in`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import LedgerError, RunError
from mrafno.grids import Array
from mrafno.run.state import QueryRecord, RunState
from mrafno.storage.inbox import Content, Message, leave_message, list_messages, read_message
from mrafno.tasks.base import LARGEST, Task, as_numbers

AnswerKind = Literal["told", "failed", "abandoned"]
#: Statuses of queries whose output is accepted.
OPEN = ("running", "expired")


@dataclass(frozen=True)
class Answer:
    """An answer to a query: an output with its cost and duration where they are known, or a reason why there is none.

    Attributes:
        output: ``(out_channels, *level's grid)``.
    """

    id: str
    kind: AnswerKind
    output: Array | None = None
    cost: float | None = None
    seconds: float | None = None
    reason: str | None = None


def leave_answer(folder: Path, answer: Answer) -> Message:
    """Leave an answer for whoever holds the run; it is on the disk when this returns."""
    data = {"cost": answer.cost, "seconds": answer.seconds, "reason": answer.reason}
    return leave_message(folder, answer.id, answer.kind, Content(data, answer.output))


def read_answer(folder: Path, message: Message) -> Answer:
    """The answer in a message; raises :class:`LedgerError` if it is damaged, or no answer."""
    content = read_message(folder, message)
    kinds: dict[str, AnswerKind] = {"told": "told", "failed": "failed", "abandoned": "abandoned"}
    known = content.data.keys() == {"cost", "seconds", "reason"}
    if not known or message.kind not in kinds or (message.kind == "told") != (content.values is not None):
        raise LedgerError(f"run {folder}: the message {message.name} is no answer to a query. Move it away.")
    return Answer(message.query, kinds[message.kind], content.values, **content.data)


def untaken(folder: Path, state: RunState) -> list[Message]:
    """Answers in the inbox that are not in the ledger, the earliest first."""
    answers = {query.message for query in state.queries.values() if query.message is not None}
    return [one for one in list_messages(folder) if one.name not in answers and one.name not in state.refused]


# What is accepted.


def open_query(state: RunState, id: str, *, late: bool = False) -> QueryRecord:
    """A query that waits for its answer; raises :class:`RunError` if it does not.

    Args:
        late: also one whose lease ended, as its output is as good; and one that was abandoned because another one
            answered the same simulation.
    """
    query = state.queries.get(id)
    if query is None:
        raise RunError(f"run: there is no query {id!r}. Running now: {_names(state.running)}.")
    if "input" in query.damaged:
        raise RunError(f"run: the input of {id} was damaged and is lost, so that an output says nothing.")
    if query.status == "running" or (late and query.status == "expired"):
        return query
    answered_twice = query.status == "abandoned" and query.output is None
    if late and answered_twice and state.queries.duplicates(query, "told"):
        return query
    raise RunError(f"run: {id} was {query.status} already, nothing is changed. Running now: {_names(state.running)}.")


def checked_output(task: Task, query: QueryRecord, output: ArrayLike) -> Array:
    """An output as ``(out_channels, *level's grid)`` in float64; a single channel's axis may be left out."""
    values = as_numbers(output, f"run: the output of {query.id}")
    grid = task.resolutions[query.level]
    if task.out_channels == 1 and values.shape == grid:
        values = values[None]
    if values.shape != (task.out_channels, *grid):
        raise RunError(
            f"run: the output of {query.id} has shape {values.shape}, level {query.level} of {task.name} gives "
            f"{(task.out_channels, *grid)} (channels, grid). Nothing is changed."
        )
    [checked] = task.checked_output(values[None], query.level, 1)
    return np.asarray(checked)


def checked_measure(what: str, value: Any) -> float | None:
    """A cost or a duration: a number that is not negative, or None."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not number >= 0 or math.isinf(number):
        raise RunError(f"run: {what} must be a number, 0 or more, got {value!r}.")
    if number > LARGEST:
        raise RunError(f"run: {what} is {value!r}, more than {LARGEST:g}. Give it in another unit.")
    return number


def _names(queries: Sequence[QueryRecord]) -> str:
    names = [query.id for query in queries]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "nothing"
