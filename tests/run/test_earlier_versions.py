"""Run directories that earlier versions wrote: they open, show, measure, resume and report as they did."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mrafno.cli import app
from mrafno.run import Run

DATA = Path(__file__).parents[1] / "data"
RUNS = [DATA / version / name for version in ("v0.1", "v0.2") for name in ("burgers", "own")]


def task_of(original):
    """The task of a run; None for a built-in one, which the run makes by itself."""
    if original.name == "burgers":
        return None
    spec = importlib.util.spec_from_file_location("earlier_simulator", original.with_name("simulator.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.task


def printed(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(params=RUNS, ids=lambda folder: "-".join(folder.parts[-2:]))
def earlier(request, tmp_path):
    """The folder of a run, and a copy of it that may be written."""
    return request.param, Path(shutil.copytree(request.param, tmp_path / request.param.name))


def test_show_prints_what_it_printed(earlier):
    original, folder = earlier
    now, then = (
        json.loads(text) for text in (printed("show", folder, "--json"), original.with_suffix(".show.json").read_text())
    )
    # Settings may have been added or renamed since; the values of the others are as they were.
    settings = {key: value for key, value in then.pop("settings").items() if key in now["settings"]}
    assert {key: now["settings"][key] for key in settings} == settings
    for name in ("steps", "failed"):  # entries may have more keys
        now[name] = [{key: new[key] for key in old} for new, old in zip(now[name], then[name], strict=True)]
    assert {key: now[key] for key in then} == then


def test_compare_prints_what_it_printed(earlier):
    original, folder = earlier
    [now], [then] = (
        json.loads(text)["runs"]
        for text in (
            printed("compare", folder, "--json", "--count", "chosen"),
            original.with_suffix(".compare.json").read_text(),
        )
    )
    assert now["error"] == then["error"]
    assert now["accumulated_cost"] == then["accumulated_cost"]


def test_the_surrogate_has_the_error_that_was_measured(earlier):
    original, folder = earlier
    with Run.open(folder, task_of(original), write=False) as run:
        last = run.state.evaluations[-1]
        assert run.metrics(run.surrogate).relative_l2 == pytest.approx(last.metrics["relative_l2"], rel=1e-4)


def test_it_goes_on(earlier):
    original, folder = earlier
    with Run.open(folder, task_of(original)) as run:
        before = run.state.step
        queries = list(run.state.queries)
        run.advance(total_steps=before + 2)
        assert run.state.step == before + 2
        assert list(run.state.queries)[: len(queries)] == queries
        assert run.state.evaluations[-1].step == before + 2


def test_it_is_trained_again_from_its_ledger_without_a_checkpoint(earlier):
    original, folder = earlier
    shutil.rmtree(folder / "surrogate")
    with Run.open(folder, task_of(original)) as run:
        assert run.surrogate.fits == len(run.state.trainings)
        error = run.metrics(run.surrogate).relative_l2
    assert error < 2 * run.state.evaluations[-1].metrics["relative_l2"]


def test_a_report_can_be_written(earlier, tmp_path):
    _, folder = earlier
    printed("report", folder, "--out", tmp_path / "report.html")
    assert "relative L2" in (tmp_path / "report.html").read_text()
