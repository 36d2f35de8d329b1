"""Runs in MLflow."""

import time
from pathlib import Path
from typing import Any

from mrafno.errors import MrafnoError
from mrafno.integrations.common import (
    LoggedRun,
    LoggingCallback,
    Point,
    check_cost_unit,
    import_optional,
    parameters,
    read_id,
    write_id,
)

#: File inside the run directory that keeps MLflow's id of the run, if no other is given.
_ID_FILE = "mlflow.json"
#: Longest value of a parameter or a tag that every store of MLflow takes.
_LONGEST = 5000
#: Parameters that MLflow takes in one call.
_PARAMETERS = 100


class MLflowCallback(LoggingCallback):
    """Logs parameters, metrics and outcome of a run with MLflow's client.

    MLflow's own active run is not touched. A resumed run continues the same MLflow run.

    Args:
        experiment: name of the experiment; it is created if it does not exist.
        tracking_uri: where MLflow stores runs, such as ``sqlite:///mlflow.db`` or the address of a server; None for
            MLflow's own default.
        run_name: None for the name of the run directory.
        id_file: file that keeps MLflow's id of the run; None for ``mlflow.json`` inside the run directory.
        cost_unit: cost of one unit of the axis of ``by_cost/*``, which has whole numbers only.
    """

    def __init__(
        self,
        experiment: str = "mrafno",
        *,
        tracking_uri: str | None = None,
        run_name: str | None = None,
        id_file: Path | str | None = None,
        cost_unit: float = 1.0,
    ) -> None:
        self._mlflow = import_optional("mlflow", packages="mlflow-skinny alembic sqlalchemy")
        self._client: Any = self._mlflow.MlflowClient(tracking_uri=tracking_uri)
        self.experiment, self.run_name = experiment, run_name
        self.id_file = None if id_file is None else Path(id_file)
        self.cost_unit = check_cost_unit(cost_unit)
        self._id = ""

    def _open(self, run: LoggedRun) -> None:
        file = self.id_file or run.path / _ID_FILE
        earlier = read_id(file)
        if earlier is not None:
            self._continue(earlier, file)
            return
        experiment = self._client.get_experiment_by_name(self.experiment)
        number = self._client.create_experiment(self.experiment) if experiment is None else experiment.experiment_id
        self._id = self._client.create_run(number, run_name=self.run_name or run.path.name).info.run_id
        entities = self._mlflow.entities
        params = [entities.Param(name, str(value)[:_LONGEST]) for name, value in parameters(run.state).items()]
        for start in range(0, len(params), _PARAMETERS):
            self._client.log_batch(self._id, params=params[start : start + _PARAMETERS])
        write_id(file, self._id)

    def _continue(self, id: str, file: Path) -> None:
        try:
            self._client.update_run(id, status="RUNNING")
        except self._mlflow.exceptions.MlflowException as error:
            raise MrafnoError(
                f"{file}: MLflow cannot continue the run {id} ({error}). Give the tracking_uri of the store that has "
                "it, or remove the file to log under a new id."
            ) from error
        self._id = id

    def _write(self, run: LoggedRun, point: Point) -> None:
        now, by_cost = int(1000 * time.time()), round(point.cost / self.cost_unit)
        entities = self._mlflow.entities
        metrics = [entities.Metric(name, value, now, point.step) for name, value in point.values.items()]
        metrics += [entities.Metric(name, value, now, by_cost) for name, value in point.by_cost.items()]
        tags = [entities.RunTag(name, text[:_LONGEST]) for name, text in point.texts.items()]
        self._client.log_batch(self._id, metrics=metrics, tags=tags)

    def _close(self, run: LoggedRun, point: Point) -> None:
        self._write(run, point)
        self._client.set_terminated(self._id)
