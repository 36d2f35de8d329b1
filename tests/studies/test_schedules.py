"""The study of cost schedules."""

import json

import pytest

from mrafno.errors import MrafnoError
from mrafno.studies.schedules import schedule_entries, schedules_study, weights_figure
from mrafno.tasks import get_task
from tests.studies.tiny import tiny_study


def test_weights_of_schedules():
    """They begin equal, at the first step, and end at the true shares."""
    figure = weights_figure(get_task("burgers"), "exp", [0.01, 1.0], 1000, ["33", "129"])
    coarse, fine = (trace for trace in figure.data if trace.name == "0.01")
    assert coarse.x[0] == 1
    assert (coarse.y[0], fine.y[0]) == pytest.approx((0.5, 0.5))
    assert fine.y[-1] == pytest.approx(41.2 / 42.2, abs=1e-3)


def test_a_method_without_a_schedule_is_an_error():
    assert len(schedule_entries("mra-u", [0.1, 0.2, 0.1])) == 4
    with pytest.raises(MrafnoError, match="random-low has no cost schedule"):
        schedule_entries("random-low", [0.1])


def test_schedules(out, capsys):
    schedules_study(tiny_study("schedules", out, seeds=1), "mra-uhat", [0.01])
    assert "sigmoid 0.01" in capsys.readouterr().out
    told = json.loads((out / "schedules.json").read_text())
    assert [row["label"] for row in told["methods"]] == ["exp 0.01", "sigmoid 0.01"]
    # The first is the run of the curves.
    assert len(list((out / "runs").glob("burgers-mra-uhat-*-seed0"))) == 2
    assert "The schedule: sigmoid" in (out / "schedules.html").read_text(encoding="utf-8")
