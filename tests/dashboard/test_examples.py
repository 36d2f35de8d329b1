"""Single examples: input, truth, prediction and spread."""

import os
import shutil

import numpy as np
import pytest

from mrafno.run.reader import RunReader
from tests.dashboard.conftest import Client
from tests.made_runs import made_run, real_run


def values(trace, key):
    """Numbers of a figure, however plotly packed them."""
    found = trace[key]
    if isinstance(found, dict):
        import base64

        shape = [int(n) for n in str(found.get("shape", "-1")).split(",")]
        return np.frombuffer(base64.b64decode(found["bdata"]), np.dtype(found["dtype"])).reshape(shape)
    return np.array(found)


def test_an_example_without_a_checkpoint_has_input_and_truth(client, folder):
    example = client.json("/api/example?run=first&query=q000004")
    reader = RunReader(folder / "first")
    query = reader.state.queries["q000004"]
    assert [panel["heading"] for panel in example["panels"]] == ["input", "output"]
    source, output = (panel["figure"]["data"][0] for panel in example["panels"])
    np.testing.assert_allclose(values(source, "y"), reader.input(query)[0], rtol=1e-6)
    np.testing.assert_allclose(values(output, "y"), reader.output(query)[0], rtol=1e-6)
    assert (example["before"], example["after"]) == (None, "q000005")
    assert "no checkpoint" in example["text"]


def test_an_example_in_two_dimensions_and_one_that_is_running(client, folder):
    reader = RunReader(folder / "flat")
    example = client.json("/api/example?run=flat&query=q000006")
    assert [panel["heading"] for panel in example["panels"]] == ["input", "truth"]
    field = values(example["panels"][1]["figure"]["data"][0], "z")
    # A picture's rows are the second axis.
    np.testing.assert_allclose(field.T, reader.output(reader.state.queries["q000006"])[0], rtol=1e-6)
    running = client.json("/api/example?run=deep%2Fer%2Fsecond&query=q000008")
    assert [panel["heading"] for panel in running["panels"]] == ["input"]
    assert running["status"] == "not answered"
    failed = client.json("/api/example?run=first&query=q000006")
    assert failed["reason"] == "<script>alert(1)</script> no convergence"


def test_an_example_has_mean_and_spread_of_the_checkpoint(tmp_path, tmp_path_factory, serve, monkeypatch):
    shutil.copytree(real_run(tmp_path_factory), tmp_path / "real")
    client, reader = Client(serve(tmp_path)), RunReader(tmp_path / "real")
    query = reader.state.of_kind("test")[1]
    prediction = reader.predict(reader.input(query)[None], query.level)
    calls = []
    predict = RunReader.predict
    monkeypatch.setattr(RunReader, "predict", lambda *args: calls.append(args) or predict(*args))
    address = f"/api/example?run=real&query={query.id}"
    example = client.json(address)
    panels = {panel["heading"]: panel["figure"]["data"][0] for panel in example["panels"]}
    assert list(panels) == ["input", "truth", "prediction", "prediction minus truth", "standard deviation"]
    np.testing.assert_allclose(values(panels["prediction"], "z").T, prediction.mean[0, 0], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(values(panels["standard deviation"], "z").T, prediction.std[0, 0], rtol=1e-5)
    truth = reader.output(query)
    error = np.linalg.norm(prediction.mean[0] - truth) / np.linalg.norm(truth)
    assert f"Relative L2 error {error:.4g}." in example["text"]
    # Once for a checkpoint, and again when there is another one.
    assert client.json(address) == example
    assert len(calls) == 1
    os.utime(tmp_path / "real" / "surrogate" / "surrogate.json")
    assert client.json(address) == example
    assert len(calls) == 2


def test_channels_can_be_selected(client, monkeypatch):
    monkeypatch.setattr(RunReader, "input", lambda self, query: np.outer([1.0, 2.0, 3.0], np.arange(9.0)))
    for asked, shown in {"": 2, "&channel=0": 0, "&channel=1": 1, "&channel=7": 2, "&channel=x": 2}.items():
        example = client.json(f"/api/example?run=first&query=q000005{asked}")
        assert (example["channel"], example["channels"]) == (shown, 3)
        np.testing.assert_array_equal(
            values(example["panels"][0]["figure"]["data"][0], "y"), (shown + 1) * np.arange(9)
        )


def test_an_unknown_query_is_not_found(client):
    assert client.send("/api/example?run=first&query=q999999").status == 404
    assert client.send("/api/example?run=first&query=../../x").status == 404
    assert client.send("/api/example?run=first").status == 404


def test_a_candidate_is_shown_on_every_mesh(client_of_a_real_run):
    client, reader = client_of_a_real_run
    query = reader.state.of_kind("pool", "told")[0]
    found = client.json(f"/api/example?run=real&input={query.row}")
    assert (found["id"], found["kind"]) == (f"candidate {query.row}", "candidate")
    headings = [panel["heading"] for panel in found["panels"]]
    mesh, other = reader.meshes[query.level], reader.meshes[1 - query.level]
    assert headings[0] == "input"
    assert {f"{mesh}: truth", f"{mesh}: prediction", f"{mesh}: prediction minus truth"} <= set(headings)
    assert f"{other}: prediction" in headings
    assert [(q["id"], q["mesh"], q["status"]) for q in found["queries"] if q["id"] == query.id] == [
        (query.id, mesh, "told")
    ]
    # One scale for the truth and for predictions on every mesh.
    scales = {
        (p["figure"]["data"][0]["zmin"], p["figure"]["data"][0]["zmax"])
        for p in found["panels"]
        if p["heading"].endswith((": truth", ": prediction"))
    }
    assert len(scales) == 1
    assert "Relative L2 error on" in found["text"]
    of_query = client.json(f"/api/example?run=real&query={query.id}")
    assert of_query["input"] == query.row


def test_a_candidate_that_was_not_chosen_has_predictions_only(client_of_a_real_run):
    client, reader = client_of_a_real_run
    row = next(row for row in range(12) if row not in {q.row for q in reader.state.of_kind("pool")})
    found = client.json(f"/api/example?run=real&input={row}")
    assert not any(panel["heading"].endswith("truth") for panel in found["panels"])
    assert (found["queries"], found["before"], found["after"]) == ([], None, None)


@pytest.mark.parametrize("row", ["12", "-1", "x", "99999", ""])
def test_unknown_candidates(client_of_a_real_run, row):
    client, _ = client_of_a_real_run
    assert client.send(f"/api/example?run=real&input={row}").status == 404


def test_the_map_of_a_run(client_of_a_real_run, tmp_path):
    client, _ = client_of_a_real_run
    card = client.json("/api/map?run=real")["card"]
    assert card["heading"] == "Map of the inputs"
    rows = [row for trace in card["figure"]["data"] if trace["name"] != "test" for row in trace["customdata"]]
    assert sorted(rows) == list(range(12))
    tag = client.send("/api/map?run=real").headers["ETag"]
    assert client.send("/api/map?run=real", If_None_Match=tag).status == 304
    made_run(tmp_path / "runs" / "made", levels=(0,))
    assert client.json("/api/map?run=made") == {"card": None}


@pytest.fixture
def client_of_a_real_run(tmp_path, tmp_path_factory, serve):
    shutil.copytree(real_run(tmp_path_factory), tmp_path / "runs" / "real")
    return Client(serve(tmp_path / "runs")), RunReader(tmp_path / "runs" / "real")
