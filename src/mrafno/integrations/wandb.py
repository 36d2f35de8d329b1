"""Runs in Weights & Biases."""

from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from mrafno.errors import MrafnoError
from mrafno.integrations.common import (
    LoggedRun,
    LoggingCallback,
    Point,
    import_optional,
    parameters,
    read_id,
    write_id,
)
from mrafno.run.state import RunState

#: File inside the run directory that keeps W&B's id of the run, if no other is given.
_ID_FILE = "wandb.json"
#: The values that are drawn against each axis.
_AXES = {"step": ("chosen/*", "training/*", "evaluation/*", "failures"), "accumulated_cost": ("by_cost/*",)}


class WandbCallback(LoggingCallback):
    """Logs parameters, history and outcome of a run with Weights & Biases, offline unless told otherwise.

    Values are drawn against ``step``, those of ``by_cost/*`` against ``accumulated_cost``. A resumed run continues
    under the same id. An offline run has one folder for each advance, whose rows continue each other.

    Args:
        project: W&B's name for the group of runs.
        mode: ``offline`` writes files and uses no network; ``online`` needs an API key and never asks for one.
        id_file: file that keeps W&B's id of the run; None for ``wandb.json`` inside the run directory.
        options: further arguments of ``wandb.init``, such as ``entity``, ``name``, ``tags`` or ``dir``.
    """

    def __init__(
        self,
        project: str = "mrafno",
        *,
        mode: Literal["offline", "online"] = "offline",
        id_file: Path | str | None = None,
        **options: Any,
    ) -> None:
        self._wandb = import_optional("wandb", packages="wandb")
        if mode not in ("offline", "online"):
            raise MrafnoError(f"WandbCallback: unknown mode {mode!r}. Choose offline or online.")
        if mode == "online" and not self._wandb.login(prompt=False, verify=False):
            raise MrafnoError("WandbCallback: there is no API key. Call `wandb login`, or use mode='offline'.")
        self.project, self.mode = project, mode
        self.id_file = None if id_file is None else Path(id_file)
        self.options = options
        self._log: Any = None
        self._row = -1

    def _open(self, run: LoggedRun) -> None:
        file = self.id_file or run.path / _ID_FILE
        earlier = read_id(file)
        id = earlier or uuid4().hex
        # W&B's capture of the console and its messages would disturb the progress display of the run.
        settings = self._wandb.Settings(silent=True, console="off")
        options = {"name": run.path.name, "settings": settings, **self.options}
        self._log = self._wandb.init(
            project=self.project,
            mode=self.mode,
            id=id,
            resume="allow",
            reinit="create_new",
            config=parameters(run.state),
            **options,
        )
        if earlier is None:
            write_id(file, id)
        self._row = max(self._row, self._log.step - 1)
        for axis, names in _AXES.items():
            self._log.define_metric(axis)
            for name in names:
                self._log.define_metric(name, step_metric=axis)

    def _write(self, run: LoggedRun, point: Point) -> None:
        self._row = max(self._row + 1, _events(run.state))
        axes = {"step": point.step, "accumulated_cost": point.cost}
        self._log.log({**axes, **point.values, **point.by_cost, **point.texts}, step=self._row, commit=True)

    def _close(self, run: LoggedRun, point: Point) -> None:
        self._log.summary.update({**point.values, **point.texts})
        self._log.finish()


def _events(state: RunState) -> int:
    """How many events a run has had, which numbers the rows of its history.

    W&B drops rows whose numbers do not grow, and an offline run that is resumed does not know the earlier ones.
    """
    answered = sum(query.status != "running" for query in state.queries.values())
    return answered + len(state.trainings) + len(state.evaluations)
