"""Measured costs: kept, and beside the paper's."""

import json

import pytest

from mrafno.studies import costs
from mrafno.studies.costs import costs_study, measure
from mrafno.tasks import get_task
from mrafno.tasks.costs import MeasuredCosts


@pytest.fixture
def measured(monkeypatch):
    """Measurements that take no time: the finest mesh costs 40 times more, and 2 more with every seed."""
    calls = []

    def instead(task, f):
        calls.append(len(f))
        finest = 0.04 + 0.002 * (len(calls) - 1)
        return MeasuredCosts((0.001, *[0.02] * (task.levels - 2), finest), (0.05,) * task.levels, len(f), 1)

    monkeypatch.setattr(costs, "measure_costs", instead)
    return calls


def test_report(tmp_path, measured, capsys):
    for _ in range(2):
        costs_study(["burgers", "darcy3"], tmp_path, solves=3, seeds=2, note="A quiet machine.")
    assert measured == [3] * 4  # nothing is measured twice
    assert "41.0 ± 1.4" in capsys.readouterr().out
    told = json.loads((tmp_path / "costs.json").read_text())
    assert told["tasks"]["burgers"]["published"] == [1.0, 41.2]
    assert told["tasks"]["burgers"]["ratios"][1]["mean"] == pytest.approx(41)
    assert "A quiet machine." in (tmp_path / "costs.html").read_text(encoding="utf-8")


def test_another_solver_is_measured_again(tmp_path, measured):
    measure(get_task("burgers"), 2, 0, tmp_path)
    measure(get_task("burgers", resolutions=((9,), (17,))), 2, 0, tmp_path)
    assert len(measured) == 2
