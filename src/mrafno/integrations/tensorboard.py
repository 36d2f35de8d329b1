"""Runs in TensorBoard."""

from pathlib import Path
from typing import Any

from mrafno.integrations.common import (
    LoggedRun,
    LoggingCallback,
    Point,
    check_cost_unit,
    import_optional,
    parameters,
)

#: Folder inside the run directory, if none is given.
_FOLDER = "tensorboard"


class TensorBoardCallback(LoggingCallback):
    """Writes scalars and texts of a run as TensorBoard event files.

    A resumed run writes a further file into the same folder, which TensorBoard shows as one series. Use one folder for
    each run. TensorBoard stores scalars as 32-bit numbers.

    Args:
        log_dir: folder of the event files; None for ``tensorboard`` inside the run directory.
        cost_unit: cost of one unit of the axis of ``by_cost/*``, which has whole numbers only.
    """

    def __init__(self, log_dir: Path | str | None = None, *, cost_unit: float = 1.0) -> None:
        import_optional("tensorboard", packages="tensorboard")
        self._writer_class = import_optional("torch.utils.tensorboard", packages="tensorboard").SummaryWriter
        self.log_dir = None if log_dir is None else Path(log_dir)
        self.cost_unit = check_cost_unit(cost_unit)
        self._writer: Any = None

    def _open(self, run: LoggedRun) -> None:
        folder = self.log_dir or run.path / _FOLDER
        started = any(folder.glob("events.out.tfevents.*"))
        self._writer = self._writer_class(str(folder))
        if not started:
            self._writer.add_text("parameters", _table(parameters(run.state)), 0)
            self._writer.flush()

    def _write(self, run: LoggedRun, point: Point) -> None:
        for name, value in point.values.items():
            self._writer.add_scalar(name, value, point.step)
        for name, value in point.by_cost.items():
            self._writer.add_scalar(name, value, round(point.cost / self.cost_unit))
        for name, text in point.texts.items():
            self._writer.add_text(name, text, point.step)
        # Whatever was logged is on disk if the process is killed before the next event.
        self._writer.flush()

    def _close(self, run: LoggedRun, point: Point) -> None:
        self._write(run, point)
        self._writer.close()


def _table(values: dict[str, Any]) -> str:
    """A Markdown table, which TensorBoard renders."""
    rows = [f"| {name} | {value} |" for name, value in values.items()]
    return "\n".join(["| parameter | value |", "|---|---|", *rows])
