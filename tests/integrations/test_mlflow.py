"""What a run logs is what MLflow's client finds in a local store."""

import sys

import pytest

from mrafno.errors import MrafnoError
from mrafno.integrations import MLflowCallback
from tests.integrations.scripted import BY_COST, OUTCOMES, SERIES, ScriptedRun


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Address of an SQLite store; making one takes seconds, so tests share it, each with its own experiment."""
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


def runs(store, experiment):
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=store)
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    return client, found


def metrics(client, run):
    """(step, value) by name."""
    names = run.data.metrics
    return {name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)] for name in names}


def test_a_resumed_run_continues_the_same_mlflow_run(tmp_path, store):
    run = ScriptedRun(tmp_path / "rod")
    run.advance(MLflowCallback("resumed", tracking_uri=store), 1, 2)
    callback, resumed = MLflowCallback("resumed", tracking_uri=store), run.reopened()
    resumed.ask(callback, 3)
    client, [found] = runs(store, "resumed")
    assert found.info.status == "RUNNING"
    resumed.advance(callback, 3)
    client, [found] = runs(store, "resumed")
    assert metrics(client, found) == {**SERIES, **BY_COST, **OUTCOMES}
    assert (found.info.run_name, found.info.status) == ("rod", "FINISHED")
    assert found.data.tags["failure"] == "q000001: no convergence"
    assert found.data.tags["outcome/reason"] == "finished 3 steps"
    some = {
        "method": "mra-auto",
        "seed": "7",
        "settings/initial": "3",
        "task/name": "made",
        "task/costs": "[1.0, 10.0]",
    }
    assert some.items() <= found.data.params.items()


def test_the_active_run_of_mlflow_is_not_touched(tmp_path, store):
    import mlflow

    ScriptedRun(tmp_path / "run").advance(MLflowCallback("inactive", tracking_uri=store), 1)
    assert mlflow.active_run() is None


def test_two_runs_are_two_runs_of_one_experiment(tmp_path, store):
    for name in ("first", "second"):
        callback = MLflowCallback("two", tracking_uri=store, run_name=f"the {name}", id_file=tmp_path / f"{name}.json")
        ScriptedRun(tmp_path / "run").advance(callback, 1)
    assert {run.info.run_name for run in runs(store, "two")[1]} == {"the first", "the second"}
    assert not (tmp_path / "run" / "mlflow.json").exists()


def test_more_parameters_than_mlflow_takes_at_once(tmp_path, store):
    run = ScriptedRun(tmp_path / "run")
    run.state.task["parameters"] = {f"p{i}": i for i in range(250)}
    run.advance(MLflowCallback("many", tracking_uri=store), 1)
    [found] = runs(store, "many")[1]
    assert [found.data.params[f"task/parameters/p{i}"] for i in range(250)] == [str(i) for i in range(250)]


def test_an_id_that_the_store_does_not_have_is_an_error_that_names_the_file(tmp_path, store):
    run = ScriptedRun(tmp_path / "run")
    (run.path / "mlflow.json").write_text('{"id": "elsewhere"}', encoding="utf-8")
    with pytest.raises(MrafnoError, match=r"mlflow\.json: MLflow cannot continue the run elsewhere .* tracking_uri"):
        run.advance(MLflowCallback("lost", tracking_uri=store), 1)


def test_a_missing_package_gives_advice(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MrafnoError, match=r"mlflow cannot be imported .*pip install mlflow-skinny alembic sqlalchemy"):
        MLflowCallback()
