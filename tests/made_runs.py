"""Run directories: with numbers that a test chose, as a run would write them, and one that was really run."""

from unittest import mock

import numpy as np

from mrafno.run import Run
from mrafno.run.methods import METHODS
from mrafno.run.settings import RunSettings
from mrafno.storage.ledger import Ledger
from mrafno.tasks import FunctionTask, get_task
from mrafno.tasks.stored import task_as_json

SIZES = {1: (5, 9), 2: ((4, 4), (8, 8))}


def real_run(tmp_path_factory):
    """A run with a checkpoint, however short, made once a session."""
    path = tmp_path_factory.getbasetemp() / "real-run"
    if not path.exists():
        settings = {"pool": 12, "initial": 3, "test": 4, "members": 2, "iterations": 2, "evaluate": 2}
        with Run.create(path, get_task("darcy", resolutions=((4, 4), (8, 8))), seed=3, **settings) as run:
            run.advance(total_steps=4)
    return path


def made_task(name="made", dim=1, costs=(1.0, 10.0)):
    inputs = np.random.default_rng(0).normal(size=(4, 9) if dim == 1 else (4, 8, 8))
    return FunctionTask(lambda f, level: f, inputs, SIZES[dim], costs, name=name)


# Nothing here must outlive a power cut, and that would take most of the time.
@mock.patch("os.fsync", new=int)
def made_run(
    folder,
    *,
    method="mra-uhat",
    seed=0,
    task=None,
    levels=(),
    errors=(),
    repeated=(),
    failures=(),
    running=False,
    stopped=None,
    **settings,
):
    """A run that chose examples of these levels, and after each multiple of ``evaluate`` had one of the errors.

    ``repeated`` are second measurements, as pairs of step and error. An error of None was not finite.
    """
    task = task or made_task()
    chosen = RunSettings(**{"test": 2, "initial": 2, "evaluate": 2, **settings})
    rng = np.random.default_rng(seed)
    about = {"task": task_as_json(task), "method": method, "seed": seed, "settings": chosen.as_json()}
    with Ledger.create(folder, **about) as ledger:
        ledger.append("inputs", inputs=ledger.write_array("inputs", task.inputs).as_json())
        number, cost, left = 0, 0.0, list(errors)

        def ask(kind, level, row, step=None, choice=None):
            nonlocal number
            id, number = f"q{number:06d}", number + 1
            f = rng.normal(size=(1, *task.resolutions[level]))
            query = {
                "id": id, "kind": kind, "level": level, "row": row, "step": step, "choice": choice or {},
                "expires": None, "input": ledger.write_array(f"{id}-input", f).as_json(),
            }  # fmt: skip
            ledger.append("asked", queries=[query])
            return id

        def tell(id, level, price, seconds=None):
            y = ledger.write_array(f"{id}-output", rng.normal(size=(1, *task.resolutions[level])))
            ledger.append("told", id=id, output=y.as_json(), cost=price, seconds=seconds)

        def train(added, step, prequential_errors):
            ledger.append(
                "trained", added=added, step=step, loss=1.0, seconds=2.0, out_of_fold_error=None, shift=0.0, events=[],
                prequential_errors=prequential_errors,
            )  # fmt: skip

        def measure(step):
            if left and step % chosen.evaluate == 0:
                metrics = {"relative_l2": left.pop(0), "coverage": {"0.5": 0.4, "0.9": 0.8}}
                ledger.append("evaluated", step=step, cost=cost, metrics=metrics, seconds=0.5)
                if step in dict(repeated):
                    again = {**metrics, "relative_l2": dict(repeated)[step]}
                    ledger.append("evaluated", step=step, cost=cost, metrics=again, seconds=0.5)

        first = [(ask("initial", row // 2, row), row // 2) for row in range(4)]
        for id, level in [*first, *((ask("test", 1, row), 1) for row in range(chosen.test))]:
            tell(id, level, 1.0)
        train([id for id, _ in first], 0, {})
        measure(0)
        costs = [0.2, 0.8] if METHODS[method].divide_by_cost else None
        for step, level in enumerate(levels, 1):
            best = [1.0 / step, None if step == 2 else 2.0]
            choice = {"score": best[level], "best": best, "costs": costs, "seconds": 0.25}
            if step - 1 < len(failures):
                ledger.append("failed", id=ask("pool", level, step, step, choice), reason=failures[step - 1])
            id = ask("pool", level, step, step, choice)
            tell(id, level, task.costs[level], 0.1)
            cost += task.costs[level]
            train([id], step, {id: 0.5 / step})
            measure(step)
        if running:
            ask("pool", 1, 0, len(levels) + 1, {"score": 1.0, "best": [0.5, 1.0], "costs": costs, "seconds": 0.25})
        if stopped:
            ledger.append("stopped", reason=stopped)
    return folder
