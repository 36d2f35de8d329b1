"""A run whose events a test fires one after another, with records as a run makes them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mrafno.run.settings import RunSettings
from mrafno.run.state import Evaluation, QueryRecord, RunState, Training
from mrafno.simulation.query import Query
from mrafno.storage.arrays import ArrayFile
from mrafno.storage.events import Event
from mrafno.tasks.stored import task_as_json
from tests.made_runs import made_task

#: Level, cost, seconds, loss, out-of-fold error and relative error of each step. All are exact in 32 bits.
STEPS = {
    1: (0, 1.0, 0.5, -0.5, 0.5, 0.25),
    2: (1, 10.0, 2.0, -0.75, None, 0.125),
    3: (0, 1.0, 0.25, -1.5, 0.0625, 0.03125),
}

#: What all of that is, logged: by name, (step, value). The second step fails once before it succeeds.
SERIES = {
    "chosen/level": [(1, 0.0), (2, 1.0), (3, 0.0)],
    "chosen/cost": [(1, 1.0), (2, 10.0), (3, 1.0)],
    "chosen/seconds": [(1, 0.5), (2, 2.0), (3, 0.25)],
    "failures": [(1, 1.0)],
    "training/loss": [(1, -0.5), (2, -0.75), (3, -1.5)],
    "training/out_of_fold_error": [(1, 0.5), (3, 0.0625)],
    "training/seconds": [(1, 4.0), (2, 4.0), (3, 4.0)],
    "evaluation/relative_l2": [(1, 0.25), (2, 0.125), (3, 0.03125)],
    "evaluation/coverage/0.5": [(1, 0.375), (2, 0.375), (3, 0.375)],
    "evaluation/cost": [(1, 1.0), (2, 11.0), (3, 12.0)],
    "evaluation/seconds": [(1, 8.0), (2, 8.0), (3, 8.0)],
}
#: The same against accumulated cost.
BY_COST = {
    "by_cost/relative_l2": [(1, 0.25), (11, 0.125), (12, 0.03125)],
    "by_cost/out_of_fold_error": [(1, 0.5), (12, 0.0625)],
}
#: The outcome of the first two steps and of the third.
OUTCOMES = {
    "outcome/steps": [(2, 2.0), (3, 3.0)],
    "outcome/cost": [(2, 11.0), (3, 12.0)],
    "outcome/error": [(2, 0.125), (3, 0.03125)],
}


@dataclass(frozen=True)
class Outcome:
    reason: str
    steps: int
    cost: float
    error: float | None


class ScriptedRun:
    """What callbacks see of a run."""

    def __init__(self, path: Path, state: RunState | None = None):
        path.mkdir(exist_ok=True)
        self.path = path
        self.state = state or RunState(
            task=task_as_json(made_task()), method="mra-auto", seed=7, settings=RunSettings(initial=3)
        )

    def reopened(self) -> "ScriptedRun":
        """The run as a process that resumes it finds it."""
        return ScriptedRun(self.path, self.state)

    def advance(self, callback, *steps: int) -> None:
        """Fire all events of some steps, and the last one."""
        for step in steps:
            if step == 2:
                record = self.ask(callback, step)
                self.record("failed", id=record.id, reason="no convergence")
                callback.on_failed(self, record)
            self.tell(callback, self.ask(callback, step))
            self.learn(callback, step)
        error = STEPS[self.state.step][-1]
        callback.on_stopped(self, Outcome(f"finished {steps[-1]} steps", self.state.step, self.state.cost, error))

    def record(self, kind, **data):
        """Apply an event, as it is read from a ledger."""
        self.state.apply(Event(number=0, time=0.0, kind=kind, data=data))

    def ask(self, callback, step, kind="pool"):
        level, id = STEPS[step][0], f"q{len(self.state.queries):06d}"
        file = ArrayFile(file=f"arrays/{id}-input.npy", sha256="0" * 64, shape=(1, 5), dtype="float64")
        record = QueryRecord(id=id, kind=kind, level=level, row=step, step=step, input=file, asked=0.0)
        self.state.queries[id] = record
        callback.on_asked(self, [Query(id=id, kind=kind, level=level, f=np.zeros((1, 5)), candidate=step, step=step)])
        return record

    def tell(self, callback, record):
        _, cost, seconds, *_ = STEPS[record.step]
        self.record("told", id=record.id, output=record.input.as_json(), cost=cost, seconds=seconds)
        callback.on_told(self, record)

    def learn(self, callback, step):
        *_, loss, out_of_fold, error = STEPS[step]
        training = Training(
            added=(), step=step, loss=loss, out_of_fold_error=out_of_fold, shift=0.0, seconds=4.0, prequential_errors={}
        )
        self.state.trainings.append(training)
        callback.on_trained(self, training)
        metrics = {"relative_l2": error, "nll_per_value": None, "coverage": {"0.5": 0.375}}
        evaluation = Evaluation(step=step, cost=self.state.cost, metrics=metrics, seconds=8.0)
        self.state.evaluations.append(evaluation)
        callback.on_evaluated(self, evaluation)
