"""Asking for simulations and telling their outputs; everything is in the ledger before it is answered."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from mrafno.acquisition.base import Choice
from mrafno.data.pool import RunInputs
from mrafno.errors import CallbackError, LedgerError, RunError, TaskError
from mrafno.grids import Array
from mrafno.run.answers import checked_measure, checked_output, open_query, read_answer
from mrafno.run.first import First, missing_first
from mrafno.run.inputs import InputStore
from mrafno.run.prices import is_measured, prices
from mrafno.run.recorder import Recorder
from mrafno.run.settings import RunSettings
from mrafno.run.spending import Count, counts, price_of
from mrafno.run.state import Kind, QueryRecord, RunState
from mrafno.simulation.query import Query
from mrafno.storage.inbox import Message, clear_unfinished, list_messages, refuse_message, remove_message
from mrafno.tasks.base import Task

logger = logging.getLogger(__name__)

#: Observed examples that are needed before something can be chosen.
_ENOUGH = 2

#: Chooses at most n queries that cost no more than a budget; each with what it rests on.
Choose = Callable[[int, float | None], Sequence[tuple[Choice, dict[str, Any]]]]


class Session:
    """Asks for simulations and takes their outputs.

    Args:
        recorder: where queries and outputs are recorded.
        task: the run's task; its simulator is not called.
    """

    def __init__(self, recorder: Recorder, task: Task) -> None:
        self.recorder, self.task = recorder, task
        self.store = InputStore(recorder, task)
        #: Queries that this process simulates: no lease ends them.
        self.in_progress: set[str] = set()
        #: Names of messages that cannot be read.
        self._damaged: set[str] = set()

    @property
    def state(self) -> RunState:
        """The run's state."""
        return self.recorder.state

    @property
    def settings(self) -> RunSettings:
        """The run's settings."""
        return self.state.settings

    # Asking.

    def ask(
        self, n: int | None = None, *, choose: Choose, budget: float | None = None, count: Count = "total"
    ) -> list[Query]:
        """The next simulations to run, at most n (the run's batch by default); recorded before they are returned.

        First come the initial examples, then the test examples, then choices. Fewer than n are returned when the pool
        or the budget is used up, or when too few examples are observed to choose by.

        Args:
            choose: makes the choices.
            budget: what this run may cost, what was spent already included.
            count: what the budget covers, see :mod:`mrafno.run.spending`.
        """
        n = self.settings.batch if n is None else n
        if n < 1:
            raise RunError(f"run: cannot ask for {n} simulations.")
        self.take_in()
        self.expire()
        left = None if budget is None else budget - self.committed(count)
        missing = self.missing_setup()
        if missing:
            entries = [first.as_entry() for first in missing[:n]]
            return self._ask(self._affordable(entries, left, count))
        if not self.ready():
            return []
        chosen = choose(n, left)
        return self._ask(
            [
                {"kind": "pool", "level": choice.level, "row": choice.candidate, "step": step, "choice": details}
                for step, (choice, details) in zip(self.state.next_steps(len(chosen)), chosen, strict=True)
            ]
        )

    def missing_setup(self) -> list[First]:
        """First simulations that are neither observed nor running; failed initial ones are replaced by others."""
        return missing_first(self.state, self.task, self.recorder.sizes, lambda: self.inputs)

    def ready(self) -> bool:
        """Whether there are enough examples to train on: on every level that begins with some, and in all."""
        told, levels = self.state.counts(self.task.levels, "told"), self.task.levels
        wanted = self.settings.initial_of(levels)
        return sum(told) >= _ENOUGH and all(n >= min(_ENOUGH, w) for n, w in zip(told, wanted, strict=True))

    def committed(self, count: Count = "total") -> float:
        """What was spent, and what the simulations still running will cost."""
        running = price_of(self.state.running, prices(self.state), count)
        return math.fsum([self.state.spent.counted(count), running])

    def _affordable(
        self, entries: Sequence[dict[str, Any]], left: float | None, count: Count
    ) -> Sequence[dict[str, Any]]:
        """The first of these simulations, as many as a budget has left for."""
        if left is None:
            return entries
        by_level = prices(self.state)
        costs = [by_level[one["level"]] if counts(one["kind"], count) else 0.0 for one in entries]
        return [one for i, one in enumerate(entries) if math.fsum(costs[: i + 1]) <= left]

    def _ask(self, entries: Sequence[dict[str, Any]]) -> list[Query]:
        """Record queries in one event: a process that is killed meanwhile has asked for all of them or for none."""
        expires = None if self.settings.lease is None else time.time() + self.settings.lease
        queries: list[Query] = []
        for number, entry in enumerate(entries, self.state.next_query):
            id, kind, level, row = f"q{number:06d}", entry["kind"], entry["level"], entry["row"]
            from_pool = kind == "pool" or entry.get("from_pool", False)
            f = self.task.restrict(self.inputs.of("pool" if from_pool else kind, row)[None], level)[0]
            queries.append(self._made(id, kind, level, f, row if from_pool else None, entry.get("step")))
        files = self.recorder.ledger.pack_arrays([query.f for query in queries])
        recorded = []
        for query, entry, file in zip(queries, entries, files, strict=True):
            about = {"id": query.id, "step": query.step, "choice": entry.get("choice", {}), "expires": expires}
            recorded.append({**entry, **about, "input": file.as_json()})
        if recorded:
            self.recorder.record("asked", queries=recorded)
        return queries

    def query(self, record: QueryRecord) -> Query:
        """A query that was asked before, with its input."""
        f = self.recorder.ledger.read_array(record.input)
        return self._made(record.id, record.kind, record.level, f, record.candidate, record.step)

    def undelivered(self, *, delivered: bool = False) -> list[Query]:
        """Queries that wait for an answer and were not delivered: their ask was killed, or did not say so.

        Args:
            delivered: also those that were delivered, because those who had them are gone.
        """
        self.take_in()
        return [self.query(record) for record in self.state.running if delivered or not record.delivered]

    def deliver(self, ids: Sequence[str]) -> None:
        """Record that queries have reached whoever simulates them."""
        fresh = [id for id in ids if not self.state.queries[id].delivered]
        if fresh:
            self.recorder.record("delivered", ids=fresh)

    def _made(self, id: str, kind: Kind, level: int, f: Array, candidate: int | None, step: int | None) -> Query:
        [values] = self.task.split(f[None])[1]
        parameters = dict(zip(self.task.parameters, map(float, values), strict=True))
        return Query(id, kind, level, f, candidate, step, parameters)

    def expire(self) -> None:
        """Take back queries whose lease has ended without an answer."""
        now = time.time()
        for query in self.state.running:
            if query.expires is not None and query.expires < now and query.id not in self.in_progress:
                self.recorder.record("expired", id=query.id)

    # Telling.

    def tell(
        self,
        id: str,
        output: ArrayLike,
        *,
        cost: float | None = None,
        seconds: float | None = None,
        message: str | None = None,
    ) -> None:
        """Record the output of a simulation, ``(out_channels, *level's grid)``; it is on disk when this returns.

        A simulation that was asked for again after its lease can be told twice. The first output counts; the other
        query is abandoned, and its output, if it comes, is kept and not trained on.

        Args:
            cost: in the task's unit; the task's own figure for the level by default.
            seconds: how long it took, if known.
            message: name of the message that brought it, if another process left one.
        """
        query = open_query(self.state, id, late=True)
        price = checked_measure(f"the cost of {id}", cost)
        duration = checked_measure(f"the seconds of {id}", seconds)
        values = checked_output(self.task, query, output)
        first = self.state.queries.duplicates(query, "told")
        [file] = self.recorder.ledger.pack_arrays([values])
        data: dict[str, Any] = {"id": id, "output": file.as_json(), "seconds": duration}
        data["cost"] = self._cost(query, duration) if price is None else price
        if first:
            data["repeats"] = first[0].id
        if message is not None:
            data["message"] = message
        self.recorder.record("told", **data)
        for duplicate in self.state.queries.duplicates(query, "running"):
            self.abandon(duplicate.id, f"{id} answered the same simulation")

    def fail(
        self,
        id: str,
        reason: str,
        *,
        cost: float | None = None,
        seconds: float | None = None,
        message: str | None = None,
    ) -> None:
        """Record that a simulation gave no output; its input may be asked for again.

        Args:
            cost: in the task's unit; by default as much as a simulation of the level that gives an output.
            seconds: how long it took, if known.
            message: as of :meth:`tell`.
        """
        price = self._cost(open_query(self.state, id), seconds) if cost is None else cost
        self._close("failed", id, reason, price, seconds, message)
        logger.warning("%s failed: %s", id, reason)

    def _cost(self, query: QueryRecord, seconds: float | None) -> float:
        """What a simulation has cost if nobody tells: its seconds if costs are measured, its level's price if not."""
        if is_measured(self.state) and seconds is not None:
            return seconds
        return prices(self.state)[query.level]

    def abandon(
        self,
        id: str,
        reason: str,
        *,
        cost: float | None = None,
        seconds: float | None = None,
        message: str | None = None,
    ) -> None:
        """Record that a simulation gave no output, and that its input is never to be asked for again.

        Args:
            cost: in the task's unit; nothing by default, as it may not have begun.
            seconds, message: as of :meth:`fail`.
        """
        self._close("abandoned", id, reason, 0.0 if cost is None else cost, seconds, message)

    def _close(self, kind: str, id: str, reason: str, cost: float, seconds: float | None, message: str | None) -> None:
        open_query(self.state, id)
        more: dict[str, Any] = {} if message is None else {"message": message}
        price, duration = checked_measure(f"the cost of {id}", cost), checked_measure(f"the seconds of {id}", seconds)
        self.recorder.record(kind, id=id, reason=str(reason), cost=price, seconds=duration, **more)

    def take_in(self) -> None:
        """Record the answers that other processes left in the inbox, the earliest first.

        Of two answers to one query the first counts. The other one is kept in a folder of its own, and recorded as
        refused. A damaged message stays where it is and is listed in the ledger's ``damage``.
        """
        folder = self.recorder.ledger.folder
        messages = list_messages(folder)
        for message in messages:
            query = self.state.queries.get(message.query)
            if query is not None and query.message == message.name:
                remove_message(folder, message)  # whoever recorded it died before it could remove it
            elif message.name in self.state.refused:
                refuse_message(folder, message)
            elif message.name not in self._damaged:
                self._take(message)
        if messages:
            clear_unfinished(folder)

    def _take(self, message: Message) -> None:
        """Record the answer in a message."""
        folder = self.recorder.ledger.folder
        try:
            answer = read_answer(folder, message)
        except LedgerError as error:
            self._damaged.add(message.name)
            self.recorder.ledger.damage.append(str(error))
            logger.warning("%s", error)
            return
        reason = answer.reason or "no reason was given"
        how = {"cost": answer.cost, "seconds": answer.seconds}
        try:
            if answer.kind == "failed":
                self.fail(answer.id, reason, message=message.name, **how)
            elif answer.kind == "abandoned":
                self.abandon(answer.id, reason, message=message.name, **how)
            else:
                assert answer.output is not None, "read_answer has checked it"
                self.tell(answer.id, answer.output, message=message.name, **how)
        except (RunError, TaskError) as error:
            if isinstance(error, CallbackError):
                raise  # the answer itself was recorded
            self.recorder.record("refused", message=message.name, reason=str(error))
            logger.warning("an answer to %s was not accepted: %s", message.query, error)
            refuse_message(folder, message)
            return
        remove_message(folder, message)

    # Inputs.

    @property
    def inputs(self) -> RunInputs:
        """All inputs of the run on the finest grid."""
        return self.store.inputs
