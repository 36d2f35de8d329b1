"""What the studies say about runs: known curves and counts, then whole studies of tiny runs."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from mrafno.analysis.curves import Curve
from mrafno.errors import MrafnoError
from mrafno.plot.style import method_styles
from mrafno.studies import runner as doing
from mrafno.studies.active import results
from mrafno.studies.commands import register
from mrafno.studies.curves import area_costs, compare, pair, saving
from mrafno.studies.curves_report import curves_study, end_cells, entries, mean_figure, pair_cells, reach_cells
from mrafno.studies.pointwise import pointwise_study
from mrafno.studies.queries import queries_study, stage_bounds, stage_cells, stage_counts
from mrafno.studies.schedules import schedule_entries, schedules_study, weights_figure
from mrafno.studies.summary import Spread
from mrafno.tasks import get_task
from tests.studies.tiny import made_result, tiny_setup, tiny_study


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path_factory.getbasetemp() / "studies-cache"))


# Known answers.


def test_spread():
    assert Spread.of([1.0, 2.0, 4.0]) == Spread(pytest.approx(7 / 3), pytest.approx(np.std([1, 2, 4], ddof=1)), 3)
    assert Spread.of([2.0]) == Spread(2.0, None, 1)


def test_a_pair_is_compared_over_the_last_two_thirds_of_what_both_have():
    """Straight lines of log error that cross at 60; of the costs from 30 to 90 the second half is ours."""
    ours = Curve((0.0, 120.0), (math.exp(1.2), math.exp(-1.2)))
    other = Curve((0.0, 90.0), (1.0, 1.0))
    found = pair("a", "b", ours, other)
    assert (found.first, found.last) == (30.0, 90.0)
    assert found.share == pytest.approx(0.5, abs=1e-3)
    assert found.gain == pytest.approx(1.0)
    assert pair("a", "b", ours, Curve((0.0,), (1.0,))) is None


def test_saving_is_the_part_of_the_reference_cost():
    reference = Curve((0.0, 100.0), (1.0, 0.1))
    assert saving(Curve((0.0, 40.0), (1.0, 0.01)), reference) == pytest.approx(0.2)
    assert saving(Curve((0.0, 40.0), (1.0, 0.2)), reference) is None


def test_areas_reach_what_all_half_and_two_have():
    curves = [Curve((0.0, end), (1.0, 0.5)) for end in (10.0, 30.0, 20.0, 90.0, 80.0)]
    assert area_costs(curves) == (10.0, 30.0, 80.0)
    assert area_costs(curves[:1]) == (10.0,)


@pytest.fixture
def made():
    """Two methods with two seeds each; ours ends at half the cost."""
    return {
        "mra-uhat": [
            made_result("mra-uhat", seed, (0.0, 20.0, 50.0), (0.8, 0.2 * (1 + seed), 0.1), (0, 0, 1)) for seed in (0, 1)
        ],
        "random-high": [
            made_result("random-high", seed, (0.0, 50.0, 100.0), (0.8, 0.6, 0.4), (1, 1)) for seed in (0, 1)
        ],
    }


def test_comparison_of_known_curves(made):
    found = compare(made, errors=[0.3, 0.1, 0.5])
    assert found.errors == (0.5, 0.3, 0.1)
    row = found.rows[0]
    assert (row.n, row.steps, row.counts) == (2, (3, 3), (2.0, 1.0))
    assert found.means["mra-uhat"].curve.errors == pytest.approx((0.8, 0.3, 0.1))
    assert found.means["mra-uhat"].lowest.errors == pytest.approx((0.8, 0.2, 0.1))
    (only,) = found.pairs
    assert (only.share, only.last) == (1.0, 50.0)
    (ours,) = found.savings
    # The first seed: from .8 to .2 over 20, .4 is half of the way of the logarithm; the second has .4 at 20.
    assert ours.seeds == pytest.approx((0.1, 0.2))
    assert [reach.cost is None for reach in found.rows[1].reached] == [False, True, True]
    assert reach_cells(found)[2] == ["random-high", "72 ± 0", "-", "-"]
    assert end_cells(found, ["9", "17"])[1] == ["mra-uhat", "2", "3", "0.1000 ± 0.0000", "50 ± 0", "2", "1"]
    assert pair_cells(found, short=True)[1][1].startswith("100 % (")


def test_an_error_that_only_some_reached_says_how_many(made):
    made["mra-uhat"][1] = made_result("mra-uhat", 1, (0.0, 50.0), (0.8, 0.7))
    assert reach_cells(compare(made, errors=[0.2]))[1] == ["mra-uhat", "20 (1 of 2)"]


def test_nothing_to_compare():
    with pytest.raises(MrafnoError, match="nothing to compare"):
        compare({})


def test_a_line_runs_as_interpolated_on_a_logarithmic_axis_too(made):
    means = compare(made).means
    figure = mean_figure(means, method_styles({m: m for m in made}), "burgers")
    line = next(trace for trace in figure.data if trace.name == "random-high" and trace.mode == "lines+markers")
    before = [(x, y) for x, y in zip(line.x, line.y, strict=True) if 0 < x < 50]
    assert len(before) > 10
    for x, y in before:
        assert y == pytest.approx(0.8 * (0.6 / 0.8) ** (x / 50))
    assert 5 < sum(size > 0 for size in line.marker.size) < 20


def test_stages():
    assert stage_bounds(500, 5) == [(1, 100), (101, 200), (201, 300), (301, 400), (401, 500)]
    assert stage_bounds(7, 3) == [(1, 2), (3, 5), (6, 7)]
    assert stage_bounds(2, 5) == [(1, 1), (2, 2)]
    some = [made_result(seed=s, levels=levels) for s, levels in enumerate([(0, 0, 1, 1), (1, 0, 1, 1)])]
    first, second = stage_counts(some, 2, 4)
    assert [count.mean for count in first.counts] == [1.5, 0.5]
    assert [count.mean for count in second.counts] == [0.0, 2.0]
    cells = stage_cells({"random-mix": [first, second]}, ["9", "17"], short=True)
    assert cells == [
        ["method", "mesh", "1 to 2", "3 to 4", "in all"],
        ["random-mix", "9", "1.5", "0.0", "1.5"],
        ["", "17", "0.5", "2.0", "2.5"],
    ]


def test_the_schedules_themselves():
    """They begin equal, at the first step, and end at the true shares."""
    figure = weights_figure(get_task("burgers"), "exp", [0.01, 1.0], 1000, ["33", "129"])
    coarse, fine = (trace for trace in figure.data if trace.name == "0.01")
    assert coarse.x[0] == 1
    assert (coarse.y[0], fine.y[0]) == pytest.approx((0.5, 0.5))
    assert fine.y[-1] == pytest.approx(41.2 / 42.2, abs=1e-3)


def test_schedules_are_of_methods_that_have_one():
    assert len(schedule_entries("mra-u", [0.1, 0.2, 0.1])) == 4
    with pytest.raises(MrafnoError, match="random-low has no cost schedule"):
        schedule_entries("random-low", [0.1])


def test_methods_are_named_once():
    assert len(entries("")) == 11
    assert [entry.label for entry in entries("mra-u, mra-u@0.5")] == ["mra-u", "mra-u@0.5"]
    with pytest.raises(MrafnoError, match="mra-u is named twice"):
        entries("mra-u,mra-u")


# Whole studies.


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder that all studies below share."""
    return tmp_path_factory.mktemp("study")


def test_curves(out, capsys, monkeypatch):
    for _ in range(2):
        curves_study(tiny_study("curves", out), "mra-uhat,random-high")
        said = capsys.readouterr()
        assert "mra-uhat" in said.out
        assert "At equal cost" in said.out
        # The second time there is nothing to do.
        monkeypatch.setattr(doing, "run_job", lambda *_: pytest.fail("run again"))
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


def test_queries(out, capsys):
    queries_study(tiny_study("queries", out), "mra-uhat,random-high", stages=2)
    assert "1 to 2" in capsys.readouterr().out
    told = json.loads((out / "queries.json").read_text())
    assert [[count["mean"] for count in stage["counts"]] for stage in told["stages"]["random-high"]] == [[0, 2], [0, 2]]
    assert "Stage by stage" in (out / "queries.html").read_text(encoding="utf-8")


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
    assert "The publication" in page


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


def test_schedules(out, capsys):
    schedules_study(tiny_study("schedules", out, seeds=1), "mra-uhat", [0.01])
    assert "sigmoid 0.01" in capsys.readouterr().out
    told = json.loads((out / "schedules.json").read_text())
    assert [row["label"] for row in told["methods"]] == ["exp 0.01", "sigmoid 0.01"]
    # The first is the run of the curves.
    assert len(list((out / "runs").glob("burgers-mra-uhat-*-seed0"))) == 2
    assert "The schedule: sigmoid" in (out / "schedules.html").read_text(encoding="utf-8")


def test_a_failed_run_is_told_after_the_page_is_written(tmp_path, monkeypatch, capsys):
    really = doing.run_job

    def sometimes(job, *rest):
        if job.method == "random-low":
            raise MrafnoError("the simulator is broken.")
        return really(job, *rest)

    monkeypatch.setattr(doing, "run_job", sometimes)
    with pytest.raises(MrafnoError, match=r"1 of the runs did not get through.*the simulator is broken"):
        curves_study(tiny_study("curves", tmp_path, seeds=1, steps=2), "random-low,random-high")
    assert (tmp_path / "curves.html").exists()
    with pytest.raises(MrafnoError, match=r"no run of this study.*the simulator is broken"):
        curves_study(tiny_study("curves", tmp_path / "none", seeds=1, steps=2), "random-low")
    assert "FAILED" in capsys.readouterr().err


# The command line.


def call(*arguments):
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, arguments)


def test_commands(tmp_path):
    assert call("--help").output.count("Error") >= 1
    tiny = ["--quick", "--workers", "1", "--seeds", "1", "--steps", "2", "--out", str(tmp_path / "out")]
    for name in ("pool=5", "initial=2", "test=2", "first=5", "iterations=2", "evaluate=2"):
        tiny += ["--setting", name]
    done = call("curves", *tiny, "--methods", "random-low", "--errors", "0.5,0.3")
    assert done.exit_code == 0, done.output
    again = call("queries", *tiny, "--methods", "random-low", "--report")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "out" / "queries.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["curves", "--report", "--out", "nowhere-at-all"], "holds no run"),
        (["curves", "--errors", "small"], "errors are positive numbers"),
        (["curves", "--setting", "colour=3"], "unknown setting 'colour'"),
        (["schedules", "--alphas", "-1"], "alphas are positive numbers"),
        (["costs", "--task", "heat"], "unknown task 'heat'"),
    ],
)
def test_what_makes_no_sense_is_said(arguments, said):
    failed = call(*arguments)
    assert isinstance(failed.exception, MrafnoError)
    assert said in str(failed.exception)
