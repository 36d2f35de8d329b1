"""The study of error fields."""

import json

import numpy as np
import pytest

from mrafno.studies.active import results
from mrafno.studies.curves_report import entries
from mrafno.studies.pointwise import pointwise_study
from tests.studies.tiny import tiny_setup, tiny_study


def test_pointwise(out, capsys):
    pointwise_study(tiny_study("pointwise", out, seeds=1), "mra-uhat,random-high", examples=2)
    assert "input 1" in capsys.readouterr().out
    told = json.loads((out / "pointwise.json").read_text())
    for one, (result,) in zip(
        told["surrogates"], results(tiny_setup(seeds=1), entries("mra-uhat,random-high"), out / "runs").values(),
        strict=True,
    ):  # fmt: skip
        assert (one["step"], one["cost"]) == (4, result.state.cost)
        assert one["relative_l2"] == result.curve.errors[-1]
        assert len(one["shown"]) == 2
    page = (out / "pointwise.html").read_text(encoding="utf-8")
    assert "Test input 1" in page
    assert "The paper" in page


def test_shown_errors_are_those_that_were_measured(out):
    """All test examples, so their mean is the run's own."""
    pointwise_study(tiny_study("pointwise", out, seeds=1), "random-high", examples=4)
    (one,) = json.loads((out / "pointwise.json").read_text())["surrogates"]
    assert np.mean(one["shown"]) == pytest.approx(one["relative_l2"], rel=1e-6)


def test_pointwise_in_two_dimensions(tmp_path, capsys):
    task_settings = {"resolutions": ((4, 4), (8, 8))}
    study = tiny_study("pointwise", tmp_path, task="darcy", task_settings=task_settings, seeds=1, steps=2)
    pointwise_study(study, "random-low,random-high", examples=1)
    assert "heatmap" in (tmp_path / "pointwise.html").read_text(encoding="utf-8")
    assert "input 0" in capsys.readouterr().out
