"""The study of curves: cells, figures and a whole tiny study."""

import json
from dataclasses import asdict

import pytest

from mrafno.errors import MrafnoError
from mrafno.plot.style import method_styles
from mrafno.run.methods import METHODS
from mrafno.studies import runner
from mrafno.studies.active import results
from mrafno.studies.curves import compare
from mrafno.studies.curves_report import curves_study, entries, mean_figure, reach_cells
from tests.studies.tiny import made_result, tiny_setup, tiny_study


def test_cells_count_the_runs_that_reached_an_error(made):
    made["mra-uhat"][1] = made_result("mra-uhat", 1, (0.0, 50.0), (0.8, 0.7))
    assert reach_cells(compare(made, errors=[0.2]))[1] == ["mra-uhat", "20 (1 of 2)"]


def test_lines_follow_the_interpolation_on_a_logarithmic_axis(made):
    means = compare(made).means
    figure = mean_figure(means, method_styles({m: m for m in made}), "burgers")
    line = next(trace for trace in figure.data if trace.name == "random-high" and trace.mode == "lines+markers")
    before = [(x, y) for x, y in zip(line.x, line.y, strict=True) if 0 < x < 50]
    assert len(before) > 10
    for x, y in before:
        assert y == pytest.approx(0.8 * (0.6 / 0.8) ** (x / 50))
    assert 5 < sum(size > 0 for size in line.marker.size) < 20


def test_repeated_methods_are_an_error():
    assert [entry.method for entry in entries("")] == list(METHODS)
    assert [entry.label for entry in entries("mra-u, mra-u@0.5")] == ["mra-u", "mra-u@0.5"]
    with pytest.raises(MrafnoError, match="mra-u is given twice"):
        entries("mra-u,mra-u")


def test_curves(out, capsys, monkeypatch):
    for _ in range(2):
        curves_study(tiny_study("curves", out), "mra-uhat,random-high")
        said = capsys.readouterr()
        assert "mra-uhat" in said.out
        assert "At equal cost" in said.out
        # The second time there is nothing to do.
        monkeypatch.setattr(runner, "run_job", lambda *_: pytest.fail("run again"))
    assert said.err == ""
    told = json.loads((out / "curves.json").read_text())
    assert told["note"] == "Chosen by the author of this test."
    assert [row["label"] for row in told["methods"]] == ["mra-uhat", "random-high"]
    assert [run["seed"] for run in told["runs"]] == [0, 1, 0, 1]
    assert told["unfinished"] == []
    real = results(tiny_setup(), entries("mra-uhat"), out / "runs")["mra-uhat"][1].curve
    assert told["runs"][1]["curve"] == {name: list(values) for name, values in asdict(real).items()}
    page = (out / "curves.html").read_text(encoding="utf-8")
    assert "exp with alpha 0.01. Chosen by the author of this test." in page
    assert "2 runs each" in page
    assert "<script src" not in page
