"""Studies small enough for tests, and runs whose numbers a test chose."""

from pathlib import Path

from mrafno.run.settings import RunSettings
from mrafno.run.state import Evaluation, QueryRecord, RunState
from mrafno.storage.arrays import ArrayFile
from mrafno.studies.active import Job, Result, Setup
from mrafno.studies.pages import Study

SETTINGS = {
    "pool": 12,
    "initial": 3,
    "test": 4,
    "members": 2,
    "iterations": 2,
    "evaluate": 2,
    "refit_growth": 0.0,
}


def tiny_setup(**changes):
    values = {
        "task": "burgers",
        "steps": 4,
        "seeds": 2,
        "settings": RunSettings.of(**SETTINGS),
        # So viscous that few nodes are enough.
        "task_settings": {"resolutions": ((9,), (17,)), "viscosity": 0.2, "tolerance": 1e-4},
    }
    return Setup(**{**values, **changes})


def tiny_study(name, out, **changes):
    return Study(name, tiny_setup(**changes), out, workers=1, note="Chosen by the author of this test.")


def ignore(state, phase):
    """A watcher that does nothing."""


def choices(state):
    """Candidate, level and step of every choice."""
    return [(q.row, q.level, q.step) for q in state.of_kind("pool")]


def made_result(method="random-mix", seed=0, costs=(0.0,), errors=(1.0,), levels=(), settings=None):
    """A run measured at these costs, that asked for these levels."""
    job = Job.of("burgers", method, seed, settings or RunSettings())
    state = RunState(task={"resolutions": [[9], [17]]}, method=method, seed=seed, settings=job.settings)
    state.evaluations = [
        Evaluation(step, cost, {"relative_l2": error}, 0.0)
        for step, (cost, error) in enumerate(zip(costs, errors, strict=True))
    ]
    for step, level in enumerate(levels, 1):
        nothing = ArrayFile("none", "0" * 64, (1,), "float64")
        state.queries[f"q{step}"] = QueryRecord(f"q{step}", "pool", level, step, step, nothing, 0.0, status="told")
    return Result(job, Path("nowhere"), state)
