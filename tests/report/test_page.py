"""The page about one run shows what its ledger says, whatever state the run is in."""

import pytest

from mrafno.report.page import summary
from mrafno.run import Run
from mrafno.run.reader import RunReader
from mrafno.storage.ledger import Ledger
from mrafno.tasks import get_task
from tests.made_runs import made_run, made_task
from tests.report.conftest import cells, page_of, sections_of
from tests.runs import create


def test_numbers_are_those_of_the_ledger(run):
    reader = RunReader(run)
    assert reader.state.error_curve().costs == (6.0, 17.0, 19.0)
    assert reader.state.error_curve().errors == (0.4, 0.2, 0.1)
    spent = reader.seconds
    assert spent == {
        "simulation (chosen)": pytest.approx(0.4), "simulation (others)": 0.0, "training": 10.0, "choosing": 1.0,
        "evaluating": 1.5,
    }  # fmt: skip
    assert "6 simulations without a recorded time" in sections_of(run)["Where the time went"][0]
    assert "4 steps, cost 19 in all: 4 initial, 13 chosen, 2 test (one coarsest solve = 1)." in summary(reader)
    assert "Relative L2 error 0.1, measured after step 4. State: finished 4 steps." in summary(reader)


def test_sections_of_a_run(run):
    sections = sections_of(run)
    assert sections["Error against cost"][1].data[0].y == (0.4, 0.2, 0.1)
    counts = [t.y for t in sections["Meshes"][1].data if t.type == "scatter"]
    assert counts == [(0, 1, 1, 2, 3), (0, 0, 1, 1, 1)]
    # The schedule begins with equal weights, at the first step.
    assert [t.y[0] for t in sections["Cost schedule"][1].data] == pytest.approx([0.5, 0.5])
    assert sections["Utilities"][1].data[0].y == (1.0, 1 / 2, 1 / 3, 1 / 4)
    assert "largest per scheduled cost" in sections["Utilities"][0]
    assert sections["Calibration"][1].data[1].y == (0.4, 0.8)
    assert sections["Coverage of 90 % intervals"][1].data[0].y == (0.8, 0.8, 0.8)
    rows = cells(sections["Last queries"][1])
    assert list(rows) == ["4", "3", "2", "1"]
    assert rows["2"]["error before training"] == "0.25"
    assert (rows["2"]["mesh"], rows["2"]["cost"]) == ("9 points", "10")
    assert rows["2"]["prediction now"] == "no checkpoint"
    assert "polyline" in rows["2"]["truth"].markup
    assert sections["Failures"] == ("Every finished simulation has an output.", None)
    assert "no checkpoint" in sections["Test inputs"][0]


@pytest.mark.parametrize(
    ("method", "schedule", "utilities"),
    [
        ("random-mix", None, "chooses at random: there are no utilities"),
        ("coreset-high", None, "the largest was chosen"),
        ("mra-auto", None, "first chooses a mesh"),
        ("mr-predvar", "exp with rate 0.01", "per scheduled cost"),
    ],
)
def test_sections_depend_on_the_method(tmp_path, method, schedule, utilities):
    sections = sections_of(made_run(tmp_path / "run", method=method, levels=(1, 1, 0)))
    assert ("Cost schedule" in sections) == (schedule is not None)
    assert schedule is None or schedule in sections["Cost schedule"][0]
    assert utilities in sections["Utilities"][0]
    assert (sections["Utilities"][1] is None) == (method == "random-mix")


def test_a_run_without_choices(tmp_path):
    page = page_of(made_run(tmp_path / "run", running=True))
    assert "0 steps, cost 6 in all: 4 initial, 0 chosen, 2 test" in page
    assert "No error has been measured." in page
    assert "State: waiting for answers. 1 query asked, not answered. Last event" in page
    assert "Nothing has been measured yet." in page


def test_the_summary_shows_whether_a_process_advances_the_run(tmp_path):
    folder = made_run(tmp_path / "run", running=True)
    with Ledger.open(folder, write=True) as ledger:
        assert "State: running. 1 query running. Last event" in summary(RunReader(folder))
        ledger.append("stopped", reason="5 simulations failed. Mend the simulator and resume.")
    said = summary(RunReader(folder))
    assert "State: 5 simulations failed. Mend the simulator and resume. 1 query asked, not answered. Last" in said


def test_the_size_of_the_pool(tmp_path):
    with create(tmp_path / "run", pool=990) as run:
        left = len(run.inputs.pool)
    settings = dict(sections_of(tmp_path / "run")["Settings"][1])
    assert settings["pool"] == f"{left}, all that the task has (of at most 990)"
    with create(tmp_path / "few", pool=4):
        pass
    assert dict(sections_of(tmp_path / "few")["Settings"][1])["pool"] == "4"


def test_a_run_without_events(tmp_path):
    with Run.create(tmp_path / "run", get_task("darcy", resolutions=((4, 4), (8, 8))), pool=3, test=0):
        pass
    page = page_of(tmp_path / "run")
    assert "The run has no test examples" in page
    assert "No example has been chosen yet." in page


def test_failures_are_listed(tmp_path):
    folder = made_run(tmp_path / "run", levels=(0, 1), failures=("it <b>fell</b> over",), running=True)
    page = page_of(folder)
    assert "1 simulation without output." in page
    assert "it &lt;b&gt;fell&lt;/b&gt; over" in page
    assert "fell</b>" not in page
    # A choice that failed was replaced: it is shown once.
    assert list(cells(sections_of(folder)["Last queries"][1])) == ["3", "2", "1"]


def test_costs_in_the_unit_of_the_task(tmp_path):
    folder = made_run(tmp_path / "run", task=made_task(costs=(0.25, 3.0)), levels=(1,), errors=(0.4,))
    assert "cost 9 in all: 4 initial, 3 chosen, 2 test (in the task's unit; one coarsest solve = 0.25)" in summary(
        RunReader(folder)
    )
