"""A run directory, to look at: nothing is locked, nothing is written, and the run may advance meanwhile."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mrafno.analysis.curves import Curve
from mrafno.errors import CheckpointError, MrafnoError
from mrafno.grids import Array, Grid, grids_of, relative_l2
from mrafno.run.answers import untaken
from mrafno.run.inputs import inputs_of, number_of_candidates, stored_inputs
from mrafno.run.known import Known
from mrafno.run.notes import Notes, read_notes
from mrafno.run.prices import prices
from mrafno.run.progress import Progress, Standing, progress, standing
from mrafno.run.spending import Count, check_count
from mrafno.run.state import QueryRecord, RunState
from mrafno.run.status import Status, read_status
from mrafno.storage.layout import CHECKPOINT, DESCRIPTION, LOCK
from mrafno.storage.ledger import Ledger
from mrafno.storage.lock import LockState, lock_state
from mrafno.surrogate.prediction import Prediction

if TYPE_CHECKING:
    # Torch and SciPy take seconds to load, and what a ledger says needs neither.
    from mrafno.data.pool import RunInputs
    from mrafno.surrogate import Surrogate
    from mrafno.tasks.base import Task


class RunReader(Known):
    """What a run directory holds, as of the last :meth:`refresh`. One thread at a time.

    What stands in the ledger about the task (its name, meshes and costs) is enough for most of what people look at, so
    :attr:`task` itself, for which a person's own task needs all its inputs, is only made when it is asked for.

    Args:
        path: the run's folder.
        damaged: what to do about damaged lines of the ledger, see :meth:`mrafno.storage.ledger.Ledger.open`.
        count: what costs have, see :mod:`mrafno.run.spending`.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        damaged: Literal["refuse", "skip"] = "refuse",
        count: Count = "total",
        device: str = "auto",
    ) -> None:
        check_count(count)
        self.device = device
        self.count: Count = count
        self.folder = Path(path)
        self.ledger = Ledger.open(path, damaged=damaged)
        self._state = RunState.of(self.ledger.events)
        self._replayed = len(self.ledger.events)
        self._task: Task | None = None
        self._inputs: RunInputs | None = None
        self._surrogate: Surrogate | None = None
        self._description = b""
        #: Why a checkpoint that is there cannot be used.
        self.trouble: str | None = None

    @property
    def state(self) -> RunState:
        """What the ledger says."""
        return self._state

    def refresh(self) -> bool:
        """Read what was recorded since; whether there was anything."""
        fresh = self.ledger.refresh()
        if len(self.ledger.events) == self._replayed + len(fresh):
            for event in fresh:
                self.state.apply(event)
        else:
            # Something that was seen before is gone (see Ledger.refresh), or could not be applied the last time.
            self._state = RunState.of(self.ledger.events)
        changed = bool(fresh) or self._replayed != len(self.ledger.events)
        self._replayed = len(self.ledger.events)
        if any(event.kind == "candidates" for event in fresh):
            self._inputs = None
        return changed

    @property
    def lock(self) -> LockState:
        """Whether a process drives the run now."""
        return lock_state(self.folder / LOCK)

    @property
    def activity(self) -> str:
        """In a word or two, what the run is doing now."""
        return self.state.activity(self.lock)

    @property
    def status(self) -> Status | None:
        """What its last driver said of itself; None if there is none."""
        return read_status(self.folder)

    @property
    def notes(self) -> Notes:
        """A person's note and tags."""
        return read_notes(self.folder)

    @property
    def standing(self) -> Standing:
        """Where it stands, in one word."""
        return standing(self.state, self.lock, self.status)

    @property
    def seconds(self) -> dict[str, float]:
        """Recorded seconds by activity."""
        state = self.state
        told = [q for q in state.queries.values() if q.status == "told"]
        return {
            "simulation (chosen)": sum(q.seconds or 0.0 for q in told if q.kind == "pool"),
            "simulation (others)": sum(q.seconds or 0.0 for q in told if q.kind != "pool"),
            "training": sum(training.seconds for training in state.trainings),
            "choosing": sum(float(q.choice.get("seconds") or 0.0) for q in state.queries.values()),
            "evaluating": sum(evaluation.seconds for evaluation in state.evaluations),
        }

    def progress(self, status: Status | None, now: float) -> Progress:
        """How far it is on the way to the goals of its last advance.

        Args:
            status: see :attr:`status`.
            now: the time.
        """
        if status is None:
            return progress(self.state, {}, since=0.0, now=now)
        return progress(self.state, status.goals, count=status.count, since=status.started, now=now)

    @property
    def untaken(self) -> list[str]:
        """Queries whose answers are on the disk, and not yet in the ledger."""
        return [message.query for message in untaken(self.folder, self.state)]

    # Cost and error.

    @property
    def cost(self) -> float:
        """What the run has spent, by its way of counting."""
        return self.state.spent.counted(self.count)

    @property
    def curve(self) -> Curve | None:
        """Error on the test examples against cost, by its way of counting."""
        return self.state.error_curve(self.count)

    # The task.

    @property
    def task(self) -> "Task":
        """The run's task; one that is not ours comes without its simulator."""
        from mrafno.tasks.stored import task_from_json  # imports SciPy

        if self._task is None:
            self._task = task_from_json(self.state.task, stored_inputs(self.ledger, self.state))
        return self._task

    @property
    def grids(self) -> tuple[Grid, ...]:
        """The meshes, coarse to fine."""
        return grids_of(self.state.task)

    @property
    def meshes(self) -> list[str]:
        """What people call the meshes."""
        names = ["x".join(map(str, grid.shape)) for grid in self.grids]
        return [f"{name} points" if grid.dim == 1 else name for name, grid in zip(names, self.grids, strict=True)]

    @property
    def costs(self) -> tuple[float, ...]:
        """The task's own figures for one solve on each mesh."""
        return prices(self.state)

    @property
    def pool(self) -> int:
        """How many candidates the run chooses from: a task with few inputs has fewer than the settings ask for."""
        return number_of_candidates(self.state)

    # Arrays.

    @property
    def inputs(self) -> "RunInputs":
        """All inputs of the run on the finest grid; those of a built-in task are drawn again."""

        if self._inputs is None:
            self._inputs = inputs_of(self.ledger, self.state, self.task)
        return self._inputs

    def input(self, query: QueryRecord) -> Array:
        """A query's input, ``(in_channels, *level's grid)``."""
        return self.ledger.read_array(query.input)

    def split(self, f: Array) -> tuple[Array, dict[str, float]]:
        """The functions in an input ``(in_channels, *grid)``, and its parameters, which are its last channels."""
        names = tuple(self.state.task.get("parameter_names") or ())
        functions = len(f) - len(names)
        return f[:functions], {name: float(f[functions + i].flat[0]) for i, name in enumerate(names)}

    def output(self, query: QueryRecord) -> Array | None:
        """Its output, ``(out_channels, *level's grid)``; None if there is none (yet)."""
        return None if query.output is None else self.ledger.read_array(query.output)

    def tests(self, most: int | None = None) -> tuple[Array, Array]:
        """Inputs and outputs of the test examples, each ``(n, channels, *finest grid)``, the first ones; n may be 0."""
        task, shape = self.state.task, self.grids[-1].shape
        told = self.state.of_kind("test", "told")[:most]
        f, y = np.empty((len(told), task["in_channels"], *shape)), np.empty((len(told), task["out_channels"], *shape))
        for row, query in enumerate(told):
            assert query.output is not None, f"{query.id} was told"
            f[row], y[row] = self.ledger.read_array(query.input), self.ledger.read_array(query.output)
        return f, y

    # The surrogate.

    @property
    def surrogate(self) -> "Surrogate | None":
        """The surrogate's last checkpoint; None if there is none, or none of this run that can be read."""
        description = self._described()
        while description != self._description:
            self._description, self._surrogate, self.trouble = description, None, None
            if description:
                try:
                    self._surrogate = self._loaded()
                except MrafnoError as error:
                    self.trouble = str(error)
                    # Unless a writer replaced it while it was read: then there is another one to read.
                    description = self._described()
        return self._surrogate

    def predict(self, f: Array, level: int) -> Prediction | None:
        """What the checkpoint says of inputs ``(n, in_channels, *level's grid)``; None without a checkpoint."""
        surrogate = self.surrogate
        return None if surrogate is None or not len(f) else surrogate.predict(f, level, check=False)

    def errors(self, mean: Array, y: Array) -> Array:
        """Relative L2 errors of the checkpoint's predictions, ``(n, out_channels, *grid)`` twice gives ``(n,)``."""
        normaliser = None if self._surrogate is None else self._surrogate.normaliser
        return relative_l2(mean, y, None if normaliser is None else normaliser.typical_norm(y.shape[2:]))

    def _loaded(self) -> "Surrogate":
        from mrafno.surrogate import Surrogate  # imports torch

        surrogate = Surrogate.load(self.folder / CHECKPOINT, device=self.device)
        if surrogate.domain.grids != self.grids or surrogate.seed != self.state.seed:
            raise CheckpointError(f"checkpoint {self.folder / CHECKPOINT}: it is of another run.")
        return surrogate

    def _described(self) -> bytes:
        try:
            return (self.folder / CHECKPOINT / DESCRIPTION).read_bytes()
        except OSError:
            return b""
