"""What the logging callbacks share: events of a run as numbers by name, and the id under which a run is logged."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from mrafno.errors import MrafnoError
from mrafno.run.state import Evaluation, QueryRecord, RunState, Training
from mrafno.simulation.query import Query
from mrafno.storage.files import write_bytes

#: Values that are logged against accumulated cost as well.
_ERRORS = ("evaluation/relative_l2", "training/out_of_fold_error")


class LoggedRun(Protocol):
    """What a logging callback needs of a run."""

    @property
    def path(self) -> Path:
        """Its directory."""

    @property
    def state(self) -> RunState:
        """The replay of its ledger."""


class Outcome(Protocol):
    """Why an advance ended, and how far the run is; ``error`` is None if it was never measured."""

    @property
    def reason(self) -> str:
        """In words."""

    @property
    def steps(self) -> int:
        """Chosen examples."""

    @property
    def cost(self) -> float:
        """Accumulated cost of the chosen examples."""

    @property
    def error(self) -> float | None:
        """The last relative error."""


@dataclass(frozen=True)
class Point:
    """What is logged of one event.

    Attributes:
        step: the position on the axis of steps.
        cost: the position on the axis of accumulated cost.
        values: numbers by name; all are finite.
        texts: texts by name.
    """

    step: int
    cost: float
    values: dict[str, float]
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def by_cost(self) -> dict[str, float]:
        """The errors among the values, named for the axis of accumulated cost."""
        return {f"by_cost/{name.partition('/')[2]}": self.values[name] for name in _ERRORS if name in self.values}


class LoggingCallback(ABC):
    """Turns events of a run into points; a subclass writes them.

    The log opens at the first event and closes when the advance stops. The next event, in this process or in one that
    resumed the run, opens the same log again.
    """

    _run: Path | None = None

    @abstractmethod
    def _open(self, run: LoggedRun) -> None:
        """Start the log of a run, with its parameters, or continue it."""

    @abstractmethod
    def _write(self, run: LoggedRun, point: Point) -> None:
        """Log one event."""

    @abstractmethod
    def _close(self, run: LoggedRun, point: Point) -> None:
        """Log the outcome and close the log."""

    def on_asked(self, run: LoggedRun, queries: Sequence[Query]) -> None:
        """Open the log, so that the parameters are there before the first simulation ends."""
        del queries
        self._start(run)

    def on_told(self, run: LoggedRun, record: QueryRecord) -> None:
        """Log level, cost and seconds of a chosen example; initial and test examples have no step."""
        self._start(run)
        if record.kind == "pool" and record.step is not None:
            values = {"level": record.level, "cost": record.cost, "seconds": record.seconds}
            self._write(run, Point(record.step, run.state.cost, numbers(values, "chosen")))

    def on_failed(self, run: LoggedRun, record: QueryRecord) -> None:
        """Log how many queries have failed so far, and why this one did."""
        self._start(run)
        failed = sum(query.status == "failed" for query in run.state.queries.values())
        texts = {"failure": f"{record.id}: {record.reason}"}
        self._write(run, Point(run.state.step, run.state.cost, {"failures": float(failed)}, texts))

    def on_trained(self, run: LoggedRun, training: Training) -> None:
        """Log loss, out-of-fold error and seconds of a fit."""
        self._start(run)
        names = ("loss", "out_of_fold_error", "seconds")
        values = numbers({name: getattr(training, name) for name in names}, "training")
        self._write(run, Point(training.step, run.state.cost, values))

    def on_evaluated(self, run: LoggedRun, evaluation: Evaluation) -> None:
        """Log the metrics on the test examples, and what they were reached with."""
        self._start(run)
        values = {**evaluation.metrics, "cost": evaluation.cost, "seconds": evaluation.seconds}
        self._write(run, Point(evaluation.step, evaluation.cost, numbers(values, "evaluation")))

    def on_stopped(self, run: LoggedRun, outcome: Outcome) -> None:
        """Log the outcome and close the log."""
        self._start(run)
        values = {"steps": outcome.steps, "cost": outcome.cost, "error": outcome.error}
        texts = {"outcome/reason": outcome.reason}
        self._run = None
        self._close(run, Point(outcome.steps, outcome.cost, numbers(values, "outcome"), texts))

    def _start(self, run: LoggedRun) -> None:
        if self._run is None:
            self._open(run)
            self._run = run.path
        if self._run != run.path:
            raise MrafnoError(
                f"{type(self).__name__}: it logs the run {self._run} and was called by the run {run.path}. "
                "Make one callback for each run."
            )


def numbers(values: Mapping[str, Any], prefix: str) -> dict[str, float]:
    """Finite numbers by name, ``prefix/name``, from values that may be nested; everything else is left out."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= numbers(value, f"{prefix}/{name}")
        elif isinstance(value, int | float) and math.isfinite(value):
            found[f"{prefix}/{name}"] = float(value)
    return found


def parameters(state: RunState) -> dict[str, Any]:
    """Method, seed, settings and task of a run as one flat dictionary; lists become JSON text."""
    return _flat(
        {"method": state.method, "seed": state.seed, "settings": state.settings.as_json(), "task": state.task}, ""
    )


def _flat(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}/")
        else:
            found[prefix + name] = json.dumps(value) if isinstance(value, list | tuple) else value
    return found


def import_optional(module: str, *, packages: str) -> Any:
    """Import a package that mrafno installs only as an extra.

    Args:
        packages: to install, in the words of pip.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MrafnoError(
            f"integrations: {module} cannot be imported ({error}). Install it: pip install {packages}"
        ) from error


def check_cost_unit(cost_unit: float) -> float:
    """The cost of one unit of a cost axis that has whole numbers only."""
    if not (math.isfinite(cost_unit) and cost_unit > 0):
        raise MrafnoError(f"integrations: cost_unit must be a positive number, got {cost_unit!r}.")
    return cost_unit


def read_id(path: Path) -> str | None:
    """The id under which a run is logged; None if there is no such file."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["id"])
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise MrafnoError(
            f"{path}: there is no id in this file. Remove it to log the run under a new id, or give another id_file."
        ) from error


def write_id(path: Path, id: str) -> None:
    """Keep the id under which a run is logged, so that a resumed run continues the same log."""
    write_bytes(path, json.dumps({"id": id}).encode())
