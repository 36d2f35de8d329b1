"""A run, step by step: ask for simulations, tell their outputs; everything is in the ledger before it is answered.

The ledger is the run. What is kept beside it is a checkpoint of the surrogate, which saves training again: fits follow
from the ledger bit for bit, so a checkpoint that is missing, damaged or old costs time and nothing else.
"""

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from mrafno.choosing import Chooser
from mrafno.dataset import Dataset
from mrafno.errors import CheckpointError, RunError
from mrafno.evaluate import evaluate
from mrafno.grids import Array, relative_l2
from mrafno.inputs import RunInputs, draw, stacked, unstacked
from mrafno.ledger import Ledger
from mrafno.methods import get_method
from mrafno.records import Query
from mrafno.settings import RunSettings
from mrafno.state import Asked, Evaluation, Kind, RunState, Training
from mrafno.surrogate import Surrogate, get_surrogate
from mrafno.surrogate.base import Fit
from mrafno.surrogate.held_in import Watch
from mrafno.tasks.base import Task, as_numbers
from mrafno.tasks.stored import same_task, task_as_json, task_from_json

#: Where the surrogate's checkpoint is, inside the run directory.
CHECKPOINT = "surrogate"
#: Seconds of training after which a checkpoint is worth writing.
_CHECKPOINT_SECONDS = 30.0
#: Told examples that every level needs before something can be chosen.
_ENOUGH = 2
#: Relative errors that are larger say only that an output is next to nothing.
_LARGEST = 10.0


class _Wanted(NamedTuple):
    kind: Kind
    level: int
    row: int
    step: int | None = None
    choice: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


class AskTell:
    """A run in a directory.

    Make one with :meth:`create` or :meth:`open`, not by its constructor, and close it, or use it as a context.
    """

    def __init__(self, ledger: Ledger, task: Task, *, write: bool) -> None:
        self.ledger = ledger
        self.writes = write
        self.state = RunState.of(ledger.events)
        self.task = task
        self.method = get_method(self.state.method)
        self.settings = self.state.settings
        self._inputs: RunInputs | None = None
        self._chooser: Chooser | None = None
        self._surrogate: Surrogate | None = None
        self._examples: dict[str, tuple[Array, Array]] = {}
        self._test: tuple[Array, Array] | None = None
        self._unsaved = 0.0
        #: Queries that this process has simulated: no lease ends them.
        self._under_way: set[str] = set()

    @classmethod
    def create(cls, path: Path | str, task: Task, method: str = "mra-uhat", seed: int = 0, **settings: Any) -> Self:
        """A new run; an error if the directory holds one already. ``settings`` are those of :class:`RunSettings`."""
        chosen = RunSettings.of(**settings)
        get_method(method)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise RunError(f"run: the seed must be a whole number, 0 or more, got {seed!r}.")
        data: dict[str, Any] = {
            "task": task_as_json(task),
            "method": method,
            "seed": seed,
            "settings": chosen.as_json(),
        }
        # Drawn first: a task with too few candidates leaves no run behind.
        inputs = draw(task, chosen, seed)
        ledger = Ledger.create(path, **data)
        try:
            run = cls(ledger, task, write=True)
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
            if task is not None:
                same_task(task, state.task)
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
        inputs = inputs or draw(self.task, self.settings, self.state.seed)
        self._append("inputs", inputs=self.ledger.write_array("inputs", stacked(inputs)).as_json())
        self._inputs = inputs

    def close(self) -> None:
        """Save the surrogate if it has learnt since it was saved, and let others write."""
        try:
            self.save()
        finally:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Asking.

    def ask(self, n: int | None = None, *, budget: float | None = None, watch: Watch | None = None) -> list[Query]:
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
        self.keep_up(watch)
        left = None if budget is None else budget - self._committed()
        started = time.perf_counter()
        chosen = self.chooser.choose(self.surrogate, self.state, n, left)
        seconds = (time.perf_counter() - started) / max(len(chosen), 1)
        return self._record(
            [
                _Wanted("pool", one.level, one.candidate, step, {**one.why, "seconds": seconds})
                for step, one in enumerate(chosen, self.state.next_step)
            ]
        )

    def _setup_left(self) -> list[tuple[Kind, int, int]]:
        """Initial and test simulations that are not told, running or abandoned: kind, level and row."""
        settled = {(kind, row) for kind in ("initial", "test") for row in self.state.used_rows(kind)}
        wanted: list[tuple[Kind, int, int]] = [
            ("initial", row // self.settings.initial, row) for row in range(self.settings.initial * self.task.levels)
        ]
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

    def query(self, asked: Asked) -> Query:
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

        Args:
            cost: in the task's unit; the task's own figure for the level by default.
            seconds: how long it took, if known.
        """
        query = self._open_query(id, late=True)
        price = self.task.costs[query.level] if cost is None else _measure(f"the cost of {id}", cost)
        duration = None if seconds is None else _measure(f"the seconds of {id}", seconds)
        values = as_numbers(output, f"run: the output of {id}")
        if self.task.out_channels == 1 and values.shape == self.task.resolutions[query.level]:
            values = values[None]
        values = self.task.checked_output(values[None], query.level, 1)[0]
        self._append(
            "told", id=id, output=self.ledger.write_array(f"{id}-output", values).as_json(), cost=price,
            seconds=duration,
        )  # fmt: skip

    def fail(self, id: str, reason: str) -> None:
        """Record that a simulation gave nothing; its input may be asked for again."""
        self._append("failed", id=self._open_query(id).id, reason=str(reason))

    def abandon(self, id: str, reason: str) -> None:
        """Record that a simulation gave nothing, and its input is never to be asked for again."""
        self._append("abandoned", id=self._open_query(id).id, reason=str(reason))

    def _open_query(self, id: str, late: bool = False) -> Asked:
        """A query that waits for its answer; ``late`` allows one that was taken back: its output is as good."""
        query = self.state.queries.get(id)
        if query is None:
            raise RunError(f"run: nobody asked for {id!r}. Running now: {self._names(self.state.running)}.")
        if query.status == "running" or (late and query.status == "expired"):
            return query
        raise RunError(
            f"run: {id} was {query.status} already, nothing is changed. Running now: {self._names(self.state.running)}."
        )

    @staticmethod
    def _names(queries: Sequence[Asked]) -> str:
        names = [query.id for query in queries]
        return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "nothing"

    # Learning and measuring.

    def train(self, watch: Watch | None = None, *, brief: bool = False) -> Training | None:
        """Learn from what was told since the last time, or ``brief``ly take it in; None if there is nothing new."""
        new = [query.id for query in self.state.unlearnt]
        if not new:
            return None
        surrogate = self.surrogate
        surprises = self._surprises(surrogate, new)
        started = time.perf_counter()
        try:
            fit = self._fit(surrogate, [*self.state.learnt, *new], len(self.state.trainings), brief, watch)
            seconds = time.perf_counter() - started
            self._append(
                "trained", added=new, step=self.state.step, loss=_number(fit.loss), seconds=seconds,
                held_in_error=_number(fit.held_in_error), shift=fit.shift, surprises=surprises, events=list(fit.events),
                brief=brief,
            )  # fmt: skip
        except BaseException:
            if surrogate.fits != len(self.state.trainings):
                self._surrogate = None  # it has learnt what the ledger does not know of
            raise
        self._unsaved += seconds
        if self._unsaved > _CHECKPOINT_SECONDS:
            self.save()
        return self.state.trainings[-1]

    def _fit(self, surrogate: Surrogate, ids: Sequence[str], number: int, brief: bool, watch: Watch | None) -> Fit:
        """The fit with this number, from 0."""
        data = self._dataset(ids)
        warm = self.settings.retrain == "warm" and number > 0
        if warm and brief:
            return surrogate.fit(data, warm=True, brief=True, watch=watch)
        iterations = self.settings.iterations if number else self.settings.first or self.settings.iterations
        if iterations is None and self.settings.retrain == "warm":
            iterations = surrogate.training.warm_iterations  # also of the first, which is on few examples
        return surrogate.fit(data, warm=warm, iterations=iterations, watch=watch)

    def _surprises(self, surrogate: Surrogate, ids: Sequence[str]) -> dict[str, float]:
        """Relative errors on examples that were not learnt from yet."""
        if not surrogate.weights:
            return {}
        found: dict[str, float] = {}
        for level in range(self.task.levels):
            here = [id for id in ids if self.state.queries[id].level == level]
            if here:
                f, y = (np.stack(part) for part in zip(*(self._example(id) for id in here), strict=True))
                errors = np.minimum(relative_l2(surrogate.predict(f, level).center, y), _LARGEST)
                found.update(zip(here, map(float, errors), strict=True))
        return {id: found[id] for id in ids}

    def _grown(self) -> bool:
        """Whether the examples have grown, in number or in cost, by enough to learn anew from all of them."""
        whole = max((number for number, fit in enumerate(self.state.trainings, 1) if not fit.brief), default=0)
        ids = [id for training in self.state.trainings[:whole] for id in training.added]
        old = [self.state.queries[id] for id in ids]
        new = [self.state.queries[id] for id in self.state.learnt[len(ids) :]] + self.state.unlearnt
        if not new or not self.state.unlearnt:
            return False
        share = self.settings.refresh
        more = len(new) > share * len(old)
        return more or math.fsum(q.cost for q in new) > share * math.fsum(q.cost for q in old)

    def keep_up(self, watch: Watch | None = None, *, last: bool = False) -> None:
        """Learn if there is enough new to learn from, measure if it is time; both at the ``last`` step of a run."""
        if last or self._grown():
            self.train(watch)
        elif len(self.state.unlearnt) >= self.settings.brief:
            self.train(watch, brief=True)
        if (last and self.state.step not in {e.step for e in self.state.evaluations}) or self.state.due:
            self.evaluate()

    def evaluate(self) -> Evaluation | None:
        """Measure on the test examples; None if there are none."""
        tests = self.state.of_kind("test", "told")
        if not tests or not self.state.trainings:
            return None
        if self._test is None or len(self._test[0]) != len(tests):
            pairs = [self._example(q.id, keep=False) for q in tests]
            self._test = np.stack([f for f, _ in pairs]), np.stack([y for _, y in pairs])
        started = time.perf_counter()
        metrics = evaluate(self.surrogate, *self._test).as_json()
        seconds = time.perf_counter() - started
        self._append("evaluated", step=self.state.step, cost=self.state.cost, metrics=metrics, seconds=seconds)
        return self.state.evaluations[-1]

    @property
    def surrogate(self) -> Surrogate:
        """The surrogate after the last training: from its checkpoint, and what that lacks learnt again."""
        if self._surrogate is None:
            surrogate = self._saved() or self._blank()
            for number in range(surrogate.fits, len(self.state.trainings)):
                ids = [id for training in self.state.trainings[: number + 1] for id in training.added]
                self._fit(surrogate, ids, number, self.state.trainings[number].brief, None)
                self._unsaved += self.state.trainings[number].seconds
            self._surrogate = surrogate
        return self._surrogate

    def _blank(self) -> Surrogate:
        settings: dict[str, Any] = {"preset": self.settings.preset, "seed": self.state.seed}
        if self.method.inference == "ensemble":
            settings["members"] = self.settings.members
        return get_surrogate(self.method.inference, self.task.domain, **settings)

    def _saved(self) -> Surrogate | None:
        """The checkpoint, if there is one that fits the ledger."""
        folder = self.ledger.folder / CHECKPOINT
        if not os.path.lexists(folder):
            return None
        try:
            for path in (folder, folder / "surrogate.json", *folder.glob("*.safetensors")):
                _refuse_link(path)
            surrogate = Surrogate.load(folder)
        except CheckpointError as error:
            self.ledger.damage.append(f"{error} Trained again from the ledger.")
            return None
        known = 0 < surrogate.fits <= len(self.state.trainings)
        # What calibration gave is in the ledger to its last digit: another run, or another past of this one, differs.
        ours = known and surrogate.shift == self.state.trainings[surrogate.fits - 1].shift
        return surrogate if ours and (surrogate.domain, surrogate.seed) == (self.task.domain, self.state.seed) else None

    def save(self) -> None:
        """Write the surrogate's checkpoint, if it has learnt since the last one."""
        if self._surrogate is not None and self._unsaved and self.writes:
            folder = self.ledger.folder / CHECKPOINT
            _refuse_link(folder)
            self._surrogate.save(folder)
            self._unsaved = 0.0

    # Where everything is.

    @property
    def inputs(self) -> RunInputs:
        """All inputs of the run on the finest grid."""
        if self._inputs is None:
            if self.state.inputs is None:
                self._inputs = draw(self.task, self.settings, self.state.seed)
            else:
                self._inputs = unstacked(self.ledger.read_array(self.state.inputs), self.task, self.settings)
        return self._inputs

    @property
    def chooser(self) -> Chooser:
        """What makes the choices."""
        if self._chooser is None:
            self._chooser = Chooser(self.task, self.method, self.settings, self.state.seed, self.inputs)
        return self._chooser

    def _example(self, id: str, keep: bool = True) -> tuple[Array, Array]:
        """Input and output of a told query, each ``(channels, *level's grid)``."""
        if id in self._examples:
            return self._examples[id]
        query = self.state.queries[id]
        assert query.output is not None, f"{id} was told"
        pair = self.ledger.read_array(query.input), self.ledger.read_array(query.output)
        if keep:
            self._examples[id] = pair
        return pair

    def _dataset(self, ids: Sequence[str]) -> Dataset:
        pairs: list[tuple[Array, Array] | None] = []
        for level in range(self.task.levels):
            here = [self._example(id) for id in ids if self.state.queries[id].level == level]
            pairs.append((np.stack([f for f, _ in here]), np.stack([y for _, y in here])) if here else None)
        return Dataset.of(self.task.domain, pairs)

    def _append(self, kind: str, /, **data: Any) -> None:
        self.state.apply(self.ledger.append(kind, **data))


def _refuse_link(path: Path) -> None:
    """Raise where a checkpoint, or a part of it, is a link: what is outside the run is neither read nor written."""
    if path.is_symlink():
        raise CheckpointError(f"checkpoint: {path} is a symbolic link, which is not followed. Remove it.")


def _measure(what: str, value: Any) -> float:
    """A number that is not negative."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (number >= 0 and math.isfinite(number)):
        raise RunError(f"run: {what} must be a number, 0 or more, got {value!r}.")
    return number


def _number(value: float) -> float | None:
    """A number that JSON has."""
    return value if math.isfinite(value) else None
