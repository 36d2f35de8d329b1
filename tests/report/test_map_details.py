"""The map of a real run: every candidate once, the chosen ones where and when they were chosen."""

import re
import shutil

import numpy as np
import pytest

from mrafno.plot import run_inputs as maps
from mrafno.plot.run_inputs import input_map, map_figure
from mrafno.report import map_details
from mrafno.report.map_details import map_section
from mrafno.run import Run, RunReader
from mrafno.tasks import FunctionTask
from tests.made_runs import made_run, real_run
from tests.runs import SETTINGS


@pytest.fixture
def reader(tmp_path_factory):
    return RunReader(real_run(tmp_path_factory))


def test_inputs_are_those_of_the_run(reader, tmp_path_factory):
    with Run.open(real_run(tmp_path_factory), write=False) as run:
        assert np.array_equal(reader.inputs.pool, run.inputs.pool)
        assert np.array_equal(reader.inputs.test, run.inputs.test)


def test_every_candidate_is_on_the_map_once(reader):
    found = input_map(reader)
    assert found.rows == tuple(range(12))
    assert found.tests == tuple(q.id for q in reader.state.of_kind("test"))
    assert found.places["features"].shape == (16, 2)
    assert (found.uncertainty > 0).all()
    f, y = reader.tests()
    assert found.test_errors == pytest.approx(reader.errors(reader.predict(f, 1).mean, y))
    figure = map_figure(reader, found)
    rows = [row for trace in figure.data if trace.name != "test" for row in trace.customdata]
    assert sorted(rows) == list(range(12))
    chosen = {q.row: q.level for q in reader.state.of_kind("pool")}
    for trace in figure.data:
        if trace.name.startswith("on "):
            level = reader.meshes.index(trace.name.removeprefix("on "))
            assert dict.fromkeys(trace.customdata, level).items() <= chosen.items()
    heading, text, content = map_section(reader)
    assert heading == "Map of the inputs"
    assert "12 candidates, of which 4 were chosen" in text
    details = content.contents[1].markup
    assert sorted(map(int, re.findall(r'data-point="(\d+)"', details))) == list(range(12))
    first = reader.state.of_kind("pool")[-1]
    assert details.index(f'<option value="{first.row}">') < details.index("not chosen")
    assert f"candidate {first.row}, step 4" in details


def test_pictures_take_a_limited_number_of_bytes(reader, monkeypatch):
    monkeypatch.setattr(map_details, "_BYTES", 20_000)
    details = map_section(reader)[2].contents[1].markup
    assert 1 <= len(re.findall("<template", details)) < 12
    assert len(details) < 25_000


def test_of_a_large_pool_the_chosen_ones_are_shown(reader, monkeypatch):
    monkeypatch.setattr(maps, "CANDIDATES", 6)
    found = input_map(reader)
    assert len(found.rows) == 6
    assert {q.row for q in reader.state.of_kind("pool")} <= set(found.rows)
    assert "6 of 12 candidates" in maps.describe(reader, found)


def test_parameters_are_axes(tmp_path):
    values = np.random.default_rng(0).uniform(size=(30, 2))
    x = np.linspace(0, 1, 17)
    task = FunctionTask(
        lambda f, level, p: p[0] * f, np.sin(np.outer(values[:, 0], x)), ((9,), (17,)), (1.0, 5.0),
        parameters={"a": values[:, 0], "b": values[:, 1]},
    )  # fmt: skip
    with Run.create(tmp_path / "run", task, **SETTINGS) as run:
        run.advance(steps=2)
    found = input_map(RunReader(tmp_path / "run"))
    assert list(found.titles) == ["features", "a and b"]
    a, b = found.places["a and b"].T
    pool = np.asarray(RunReader(tmp_path / "run").inputs.pool)
    assert np.allclose(a[: len(pool)], pool[:, 1, 0])
    assert np.allclose(b[: len(pool)], pool[:, 2, 0])


def test_without_a_checkpoint_there_is_no_map(tmp_path, tmp_path_factory):
    assert map_section(RunReader(made_run(tmp_path / "made", levels=(0,)))) is None
    shutil.copytree(real_run(tmp_path_factory), tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "surrogate")
    assert map_section(RunReader(tmp_path / "run")) is None
