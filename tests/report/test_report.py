"""A report says what a ledger says, whatever state the run is in, and needs nothing but itself."""

import importlib.util
import re
import shutil

import plotly.graph_objects as go
import pytest

from mrafno.errors import LedgerError, MrafnoError
from mrafno.report import write_report
from mrafno.report.comparison import comparison, grouped
from mrafno.report.images import write_images
from mrafno.report.page import run_page, seconds, summary
from mrafno.run import Run
from mrafno.run.reader import RunReader
from mrafno.storage.ledger import Ledger
from mrafno.tasks import get_task
from tests.made_runs import made_run, made_task, real_run
from tests.runs import create


def page_of(*folders, **options):
    out = folders[0].parent / "new folder" / "report.html"
    write_report(folders, out, **options)
    return out.read_text(encoding="utf-8")


def sections_of(folder):
    return {heading: (text, content) for heading, text, content in run_page(RunReader(folder))[2]}


def cells(table):
    return {row[0]: dict(zip(table[0], row, strict=True)) for row in table[1:]}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Four choices at 1, 10, 1 and 1, measured after every second."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    return made_run(folder, levels=(0, 1, 0, 0), errors=(0.4, 0.2, 0.1), stopped="finished 4 steps")


@pytest.fixture
def copy(run, tmp_path):
    """Of the same, to be damaged."""
    return shutil.copytree(run, tmp_path / "run")


@pytest.fixture(scope="module")
def page(run):
    return page_of(run)


def test_a_page_is_self_contained(page):
    assert re.search(r"<script[^>]+src=|<link[^>]+href=|@import|<img[^>]+src=\"(?!data:)", page) is None
    assert page.count("<!DOCTYPE html>") == 1
    # Plotly itself comes once, though there are several figures.
    assert page.count("plotly.js v") <= 1
    assert len(re.findall(r"Plotly\.newPlot\(\s*\"", page)) >= 6


def test_headings_can_be_linked_to(page):
    names = re.findall(r'<section id="([^"]+)"><h2>[^<]+<a href="#([^"]+)"', page)
    assert all(name == target for name, target in names)
    assert len({name for name, _ in names}) == len(names) >= 10
    assert "error-against-cost" in dict(names)


def test_numbers_are_those_of_the_ledger(run):
    reader = RunReader(run)
    assert reader.state.error_curve().costs == (0.0, 11.0, 13.0)
    assert reader.state.error_curve().errors == (0.4, 0.2, 0.1)
    spent, silent = seconds(reader)
    assert spent == {
        "simulation (chosen)": pytest.approx(0.4), "simulation (others)": 0.0, "training": 10.0, "choosing": 1.0,
        "evaluating": 1.5,
    }  # fmt: skip
    assert silent == 6
    assert "4 steps, accumulated cost 13 (one coarsest solve = 1)." in summary(reader)
    assert "Relative L2 error 0.1, measured after step 4. State: finished 4 steps." in summary(reader)


def test_sections_of_a_run(run):
    sections = sections_of(run)
    assert sections["Error against cost"][1].data[0].y == (0.4, 0.2, 0.1)
    assert [t.y for t in sections["Queries per resolution"][1].data] == [(0, 1, 1, 2, 3), (0, 0, 1, 1, 1)]
    # The schedule begins with equal weights, at the first step.
    assert [t.y[0] for t in sections["Cost schedule"][1].data] == pytest.approx([0.5, 0.5])
    assert sections["Utilities"][1].data[0].y == (1.0, 1 / 2, 1 / 3, 1 / 4)
    assert "largest per scheduled cost" in sections["Utilities"][0]
    assert sections["Calibration"][1].data[1].y == (0.4, 0.8)
    assert sections["Coverage of 90 % intervals"][1].data[0].y == (0.8, 0.8, 0.8)
    rows = cells(sections["Last queries"][1])
    assert list(rows) == ["4", "3", "2", "1"]
    assert rows["2"]["error before learning"] == "0.25"
    assert (rows["2"]["mesh"], rows["2"]["cost"]) == ("9 points", "10")
    assert rows["2"]["prediction now"] == "no checkpoint"
    assert "polyline" in rows["2"]["truth"].markup
    assert sections["Failures"] == ("Every simulation that ended gave an output.", None)
    assert "no checkpoint" in sections["Test inputs"][0]


@pytest.mark.parametrize(
    ("method", "schedule", "utilities"),
    [
        ("random-mix", None, "scores mean nothing"),
        ("coreset-high", None, "the largest was chosen"),
        ("mra-auto", None, "first settles on a mesh"),
        ("mr-predvar", "exp with rate 0.01", "per scheduled cost"),
    ],
)
def test_what_methods_do_not_have_is_left_out_or_said(tmp_path, method, schedule, utilities):
    sections = sections_of(made_run(tmp_path / "run", method=method, levels=(1, 1, 0)))
    assert ("Cost schedule" in sections) == (schedule is not None)
    assert schedule is None or schedule in sections["Cost schedule"][0]
    assert utilities in sections["Utilities"][0]
    assert (sections["Utilities"][1] is None) == (method == "random-mix")


def test_a_run_that_has_not_chosen_yet(tmp_path):
    page = page_of(made_run(tmp_path / "run", running=True))
    assert "0 steps, accumulated cost 0" in page
    assert "No error has been measured." in page
    assert "State: waiting for answers. 1 query asked, not answered. Last event" in page
    assert "Nothing has been measured yet." in page


def test_a_run_says_whether_anybody_drives_it(tmp_path):
    folder = made_run(tmp_path / "run", running=True)
    with Ledger.open(folder, write=True) as ledger:
        assert "State: running. 1 query running. Last event" in summary(RunReader(folder))
        ledger.append("stopped", reason="5 simulations failed. Mend the simulator and resume.")
    said = summary(RunReader(folder))
    assert "State: 5 simulations failed. Mend the simulator and resume. 1 query asked, not answered. Last" in said


def test_the_pool_is_what_there_is(tmp_path):
    with create(tmp_path / "run", pool=990) as run:
        left = len(run.inputs.pool)
    settings = dict(sections_of(tmp_path / "run")["Settings"][1])
    assert settings["pool"] == f"{left}, all that the task has left (of 990 at most)"
    with create(tmp_path / "few", pool=4):
        pass
    assert dict(sections_of(tmp_path / "few")["Settings"][1])["pool"] == "4"


def test_a_run_that_has_only_begun(tmp_path):
    with Run.create(tmp_path / "run", get_task("darcy", resolutions=((4, 4), (8, 8))), pool=3, test=0):
        pass
    page = page_of(tmp_path / "run")
    assert "The run has no test examples" in page
    assert "No example has been chosen yet." in page


def test_failures_are_told(tmp_path):
    folder = made_run(tmp_path / "run", levels=(0, 1), failures=("it <b>fell</b> over",), running=True)
    page = page_of(folder)
    assert "1 simulation gave nothing." in page
    assert "it &lt;b&gt;fell&lt;/b&gt; over" in page
    assert "fell</b>" not in page
    # A choice that failed was made anew: it is not shown twice.
    assert list(cells(sections_of(folder)["Last queries"][1])) == ["3", "2", "1"]


def test_text_of_a_ledger_cannot_become_markup(tmp_path):
    task = made_task("<script>alert(1)</script>")
    task.axis_names = ("<script>alert(2)</script>", "y")
    first = made_run(
        tmp_path / "<i>1", task=task, levels=(0, 0), errors=(0.4, 0.2), stopped="<script>alert(3)</script>"
    )
    second = made_run(tmp_path / "<i>2", task=task, levels=(0, 0), errors=(0.4, 0.2), seed=1)
    for page in (page_of(first), page_of(first, second)):
        assert "alert(1)" in page
        assert not re.search(r"<script>alert|<i>\d", page)


def test_an_array_that_is_damaged_leaves_the_rest_readable(copy):
    query = RunReader(copy).state.of_kind("pool")[-1]
    (copy / query.output.file).write_bytes(b"")
    rows = cells(sections_of(copy)["Last queries"][1])
    assert "q000009-output.npy" in rows["4"]["input"].markup
    assert "polyline" in rows["3"]["input"].markup


def test_costs_in_a_persons_own_unit(tmp_path):
    folder = made_run(tmp_path / "run", task=made_task(costs=(0.25, 3.0)), levels=(1,), errors=(0.4,))
    assert "accumulated cost 3 (in the task's unit; one coarsest solve = 0.25)" in summary(RunReader(folder))


def test_predictions_of_a_real_run(tmp_path_factory):
    real = real_run(tmp_path_factory)
    sections = sections_of(real)
    fits = len(RunReader(real).state.trainings)
    assert f"after fit {fits} of {fits}" in sections["Last queries"][0]
    row = cells(sections["Last queries"][1])["4"]
    assert all("data:image/png" in row[name].markup for name in ("input", "truth", "prediction now", "spread now"))
    errors = []
    for name in ("smallest", "median", "largest"):
        text, figure = sections[f"Test input with the {name} error"]
        assert [trace.z.shape for trace in figure.data] == [(8, 8)] * 5
        errors.append(float(re.search("error ([0-9.]+):", text)[1]))
    assert errors == sorted(errors)


# Several runs.


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two methods, the dear one with two seeds, each error an exact power, so that crossings are known."""
    folder = tmp_path_factory.mktemp("runs")
    return [
        made_run(folder / "a", method="mra-uhat", levels=(0,) * 4, errors=(0.4, 0.2, 0.1)),
        made_run(folder / "b", method="random-high", levels=(1,) * 4, errors=(0.4, 0.2, 0.1)),
        made_run(folder / "c", method="random-high", levels=(1,) * 4, errors=(0.4, 0.4, 0.2), seed=1),
    ]


def test_runs_are_compared(runs):
    title, lead, sections = comparison([RunReader(folder) for folder in runs], errors=(0.2, 0.1))
    assert (title, lead[:16]) == ("Runs compared", "3 runs of made. ")
    found = {heading: content for heading, _, content in sections}
    lines = {trace.name: trace for trace in found["made: error against cost"].data if trace.name}
    assert list(lines) == ["mra-uhat (1 run)", "random-high (2 runs)"]
    assert lines["random-high (2 runs)"].x == (0.0, 20.0, 40.0)
    assert lines["random-high (2 runs)"].y == pytest.approx((0.4, 0.08**0.5, 0.02**0.5))
    rows = cells(found["made: cost to reach an error"])
    assert (rows["mra-uhat"]["error 0.2"], rows["mra-uhat"]["error 0.1"]) == ("2", "4")
    assert rows["random-high"]["error 0.2"] == "30 (20 to 40)"
    assert rows["random-high"]["error 0.1"] == "not reached (1 of 2 runs)"
    # The mean of an exponential that halves every two, up to four.
    assert rows["mra-uhat"]["mean error up to cost 4"] == "0.2164"
    assert [trace.x for trace in found["made: queries per resolution"].data] == [(4.0, 0.0), (0.0, 4.0)]
    assert len(found["made: the runs"]) == 4


def test_errors_to_reach_are_chosen(runs):
    _, _, sections = comparison([RunReader(folder) for folder in runs])
    (table,) = (content for heading, _, content in sections if "cost to reach" in heading)
    assert table[0][1:-1] == ["error 0.3", "error 0.2", "error 0.15", "error 0.1"]


def test_runs_with_different_settings_are_not_mixed(tmp_path):
    made = [
        made_run(tmp_path / str(i), seed=i, alpha=alpha, evaluate=1 + i, levels=(0,))
        for i, alpha in enumerate((0.1, 0.1, 0.5))
    ]
    groups = grouped([RunReader(folder) for folder in made])
    assert [(group.label, len(group.runs)) for group in groups] == [
        ("mra-uhat, alpha 0.1", 2),
        ("mra-uhat, alpha 0.5", 1),
    ]


def test_tasks_have_sections_of_their_own(tmp_path, runs):
    other = made_run(tmp_path / "d", task=made_task("other", dim=2), levels=(0,), test=0)
    same_name = made_run(tmp_path / "e", task=made_task(dim=2), levels=(0, 0), errors=(0.4, 0.3))
    page = page_of(*runs, other, same_name)
    assert 'id="made-5-points-9-points-error-against-cost"' in page
    assert 'id="made-4x4-8x8-error-against-cost"' in page
    assert "other: error against cost" in page
    assert "No error of these runs has been measured." in page


def test_a_run_that_has_just_begun_does_not_cut_the_others(tmp_path, runs):
    new = made_run(tmp_path / "new", method="random-high", seed=2, errors=(0.5,))
    _, _, sections = comparison([RunReader(folder) for folder in [*runs, new]])
    assert sections[0][2].data[-1].x == (0.0, 20.0, 40.0)
    assert any(row[0] == str(new) for row in sections[3][2])


def test_the_same_folder_twice_is_one_run(run):
    assert "<h1>made: mra-uhat, seed 0</h1>" in page_of(run, run)


def test_what_cannot_be_reported(run, tmp_path):
    with pytest.raises(MrafnoError, match="no run was given"):
        write_report([], tmp_path / "x.html")
    with pytest.raises(MrafnoError, match="is a folder"):
        write_report([run], tmp_path)
    with pytest.raises(LedgerError, match="missing"):
        write_report([tmp_path / "nothing"], tmp_path / "x.html")
    with pytest.raises(MrafnoError, match="unknown format 'gif'"):
        write_report([run], tmp_path / "x.html", images=tmp_path, formats=("gif",))


def test_damaged_lines_are_an_error_that_names_them(copy, tmp_path):
    path = copy / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"step":2', b'"step":3', 1))
    with pytest.raises(LedgerError, match=r"line \d+ is damaged"):
        write_report([copy], tmp_path / "x.html")


def test_a_ledger_that_is_being_written_can_be_reported(copy):
    with Ledger.open(copy, write=True):
        assert "4 steps" in page_of(copy)


# Images.


def test_without_kaleido_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MrafnoError, match=r"pip install 'mrafno\[images\]'"):
        write_images(tmp_path, [("One", "", go.Figure())])


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("kaleido") is None, reason="kaleido is not installed")
@pytest.mark.skipif(not (shutil.which("chromium") or shutil.which("google-chrome")), reason="there is no browser")
def test_every_figure_as_a_file(runs, tmp_path):
    write_report(runs, tmp_path / "x.html", images=tmp_path / "images", formats=("svg", "png"))
    files = sorted(path.name for path in (tmp_path / "images").iterdir())
    names = ("made-error-against-cost", "made-queries-per-resolution")
    assert files == sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))
    picture = (tmp_path / "images" / "made-error-against-cost.svg").read_text()
    assert "relative L2 error" in picture
    assert "logarithmic cost" not in picture  # a button
    assert (tmp_path / "images" / f"{names[0]}.png").read_bytes()[:4] == b"\x89PNG"
