"""What a ledger says: the queries and what became of them, trainings, measurements. Replaying it is resuming.

Everything that looks at a run reads this and nothing else; only :mod:`mrafno.run.recorder` writes.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Any

from mrafno.analysis.curves import Curve
from mrafno.analysis.estimate import Estimate
from mrafno.errors import LedgerError, printable
from mrafno.run.query_book import QueryBook
from mrafno.run.records import Evaluation, Kind, QueryRecord, Status, Training, check_amounts, printable_values
from mrafno.run.settings import RunSettings
from mrafno.run.spending import Count, Spending, Spent
from mrafno.run.summary import summary
from mrafno.storage.arrays import ArrayFile
from mrafno.storage.garbage import no_collection
from mrafno.storage.ledger import Event
from mrafno.storage.lock import LockState

__all__ = ["Evaluation", "Kind", "QueryRecord", "RunState", "Status", "Training"]

#: Rows of one array of candidates; a ledger that says more was not written by a run.
_MOST_ROWS = 10_000_000


@dataclass
class RunState:
    """The replay of a ledger's events."""

    task: dict[str, Any] = field(default_factory=dict)
    method: str = ""
    seed: int = 0
    settings: RunSettings = field(default_factory=RunSettings)
    created: float = 0.0
    #: Names and parameters of a method that is not built in; None for one that is.
    own_method: dict[str, Any] | None = None
    #: How many examples of each level the run was given at its beginning; empty if none.
    given: tuple[int, ...] = ()
    #: All inputs of a task that is not one of ours; or where they are, if they stay in a file of their own.
    inputs: ArrayFile | None = None
    source: dict[str, Any] | None = None
    #: A checksum of each input that was given, in the order of the task.
    checksums: ArrayFile | None = None
    #: Which candidates can be simulated on which level; None if all can.
    available: ArrayFile | None = None
    #: How many candidates the run began with, where it was recorded, and those that were added.
    pool: int | None = None
    added: list[ArrayFile] = field(default_factory=list)
    #: Which of these were damaged: their candidates are not to be asked for.
    lost_added: set[int] = field(default_factory=set)
    #: Those that were there before, if they were damaged: the task must draw the same again.
    damaged_inputs: ArrayFile | None = None
    queries: QueryBook = field(default_factory=QueryBook)
    #: The number of the next query: no two have the same, also where the records of some were lost.
    next_query: int = 0
    trainings: list[Training] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    #: How many trainings there were when it was last measured.
    measured: int = 0
    #: Ids of the examples that the surrogate was trained on, in this order.
    trained_on: list[str] = field(default_factory=list)
    #: How many these were at the last fit that was no update.
    trained_at_refit: int = 0
    #: Answers that were not accepted, such as a second output: name of the message, and why not.
    refused: dict[str, str] = field(default_factory=dict)
    #: How often a driver ended while it simulated a query itself.
    lost: dict[str, int] = field(default_factory=dict)
    #: What a person should know of the run and its result, by what it is about; what no longer holds is not there.
    warnings: dict[str, str] = field(default_factory=dict)
    #: Why the last advance ended, if nothing has happened since, and when the last event was written.
    stopped: str | None = None
    last: float = 0.0
    spending: Spending = field(default_factory=Spending)

    @staticmethod
    def of(events: Iterable[Event]) -> "RunState":
        """All events, one after another."""
        state = RunState()
        with no_collection():
            for event in events:
                state.apply(event)
        return state

    def apply(self, event: Event) -> None:
        """One more event."""
        change = getattr(self, f"_{event.kind}", None)
        if change is None:
            raise LedgerError(f"ledger: event {event.number} is of unknown kind {event.kind!r}. Upgrade mrafno.")
        self.stopped = None
        try:
            change(event.time, **event.data)
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(f"ledger: event {event.number} ({event.kind}) makes no sense: {error!r}.") from error
        self.last = event.time

    # One method per kind of event; its arguments are the event's data.

    def _created(self, at: float, **data: Any) -> None:
        self.created = at
        self.task, self.method, self.seed = printable_values(data["task"]), printable(data["method"]), data["seed"]
        self.settings = RunSettings.recorded(data["settings"])
        self.queries.allow(self.settings.retries)
        self.given = tuple(data.get("given", ()))
        self.own_method = data.get("own_method")

    def _inputs(
        self, at: float, *, pool: int | None = None, source: dict[str, Any] | None = None, **files: Any
    ) -> None:
        del at
        self.pool, self.source = pool, source
        if "inputs" in files:
            self.inputs, self.damaged_inputs = ArrayFile.from_json(files["inputs"]), None
        if "checksums" in files:
            self.checksums = ArrayFile.from_json(files["checksums"])
        if "available" in files:
            self.available = ArrayFile.from_json(files["available"])

    def _changed(self, at: float, *, simulator: str) -> None:
        del at
        self.task = {**self.task, "simulator": simulator}

    def _candidates(self, at: float, *, inputs: dict[str, Any]) -> None:
        del at
        self.added.append(ArrayFile.from_json(inputs))

    def _candidates_lost(self, at: float, *, number: int, first: int) -> None:
        del at
        if not 0 <= number < len(self.added) or self.added[number].shape[0] > _MOST_ROWS:
            raise ValueError(f"added candidates number {number}")
        self.lost_added.add(number)
        self.queries.lose(range(first, first + self.added[number].shape[0]))

    def _imported(self, at: float, *, examples: list[dict[str, Any]]) -> None:
        for values in examples:
            files = {name: ArrayFile.from_json(values[name]) for name in ("input", "output")}
            about = {"kind": "initial", "step": None, "status": "told", "asked": at, "answered": at, "imported": True}
            self._add(query := QueryRecord(**{**values, **files, **about}))
            self.spending.add(query)

    def _asked(self, at: float, *, queries: list[dict[str, Any]]) -> None:
        for values in queries:
            self._add(QueryRecord(**{**values, "asked": at, "input": ArrayFile.from_json(values["input"])}))

    def _add(self, query: QueryRecord) -> None:
        self.queries[query.id] = query
        number = query.id.removeprefix("q")
        self.next_query = max(self.next_query, int(number)) + 1 if number.isdecimal() else self.next_query + 1

    def _told(
        self,
        at: float,
        *,
        id: str,
        output: dict[str, Any],
        cost: float,
        seconds: float | None,
        repeats: str | None = None,
        message: str | None = None,
    ) -> None:
        query = self.queries[id]
        check_amounts(cost, seconds)
        query.message, query.measured = message, len(self.evaluations)
        query.output, query.cost, query.seconds = ArrayFile.from_json(output), cost, seconds
        if repeats is None:
            self._closed(id, "told", None, at)
        else:
            self._closed(id, "abandoned", f"{repeats} answered the same simulation before", at)

    def _failed(self, at: float, *, id: str, status: Status = "failed", reason: str, **data: Any) -> None:
        # Versions 0.1 and 0.2 did not record what failures cost.
        query, unknown = self.queries[id], {"message": None, "cost": 0.0, "seconds": None}
        query.message, query.cost, query.seconds = ({**unknown, **data}[name] for name in unknown)
        check_amounts(query.cost, query.seconds)
        self._closed(id, status, reason, at)

    def _abandoned(self, at: float, *, id: str, reason: str, **data: Any) -> None:
        self._failed(at, id=id, status="abandoned", reason=reason, **data)

    def _refused(self, at: float, *, message: str, reason: str) -> None:
        del at
        self.refused[message] = printable(reason)

    def _expired(self, at: float, *, id: str) -> None:
        self._closed(id, "expired", "nobody answered in time", at)

    def _closed(self, id: str, status: Status, reason: str | None, at: float) -> None:
        query = self.queries[id]
        query.reason, query.answered = printable(reason) if reason else reason, at
        self.queries.change(id, status)
        self.spending.add(query)

    def _trained(self, at: float, *, added: list[str], **data: Any) -> None:
        del at
        self.trainings.append(Training.recorded(added, first=not self.trainings, **data))
        self.trained_on += added
        self.queries.train(added)
        if self.trainings[-1].kind != "update":
            self.trained_at_refit = len(self.trained_on)

    def _evaluated(self, at: float, **data: Any) -> None:
        del at
        self.evaluations.append(Evaluation(**data, spent=self.spent))
        self.measured = len(self.trainings)

    def _lost(self, at: float, *, id: str) -> None:
        del at
        self.lost[id] = self.lost.get(id, 0) + 1

    def _warned(self, at: float, *, about: str, text: str | None) -> None:
        del at
        self.warnings.pop(about, None)
        if text is not None:
            self.warnings[about] = printable(text)

    def _stopped(self, at: float, *, reason: str, forgive: bool = False) -> None:
        del at
        self.stopped = printable(reason)
        if forgive:
            self.queries.forgive(q.id for q in self.queries.with_status("failed"))

    def _delivered(self, at: float, *, ids: list[str]) -> None:
        del at
        for id in ids:
            self.queries[id].delivered = True

    def _repaired(
        self,
        at: float,
        *,
        again: list[str],
        unusable: dict[str, list[str]],
        inputs: bool,
        next_query: int,
        checksums: bool = False,
        **about: Any,
    ) -> None:
        del about
        gone = {*again, *unusable}
        for id in gone:
            if self.queries[id].status == "told":
                self.spending.waste(self.queries[id])
        for id in again:
            query = self.queries[id]
            self.queries.change(id, "running")
            query.output, query.expires, query.delivered, query.answered = None, None, False, None
            query.cost, query.seconds, query.message = 0.0, None, None
        for id, names in unusable.items():
            query = self.queries[id]
            query.damaged += tuple(name for name in names if name not in query.damaged)
            if query.status in ("running", "told"):
                # Its simulation cannot be repeated; one that was given is not asked for, another input may be.
                query.output, query.cost = None, 0.0
                self._closed(id, "abandoned" if query.imported else "expired", "its input was damaged", at)
        self.queries.untrain(gone)
        self.trained_on = [id for id in self.trained_on if id not in gone]
        self.trainings = [replace(t, added=tuple(id for id in t.added if id not in gone)) for t in self.trainings]
        whole = max((number for number, fit in enumerate(self.trainings, 1) if fit.kind != "update"), default=0)
        self.trained_at_refit = sum(len(training.added) for training in self.trainings[:whole])
        if inputs:
            # All that is recorded of them is recorded again.
            self.damaged_inputs, self.inputs, self.source, self.available = self.inputs, None, None, None
        if checksums:
            self.checksums = None
        self.next_query = max(self.next_query, next_query)

    # Questions.

    def imported(self, level: int) -> list[QueryRecord]:
        """Examples of a level that the run was given at its beginning."""
        return [q for q in self.queries.values() if q.imported and q.level == level]

    def of_kind(self, kind: Kind, *statuses: Status) -> list[QueryRecord]:
        """Queries of a kind with one of these statuses (any, if none is given), as they were asked."""
        return self.queries.of_kind(kind, *statuses)

    @property
    def running(self) -> list[QueryRecord]:
        """Queries that wait for their answer."""
        return self.queries.with_status("running")

    @property
    def step(self) -> int:
        """How many chosen examples have been simulated."""
        return self.queries.number("pool", "told")

    @property
    def next_step(self) -> int:
        """The number of the next choice, from 1; a choice that failed is made again under its own number."""
        return self.next_steps(1)[0]

    def next_steps(self, n: int) -> list[int]:
        """The numbers of the next choices: the lowest that no other has."""
        return self.queries.free_steps(n)

    @property
    def spent(self) -> Spent:
        """What was spent so far, by purpose."""
        return self.spending.spent

    @property
    def cost(self) -> float:
        """What the chosen examples have cost; :attr:`spent` has everything."""
        return self.spent.chosen

    def used_rows(self, kind: Kind) -> Set[int]:
        """Inputs of a kind that are not to be asked for: answered, running, abandoned, or failed too often.

        Candidates that initial examples have are used too. The set changes with the state.
        """
        return self.queries.used_rows(kind)

    @property
    def not_trained_on(self) -> list[QueryRecord]:
        """Observations that the surrogate was not trained on yet, in the order in which they were asked."""
        return self.queries.new

    def counts(self, levels: int, *statuses: Status) -> list[int]:
        """Examples to learn from of each level."""
        return self.queries.counts(("initial", "pool"), levels, *statuses)

    @property
    def error_estimate(self) -> Estimate | None:
        """What the run knew of its error after the last fit; None while too little is known."""
        return self.trainings[-1].estimate if self.trainings else None

    @property
    def estimate(self) -> float | None:
        """The run's own estimate of its error; see :attr:`error_estimate`."""
        return None if self.error_estimate is None else self.error_estimate.error

    @property
    def bound(self) -> float | None:
        """The larger upper end of the last two estimates' intervals; None without both.

        The error is below one of them with a probability of 95 %. One lucky fit among many is to decide nothing.
        """
        found = [t.estimate.high for t in self.trainings[-2:] if t.estimate is not None]
        return max(found) if len(found) == 2 else None

    @property
    def measurements(self) -> list[Evaluation]:
        """The last evaluation of every step, by step, if its relative error is finite.

        It is not where outputs are next to nothing.
        """
        last = {evaluation.step: evaluation for evaluation in self.evaluations}
        return [last[step] for step in sorted(last) if last[step].metrics["relative_l2"] is not None]

    def error_curve(self, count: Count = "total") -> Curve | None:
        """Relative L2 error on the test examples against accumulated cost; None if no finite error was measured.

        The one rule for all readers: of several measurements of one step the last counts, and a step whose last
        measurement is not finite has no point.

        Args:
            count: what the cost has; see :mod:`mrafno.run.spending`.
        """
        if not (found := self.measurements):
            return None
        costs = tuple(e.cost_of(count) for e in found)
        return Curve(costs, tuple(float(e.metrics["relative_l2"]) for e in found))

    @property
    def due(self) -> bool:
        """Whether it is time to measure; a batch may have stepped over the very step at which it was."""
        steps = self.settings.evaluate
        return self.step // steps > self._measured_step // steps and self.queries.number("test", "told") > 0

    @property
    def outdated(self) -> bool:
        """Whether examples were observed or trained on since the last evaluation."""
        return self.measured < len(self.trainings) or self.step != self._measured_step

    @property
    def _measured_step(self) -> int:
        return self.evaluations[-1].step if self.evaluations else -1

    def activity(self, lock: LockState = "free") -> str:
        """In a word or two, what the run is doing, as its ledger and its lock tell."""
        if self.stopped:
            return self.stopped
        if lock == "free":
            return "waiting for answers" if self.running else "waiting"
        return "running" if lock == "held" else "interrupted"

    def prequential_errors(self) -> list[tuple[QueryRecord, float]]:
        """Every chosen example with the error of the surrogate before it was trained on it."""
        return [
            (self.queries[id], error)
            for training in self.trainings
            for id, error in training.prequential_errors.items()
            if self.queries[id].kind == "pool"
        ]

    def as_json(self, lock: LockState = "free") -> dict[str, Any]:
        """What ``mrafno show --json`` prints."""
        return summary(self, lock)
