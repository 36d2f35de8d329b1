"""A run, step by step: ask for simulations, tell their outputs; everything is in the ledger before it is answered."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from numpy.typing import ArrayLike

from mrafno.data.imports import Examples, given_inputs, read_examples, write_examples
from mrafno.data.pool import RunInputs, draw, initial_levels, stacked, unstacked
from mrafno.errors import RunError
from mrafno.run.methods import get_method
from mrafno.run.settings import RunSettings
from mrafno.run.state import Kind, QueryRecord, RunState
from mrafno.run.trainer import Learning
from mrafno.simulation.query import Query
from mrafno.storage.ledger import Ledger
from mrafno.tasks.base import Task, as_numbers
from mrafno.tasks.stored import check_same_task, task_as_json, task_from_json

if TYPE_CHECKING:  # they load torch, which telling does not need
    from mrafno.run.chooser import Chooser
    from mrafno.surrogate.out_of_fold import Watch

#: Told examples that every level needs before something can be chosen.
_ENOUGH = 2


class _Wanted(NamedTuple):
    kind: Kind
    level: int
    row: int
    step: int | None = None
    choice: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


class AskTell(Learning):
    """A run in a directory.

    Make one with :meth:`create` or :meth:`open`, not by its constructor, and close it, or use it as a context.
    """

    def __init__(self, ledger: Ledger, task: Task, *, write: bool) -> None:
        super().__init__(ledger, task, write=write)
        self._inputs: RunInputs | None = None
        self._chooser: Chooser | None = None
        #: Queries that this process has simulated: no lease ends them.
        self._under_way: set[str] = set()

    @classmethod
    def create(
        cls,
        path: Path | str,
        task: Task,
        method: str = "mra-auto",
        seed: int = 0,
        *,
        examples: Examples | None = None,
        **settings: Any,
    ) -> Self:
        """A new run; an error if the directory holds one already. ``settings`` are those of :class:`RunSettings`.

        Args:
            examples: of earlier simulations, in place of as many initial ones; see :mod:`mrafno.data.imports`.
        """
        chosen = RunSettings.of(**settings)
        get_method(method).inferred(chosen.inference)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise RunError(f"run: the seed must be a whole number, 0 or more, got {seed!r}.")
        data: dict[str, Any] = {
            "task": task_as_json(task),
            "method": method,
            "seed": seed,
            "settings": chosen.as_json(),
        }
        given = [] if examples is None else read_examples(examples, task)
        if given:
            data["given"] = [len(one.inputs) for one in given]
        # Drawn first: a task with too few candidates leaves no run behind.
        inputs = draw(task, chosen, seed, [one.inputs for one in given])
        ledger = Ledger.create(path, **data)
        try:
            run = cls(ledger, task, write=True)
            if given:
                first = len(initial_levels(chosen, task.levels, data["given"]))
                run._append("imported", examples=write_examples(ledger, given, first))
            run._keep_inputs(inputs)
            return run
        except BaseException:
            ledger.close()
            raise

    @classmethod
    def open(cls, path: Path | str, task: Task | None = None, *, write: bool = True) -> Self:
        """A run that exists.

        Args:
            task: needed for a task of your own if simulations are to be run here; for asking and telling it is not.
            write: without, the run can be looked at while another process writes it.
        """
        ledger = Ledger.open(path, write=write)
        try:
            state = RunState.of(ledger.events)
            if any(n != len(state.imported(level)) for level, n in enumerate(state.given)):
                raise RunError(
                    f"run {path}: its creation was interrupted before its examples were recorded. Remove the folder, "
                    "and create it again."
                )
            if task is not None:
                check_same_task(task, state.task)
            else:
                task = task_from_json(state.task, None if state.inputs is None else ledger.read_array(state.inputs))
            run = cls(ledger, task, write=write)
            if write:
                run._keep_inputs(None)
            return run
        except BaseException:
            ledger.close()
            raise

    def _keep_inputs(self, inputs: RunInputs | None) -> None:
        """A task of somebody's own cannot be made again from its name, so the run keeps its inputs."""
        if self.state.task["builtin"] or self.state.inputs is not None:
            self._inputs = inputs
            return
        inputs = inputs or draw(self.task, self.settings, self.state.seed, given_inputs(self.ledger, self.state))
        self._append("inputs", inputs=self.ledger.write_array("inputs", stacked(inputs)).as_json())
        self._inputs = inputs

    def close(self) -> None:
        """Save the surrogate if it has learnt since it was saved, and let others write."""
        try:
            self.save()
        finally:
            self.ledger.close()

    def __repr__(self) -> str:
        state = self.state
        about = f"{state.task['name']}, {state.method}, seed {state.seed}, step {state.step}, cost {state.cost:g}"
        return f"<{type(self).__name__} {self.ledger.folder}: {about}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Asking.

    def ask(self, n: int | None = None, *, budget: float | None = None, watch: "Watch | None" = None) -> list[Query]:
        """The next simulations to run, at most n (the run's batch by default); recorded before they are returned.

        First come the initial examples, then the test ones, then choices, made by a surrogate that has learnt from
        what is told, all but the last few examples, and knowing those and what is running. Fewer than n are returned
        when there is no more to ask: the pool or the budget is used up, or too little is told yet to choose by.

        Args:
            budget: what all choices of this run may cost together, those already made included.
            watch: hears of the progress of training.
        """
        n = self.settings.batch if n is None else n
        if n < 1:
            raise RunError(f"run: cannot ask for {n} simulations.")
        self._take_back()
        open_rows = self._setup_left()
        if open_rows:
            return self._record([_Wanted(kind, level, row) for kind, level, row in open_rows[:n]])
        if not self._enough():
            return []
        self.train_and_evaluate_if_due(watch)
        left = None if budget is None else budget - self._committed()
        started = time.perf_counter()
        chosen = self.chooser.choose(self.surrogate, self.state, n, left)
        seconds = (time.perf_counter() - started) / max(len(chosen), 1)
        return self._record(
            [
                _Wanted("pool", one.level, one.candidate, step, {**one.why, "seconds": seconds})
                for step, one in zip(self.state.next_steps(len(chosen)), chosen, strict=True)
            ]
        )

    def _setup_left(self) -> list[tuple[Kind, int, int]]:
        """Initial and test simulations that are not told, running or abandoned: kind, level and row."""
        settled = {(kind, row) for kind in ("initial", "test") for row in self.state.used_rows(kind)}
        levels = initial_levels(self.settings, self.task.levels, self.state.given)
        wanted: list[tuple[Kind, int, int]] = [("initial", level, row) for row, level in enumerate(levels)]
        wanted += [("test", self.task.levels - 1, row) for row in range(self.settings.test)]
        return [one for one in wanted if (one[0], one[2]) not in settled]

    def _enough(self) -> bool:
        """Whether there is something to learn from at every level."""
        return min(self.state.counts(self.task.levels, "told")) >= _ENOUGH

    def _committed(self) -> float:
        """What the choices have cost, and what those still running will."""
        running = [self.task.costs[q.level] for q in self.state.of_kind("pool", "running")]
        return math.fsum([self.state.cost, *running])

    def _record(self, wanted: Sequence[_Wanted]) -> list[Query]:
        """Ask in one event: a run that is killed meanwhile has asked for a whole batch, or for nothing of it."""
        expires = None if self.settings.lease is None else time.time() + self.settings.lease
        queries: list[Query] = []
        entries: list[dict[str, Any]] = []
        for number, (kind, level, row, step, choice) in enumerate(wanted, len(self.state.queries)):
            id = f"q{number:06d}"
            f = self.task.restrict(self.inputs.of(kind, row)[None], level)[0]
            queries.append(Query(id, kind, level, f, row if kind == "pool" else None, step))
            file = self.ledger.write_array(f"{id}-input", f).as_json()
            entries.append(
                {"id": id, "kind": kind, "level": level, "row": row, "step": step, "choice": choice,
                 "expires": expires, "input": file}
            )  # fmt: skip
        if entries:
            self._append("asked", queries=entries)
        return queries

    def query(self, asked: QueryRecord) -> Query:
        """A query that was asked before, with its input."""
        f = self.ledger.read_array(asked.input)
        return Query(asked.id, asked.kind, asked.level, f, asked.row if asked.kind == "pool" else None, asked.step)

    def _take_back(self) -> None:
        now = time.time()
        for query in self.state.running:
            if query.expires is not None and query.expires < now and query.id not in self._under_way:
                self._append("expired", id=query.id)

    # Telling.

    def tell(self, id: str, output: ArrayLike, *, cost: float | None = None, seconds: float | None = None) -> None:
        """Record the output of a simulation, ``(out_channels, *level's grid)``; it is on disk when this returns.

        A simulation that was asked again after its lease can be told twice. The first output counts, whichever query it
        is of; the other query is abandoned then, and its output, should it come, is kept and not learnt from.

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
        self._append(
            "told", id=id, output=self.ledger.write_array(f"{id}-output", values).as_json(), cost=price,
            seconds=duration, **({"repeats": first[0].id} if first else {}),
        )  # fmt: skip
        for duplicate in self.state.duplicate_queries(query, "running"):
            self.abandon(duplicate.id, f"{id} answered the same simulation")

    def fail(self, id: str, reason: str) -> None:
        """Record that a simulation gave nothing; its input may be asked for again."""
        self._append("failed", id=self._open_query(id).id, reason=str(reason))

    def abandon(self, id: str, reason: str) -> None:
        """Record that a simulation gave nothing, and its input is never to be asked for again."""
        self._append("abandoned", id=self._open_query(id).id, reason=str(reason))

    def _open_query(self, id: str, late: bool = False) -> QueryRecord:
        """A query that waits for its answer; ``late`` allows one that was taken back: its output is as good.

        One that was abandoned because another answered the same simulation is still waited for by somebody.
        """
        query = self.state.queries.get(id)
        if query is None:
            raise RunError(f"run: nobody asked for {id!r}. Running now: {self._names(self.state.running)}.")
        if query.status == "running" or (late and query.status == "expired"):
            return query
        if (
            late
            and query.status == "abandoned"
            and query.output is None
            and self.state.duplicate_queries(query, "told")
        ):
            return query
        raise RunError(
            f"run: {id} was {query.status} already, nothing is changed. Running now: {self._names(self.state.running)}."
        )

    @staticmethod
    def _names(queries: Sequence[QueryRecord]) -> str:
        names = [query.id for query in queries]
        return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "nothing"

    # Where everything is.

    @property
    def inputs(self) -> RunInputs:
        """All inputs of the run on the finest grid."""
        if self._inputs is None:
            if self.state.inputs is None:
                self._inputs = draw(self.task, self.settings, self.state.seed, given_inputs(self.ledger, self.state))
            else:
                values = self.ledger.read_array(self.state.inputs)
                self._inputs = unstacked(values, self.task, self.settings, given_inputs(self.ledger, self.state))
        return self._inputs

    @property
    def chooser(self) -> "Chooser":
        """What makes the choices."""
        if self._chooser is None:
            from mrafno.run.chooser import Chooser

            self._chooser = Chooser(self.task, self.method, self.settings, self.state.seed, self.inputs)
        return self._chooser


def _measure(what: str, value: Any) -> float:
    """A number that is not negative."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (number >= 0 and math.isfinite(number)):
        raise RunError(f"run: {what} must be a number, 0 or more, got {value!r}.")
    return number
