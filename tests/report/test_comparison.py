"""The page about several runs."""

import pytest

from mrafno.report.comparison import comparison, grouped
from mrafno.run.reader import RunReader
from tests.made_runs import made_run, made_task
from tests.report.conftest import cells, page_of


def test_runs_are_compared(runs):
    title, lead, sections = comparison([RunReader(folder, count="chosen") for folder in runs], errors=(0.2, 0.1))
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
    assert "Costs are those of the chosen examples alone." in lead
    _, lead, sections = comparison([RunReader(folder) for folder in runs], errors=(0.2, 0.1))
    rows = cells({heading: content for heading, _, content in sections}["made: cost to reach an error"])
    assert (rows["mra-uhat"]["error 0.2"], rows["random-high"]["error 0.2"]) == ("8", "36 (26 to 46)")
    assert "Costs are those of everything that was simulated" in lead


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


def test_a_run_with_one_measurement_does_not_shorten_the_mean_curve(tmp_path, runs):
    new = made_run(tmp_path / "new", method="random-high", seed=2, errors=(0.5,))
    _, _, sections = comparison([RunReader(folder) for folder in [*runs, new]])
    assert sections[0][2].data[-1].x == (6.0, 26.0, 46.0)
    assert any(row[0] == str(new) for row in sections[3][2])


def test_runs_of_different_tasks_of_one_name_are_not_one_group(tmp_path):
    from tests import runs

    tasks = {"first": runs.tiny(), "second": runs.tiny(runs.counted)}
    for name, task in tasks.items():
        runs.create(tmp_path / name, "random-low", task).close()
    _, lead, sections = comparison([RunReader(tmp_path / name) for name in tasks])
    headings = {heading.partition(":")[0] for heading, *_ in sections}
    assert len(headings) == 2
    assert all(heading.startswith("tiny #") for heading in headings)
    assert lead.startswith("2 runs of tiny.")
