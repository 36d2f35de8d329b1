"""A new run: its settings and inputs, checked and drawn before its directory is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mrafno.data.imports import Examples, LevelExamples, read_examples, write_examples
from mrafno.data.pool import PoolSizes, RunInputs, draw
from mrafno.errors import RunError
from mrafno.run.goals import check_costs
from mrafno.run.methods import METHODS, Method, get_method, settings_of
from mrafno.run.recorder import Recorder, sizes_of
from mrafno.tasks.base import Task
from mrafno.tasks.stored import task_as_json


@dataclass(frozen=True)
class NewRun:
    """What a new run begins with.

    Attributes:
        data: what its ledger begins with.
        imported: examples that it is given, one entry per level, or none.
    """

    method: Method
    data: dict[str, Any]
    imported: list[LevelExamples]
    sizes: PoolSizes
    inputs: RunInputs

    @staticmethod
    def of(
        task: Task, method: str | Method, seed: int, examples: Examples | None, settings: Mapping[str, Any]
    ) -> "NewRun":
        """From the arguments of :meth:`mrafno.run.run.Run.create`; raises for those that are wrong."""
        check_costs(task)
        known = get_method(method) if isinstance(method, str) else method
        if not isinstance(known, Method):
            raise RunError(f"run: method must be a name or a mrafno.Method, got {type(method).__name__}.")
        chosen = settings_of(task, known, settings)
        known.spec(chosen.inference)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise RunError(f"run: the seed must be a whole number, 0 or more, got {seed!r}.")
        data: dict[str, Any] = {
            "task": task_as_json(task),
            "method": known.name,
            "seed": seed,
            "settings": chosen.as_json(),
        }
        if METHODS.get(known.name) is not known:
            if known.name in METHODS:
                raise RunError(f"run: {known.name!r} is the name of a built-in method. Give yours another name.")
            data["own_method"] = known.as_json()
        imported = [] if examples is None else read_examples(examples, task)
        counts = tuple(len(one.inputs) for one in imported)
        if imported:
            data["given"] = list(counts)
        # Drawn first: a task with too few candidates leaves no run behind.
        sizes = sizes_of(chosen, task.levels, counts)
        return NewRun(known, data, imported, sizes, draw(task, sizes, seed, [one.inputs for one in imported]))

    def record_imported(self, recorder: Recorder, levels: int) -> None:
        """Record the examples that the run is given."""
        if self.imported:
            first = len(self.sizes.initial_levels(levels))
            recorder.record("imported", examples=write_examples(recorder.ledger, self.imported, first))
