"""All readers of a run show the same error against cost, also where a step was measured twice or not finitely."""

import io
import json

import pytest
from typer.testing import CliRunner

from mrafno.analysis.curves import Curve
from mrafno.cli import app
from mrafno.cli.display import JsonDisplay, LineDisplay, Snapshot
from mrafno.dashboard.views import figures, overview, row
from mrafno.report.comparison import comparison
from mrafno.report.page import figure_sections, summary
from mrafno.run.reader import RunReader
from mrafno.run.settings import RunSettings
from mrafno.studies.active import Job, Result
from mrafno.studies.curves import as_json, compare
from mrafno.studies.runner import RunProgress
from tests.made_runs import made_run

#: Levels cost 1 and 10. Step 2 is measured twice, step 4 with an error that is not finite, step 8 twice.
LEVELS = (0, 1, 0, 0, 1, 0, 0, 0)
ERRORS = (0.8, 0.6, None, 0.3, 0.2)
REPEATED = ((2, 0.5), (8, 0.25))
CHOSEN = Curve(costs=(0.0, 11.0, 24.0, 26.0), errors=(0.8, 0.5, 0.3, 0.25))
#: Four initial and two test examples, each at a cost of 1, come before all choices.
EXPECTED = Curve(costs=(6.0, 17.0, 30.0, 32.0), errors=CHOSEN.errors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("curve") / "run", levels=LEVELS, errors=ERRORS, repeated=REPEATED)


@pytest.fixture(scope="module")
def reader(folder):
    return RunReader(folder)


def printed(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_state(reader):
    assert len(reader.state.evaluations) == 7
    assert reader.state.error_curve() == EXPECTED
    assert reader.state.error_curve("chosen") == CHOSEN
    assert reader.state.error_curve("training") == Curve((4.0, 15.0, 28.0, 30.0), CHOSEN.errors)


def test_a_step_whose_last_measurement_is_not_finite_has_no_point(tmp_path):
    folder = made_run(tmp_path / "run", levels=(0, 0), errors=(0.8, 0.6), repeated=((2, None),))
    assert RunReader(folder).state.error_curve() == Curve((6.0,), (0.8,))
    folder = made_run(tmp_path / "nothing", levels=(0, 0), errors=(None, None))
    assert RunReader(folder).state.error_curve() is None


def test_show_json(folder):
    shown = printed("show", folder, "--json")
    points = [(0.0, shown["initial_metrics"]), *((s["accumulated_cost"], s["metrics"]) for s in shown["steps"])]
    finite = [(cost, m["relative_l2"]) for cost, m in points if m is not None and m["relative_l2"] is not None]
    assert Curve(*zip(*finite, strict=True)) == CHOSEN
    totals = {step["accumulated_cost"]: step["total_cost"] for step in shown["steps"]} | {
        0.0: shown["initial_total_cost"]
    }
    assert [totals[cost] for cost in CHOSEN.costs] == list(EXPECTED.costs)


def test_compare_json(folder):
    wanted = [f"{error:g}" for error in EXPECTED.errors]
    [found] = printed("compare", folder, "--errors", ",".join(wanted), "--json")["runs"]
    assert found["error"] == EXPECTED.errors[-1]
    assert [found["reached"][error] for error in wanted] == pytest.approx(EXPECTED.costs)
    [found] = printed("compare", folder, "--errors", ",".join(wanted), "--json", "--count", "chosen")["runs"]
    assert [found["reached"][error] for error in wanted] == pytest.approx(CHOSEN.costs)


def test_report(folder, reader):
    figure = next(content for heading, _, content in figure_sections(reader) if heading == "Error against cost")
    assert Curve(figure.data[0].x, figure.data[0].y) == EXPECTED
    assert "Relative L2 error 0.25, measured after step 8." in summary(reader)
    chosen = RunReader(folder, count="chosen")
    figure = next(content for heading, _, content in figure_sections(chosen) if heading == "Error against cost")
    assert Curve(figure.data[0].x, figure.data[0].y) == CHOSEN
    _, _, sections = comparison([reader, reader])
    assert "0.25 (step 8)" in {cell for _, _, cells in sections if isinstance(cells, list) for cell in cells[-1]}


def test_dashboard(reader):
    figure = next(one["figure"] for one in figures(reader) if one["heading"] == "Error against cost")
    assert Curve(tuple(figure["data"][0]["x"]), tuple(figure["data"][0]["y"])) == EXPECTED
    assert row("run", reader)["error"] == EXPECTED.errors[-1]
    assert overview("run", reader)["measured"] == 8


def test_studies(folder, reader):
    result = Result(Job.of("burgers", "mra-uhat", 0, RunSettings()), folder, reader.state)
    results = {"mra-uhat": [result]}
    comparison = compare(results)
    [run] = as_json(comparison, results)["runs"]
    assert result.curve == run["curve"] == comparison.means["mra-uhat"].curve == CHOSEN
    assert (comparison.rows[0].error.mean, comparison.rows[0].cost.mean) == (0.25, 26.0)
    assert RunProgress.of(reader.state, "ended").error == EXPECTED.errors[-1]


def test_displays(reader):
    now = Snapshot.of(reader.state)
    assert (now.error, now.measured, now.spent.total) == (EXPECTED.errors[-1], 8, EXPECTED.costs[-1])
    lines, objects = io.StringIO(), io.StringIO()
    LineDisplay(reader, {}, lines)._print()
    assert "cost 32; error 0.25" in lines.getvalue()
    LineDisplay(reader, {}, lines, "chosen")._print()
    assert "cost 26; error 0.25" in lines.getvalue()
    JsonDisplay(reader, {}, objects).finish("done", "finished 8 steps")
    found = json.loads(objects.getvalue())
    assert (found["metrics"]["relative_l2"], found["measured_at_step"]) == (0.25, 8)
    assert found["accumulated_cost"] == CHOSEN.costs[-1]
    assert found["spent"]["total"] == EXPECTED.costs[-1]
