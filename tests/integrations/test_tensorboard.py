"""What a run logs is what TensorBoard's own reader finds."""

import os
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mrafno.errors import MrafnoError
from mrafno.integrations import TensorBoardCallback
from tests.integrations.scripted import BY_COST, OUTCOMES, SERIES, ScriptedRun


def read(folder):
    """Scalars as (step, value) and texts as (step, text), by name."""
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    scalars = {name: [(e.step, e.value) for e in found.Scalars(name)] for name in found.Tags()["scalars"]}
    texts = {
        name.removesuffix("/text_summary"): [
            (e.step, e.tensor_proto.string_val[0].decode()) for e in found.Tensors(name)
        ]
        for name in found.Tags()["tensors"]
    }
    return scalars, texts


def test_a_resumed_run_continues_the_series(tmp_path):
    run = ScriptedRun(tmp_path / "run")
    run.advance(TensorBoardCallback(tmp_path / "logs"), 1, 2)
    run.reopened().advance(TensorBoardCallback(tmp_path / "logs"), 3)
    scalars, texts = read(tmp_path / "logs")
    assert scalars == {**SERIES, **BY_COST, **OUTCOMES}
    assert texts["failure"] == [(1, "q000001: no convergence")]
    assert texts["outcome/reason"] == [(2, "finished 2 steps"), (3, "finished 3 steps")]
    [(step, table)] = texts["parameters"]
    assert step == 0
    lines = table.splitlines()
    assert lines[:2] == ["| parameter | value |", "|---|---|"]
    assert {"| method | mra-auto |", "| seed | 7 |", "| settings/initial | 3 |", "| task/name | made |"} <= set(lines)


def test_one_callback_serves_several_advances(tmp_path):
    run, callback = ScriptedRun(tmp_path / "run"), TensorBoardCallback(tmp_path / "logs")
    run.advance(callback, 1, 2)
    run.advance(callback, 3)
    assert read(tmp_path / "logs")[0] == {**SERIES, **BY_COST, **OUTCOMES}


def test_what_was_logged_survives_the_death_of_the_process(tmp_path):
    run = ScriptedRun(tmp_path / "run")
    if (child := os.fork()) == 0:
        try:
            callback = TensorBoardCallback()
            sys.setswitchinterval(60)  # the writer's thread runs only while somebody waits for it
            run.tell(callback, run.ask(callback, 1))
            run.learn(callback, 1)
        finally:
            os._exit(0)  # as if it had been killed: nothing is closed
    os.waitpid(child, 0)
    found = read(run.path / "tensorboard")[0]
    assert found["chosen/cost"] == [(1, 1.0)]
    assert found["by_cost/relative_l2"] == [(1, 0.25)]


def test_the_axis_of_costs_can_be_finer(tmp_path):
    ScriptedRun(tmp_path / "run").advance(TensorBoardCallback(tmp_path / "logs", cost_unit=0.25), 1, 2)
    assert read(tmp_path / "logs")[0]["by_cost/relative_l2"] == [(4, 0.25), (44, 0.125)]


@pytest.mark.parametrize("unit", [0.0, -1.0, float("nan")])
def test_a_cost_unit_is_positive(unit):
    with pytest.raises(MrafnoError, match="cost_unit must be a positive number"):
        TensorBoardCallback("logs", cost_unit=unit)


def test_a_missing_package_gives_advice(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MrafnoError, match=r"tensorboard cannot be imported .*pip install tensorboard"):
        TensorBoardCallback("logs")
