"""The queries of a run as a DataFrame: a row each, with the numbers of the ledger."""

import numpy as np
import pytest

from mrafno.errors import RunError
from mrafno.run import Run
from mrafno.tasks import FunctionTask
from tests.made_runs import made_run
from tests.runs import SETTINGS


def test_a_row_for_every_query(tmp_path):
    with Run.open(made_run(tmp_path / "run", levels=(0, 1), errors=(0.4, 0.2), failures=["why"]), write=False) as run:
        frame = run.to_dataframe()
        queries = list(run.state.queries.values())
        total = run.spent.total
    assert list(frame["query"]) == [q.id for q in queries]
    assert frame["kind"].value_counts().to_dict() == {"initial": 4, "chosen": 3, "test": 2}
    chosen = frame[(frame.kind == "chosen") & (frame.status == "told")]
    assert list(chosen["step"]) == [1, 2]
    assert list(chosen["cost"]) == [1.0, 10.0]
    assert list(chosen["mesh"]) == ["5", "9"]
    assert list(chosen["error_before_training"]) == [0.5, 0.25]
    assert chosen["measured_error"].iloc[1] == 0.2
    assert chosen["total_cost"].iloc[1] == total
    (failed,) = frame[frame.status == "failed"]["reason"]
    assert failed == "why"
    assert frame["asked"].dtype.kind == "M"


def test_parameters_are_columns(tmp_path):
    values = np.random.default_rng(0).uniform(size=40)
    task = FunctionTask(
        lambda p, level: np.full((9, 17)[level], p[0]), None, ((9,), (17,)), (1.0, 5.0), parameters={"nu": values}
    )
    with Run.create(tmp_path / "run", task, **SETTINGS) as run:
        run.ask(5)
        frame = run.to_dataframe()
    assert np.isin(frame["nu"], values).all()


def test_an_empty_run_and_one_without_pandas(tmp_path, monkeypatch):
    with Run.open(made_run(tmp_path / "run"), write=False) as run:
        assert len(run.to_dataframe()) == 6
        monkeypatch.setattr("mrafno.run.frame.import_module", _missing)
        with pytest.raises(RunError, match=r"pip install pandas"):
            run.to_dataframe()


def _missing(name):
    raise ImportError(name)
