"""Asking for simulations and telling their outputs; everything is in the ledger before it is answered."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from mrafno.acquisition.base import Choice
from mrafno.data.pool import RunInputs, draw, stacked, unstacked
from mrafno.errors import RunError
from mrafno.run.recorder import Recorder
from mrafno.run.settings import RunSettings
from mrafno.run.state import Kind, QueryRecord, RunState
from mrafno.simulation.query import Query
from mrafno.storage.layout import INPUTS, input_array, output_array
from mrafno.tasks.base import Task, as_numbers

logger = logging.getLogger(__name__)

#: Observed examples that every level needs before something can be chosen.
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
        self._inputs: RunInputs | None = None
        #: Queries that this process simulates: no lease ends them.
        self.in_progress: set[str] = set()

    @property
    def state(self) -> RunState:
        """The run's state."""
        return self.recorder.state

    @property
    def settings(self) -> RunSettings:
        """The run's settings."""
        return self.state.settings

    # Asking.

    def ask(self, n: int | None = None, *, choose: Choose, budget: float | None = None) -> list[Query]:
        """The next simulations to run, at most n (the run's batch by default); recorded before they are returned.

        First come the initial examples, then the test examples, then choices. Fewer than n are returned when the pool
        or the budget is used up, or when too few examples are observed to choose by.

        Args:
            choose: makes the choices.
            budget: what all choices of this run may cost together, those already made included.
        """
        n = self.settings.batch if n is None else n
        if n < 1:
            raise RunError(f"run: cannot ask for {n} simulations.")
        self.expire()
        missing = self.missing_setup()
        if missing:
            entries = [{"kind": kind, "level": level, "row": row} for kind, level, row in missing[:n]]
            return self._ask(entries)
        if not self.ready():
            return []
        left = None if budget is None else budget - self.committed()
        chosen = choose(n, left)
        return self._ask(
            [
                {"kind": "pool", "level": choice.level, "row": choice.candidate, "step": step, "choice": details}
                for step, (choice, details) in zip(self.state.next_steps(len(chosen)), chosen, strict=True)
            ]
        )

    def missing_setup(self) -> list[tuple[Kind, int, int]]:
        """Initial and test simulations that are not observed, running or abandoned: kind, level and row."""
        settled = {(kind, row) for kind in ("initial", "test") for row in self.state.used_rows(kind)}
        levels = self.recorder.sizes.initial_levels(self.task.levels)
        wanted: list[tuple[Kind, int, int]] = [("initial", level, row) for row, level in enumerate(levels)]
        wanted += [("test", self.task.levels - 1, row) for row in range(self.settings.test)]
        return [one for one in wanted if (one[0], one[2]) not in settled]

    def ready(self) -> bool:
        """Whether every level has enough examples to train on."""
        return min(self.state.counts(self.task.levels, "told")) >= _ENOUGH

    def committed(self) -> float:
        """What the choices have cost, and what those still running will."""
        running = [self.task.costs[q.level] for q in self.state.of_kind("pool", "running")]
        return math.fsum([self.state.cost, *running])

    def _ask(self, entries: Sequence[dict[str, Any]]) -> list[Query]:
        """Record queries in one event: a process that is killed meanwhile has asked for all of them or for none."""
        expires = None if self.settings.lease is None else time.time() + self.settings.lease
        queries: list[Query] = []
        recorded: list[dict[str, Any]] = []
        for number, entry in enumerate(entries, len(self.state.queries)):
            id, kind, level, row = f"q{number:06d}", entry["kind"], entry["level"], entry["row"]
            step = entry.get("step")
            f = self.task.restrict(self.inputs.of(kind, row)[None], level)[0]
            queries.append(Query(id, kind, level, f, row if kind == "pool" else None, step))
            file = self.recorder.ledger.write_array(input_array(id), f).as_json()
            more = {"id": id, "step": step, "choice": entry.get("choice", {}), "expires": expires, "input": file}
            recorded.append({**entry, **more})
        if recorded:
            self.recorder.record("asked", queries=recorded)
        return queries

    def query(self, record: QueryRecord) -> Query:
        """A query that was asked before, with its input."""
        f = self.recorder.ledger.read_array(record.input)
        candidate = record.row if record.kind == "pool" else None
        return Query(record.id, record.kind, record.level, f, candidate, record.step)

    def expire(self) -> None:
        """Take back queries whose lease has ended without an answer."""
        now = time.time()
        for query in self.state.running:
            if query.expires is not None and query.expires < now and query.id not in self.in_progress:
                self.recorder.record("expired", id=query.id)

    # Telling.

    def tell(self, id: str, output: ArrayLike, *, cost: float | None = None, seconds: float | None = None) -> None:
        """Record the output of a simulation, ``(out_channels, *level's grid)``; it is on disk when this returns.

        A simulation that was asked for again after its lease can be told twice. The first output counts; the other
        query is abandoned, and its output, if it comes, is kept and not trained on.

        Args:
            cost: in the task's unit; the task's own figure for the level by default.
            seconds: how long it took, if known.
        """
        query = self._open_query(id, late=True)
        price = self.task.costs[query.level] if cost is None else _measure(f"the cost of {id}", cost)
        duration = None if seconds is None else _measure(f"the seconds of {id}", seconds)
        values = as_numbers(output, f"run: the output of {id}")
        grid = self.task.resolutions[query.level]
        if self.task.out_channels == 1 and values.shape == grid:
            values = values[None]
        if values.shape != (self.task.out_channels, *grid):
            raise RunError(
                f"run: the output of {id} has shape {values.shape}, level {query.level} of {self.task.name} gives "
                f"{(self.task.out_channels, *grid)} (channels, grid). Nothing is changed."
            )
        values = self.task.checked_output(values[None], query.level, 1)[0]
        first = self.state.duplicate_queries(query, "told")
        file = self.recorder.ledger.write_array(output_array(id), values).as_json()
        data: dict[str, Any] = {"id": id, "output": file, "cost": price, "seconds": duration}
        if first:
            data["repeats"] = first[0].id
        self.recorder.record("told", **data)
        for duplicate in self.state.duplicate_queries(query, "running"):
            self.abandon(duplicate.id, f"{id} answered the same simulation")

    def fail(self, id: str, reason: str) -> None:
        """Record that a simulation gave no output; its input may be asked for again."""
        self.recorder.record("failed", id=self._open_query(id).id, reason=str(reason))
        logger.warning("%s failed: %s", id, reason)

    def abandon(self, id: str, reason: str) -> None:
        """Record that a simulation gave no output, and that its input is never to be asked for again."""
        self.recorder.record("abandoned", id=self._open_query(id).id, reason=str(reason))

    def _open_query(self, id: str, late: bool = False) -> QueryRecord:
        """A query that waits for its answer; ``late`` allows one whose lease ended, as its output is as good.

        A query that was abandoned because another one answered the same simulation may still be answered, too.
        """
        query = self.state.queries.get(id)
        if query is None:
            raise RunError(f"run: there is no query {id!r}. Running now: {_names(self.state.running)}.")
        if query.status == "running" or (late and query.status == "expired"):
            return query
        answered_twice = query.status == "abandoned" and query.output is None
        if late and answered_twice and self.state.duplicate_queries(query, "told"):
            return query
        raise RunError(
            f"run: {id} was {query.status} already, nothing is changed. Running now: {_names(self.state.running)}."
        )

    # Inputs.

    @property
    def inputs(self) -> RunInputs:
        """All inputs of the run on the finest grid."""
        if self._inputs is None:
            imported, sizes = self.recorder.imported_inputs(), self.recorder.sizes
            if self.state.inputs is None:
                self._inputs = draw(self.task, sizes, self.state.seed, imported)
            else:
                values = self.recorder.ledger.read_array(self.state.inputs)
                self._inputs = unstacked(values, self.task, sizes, imported)
        return self._inputs

    def keep_inputs(self, inputs: RunInputs | None = None) -> None:
        """Record the inputs of a task that is not built in, which cannot be made again from its name.

        Args:
            inputs: those that were drawn already; None to draw them.
        """
        if self.state.task["builtin"] or self.state.inputs is not None:
            self._inputs = inputs
            return
        self._inputs = inputs or draw(self.task, self.recorder.sizes, self.state.seed, self.recorder.imported_inputs())
        file = self.recorder.ledger.write_array(INPUTS, stacked(self._inputs)).as_json()
        self.recorder.record("inputs", inputs=file)


def _names(queries: Sequence[QueryRecord]) -> str:
    names = [query.id for query in queries]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "nothing"


def _measure(what: str, value: Any) -> float:
    """A number that is not negative."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (number >= 0 and math.isfinite(number)):
        raise RunError(f"run: {what} must be a number, 0 or more, got {value!r}.")
    return number
