"""The summary of a run: its numbers are those of the ledger, and what it advises depends on the state."""

import pytest

from mrafno.report import write_report
from mrafno.report.summary import following, learnt, paid, paragraph, summary_section, sure
from mrafno.run import Run, RunReader
from mrafno.storage.ledger import Ledger
from tests.made_runs import made_run


def test_numbers_of_the_summary(run):
    reader = RunReader(run)
    assert "relative L2 error on test examples is 0.1, 0.4 before the first choice." in " ".join(learnt(reader))
    assert "3 on 5 points at 1, 1 on 9 points at 10." in " ".join(paid(reader))
    assert "Cost 19 in all" in " ".join(paid(reader))
    said = " ".join(sure(reader))
    assert "a mean over 2 test examples" in said
    assert "few" in said
    assert "hold 80 % of the test values: they are overconfident" in said


def test_a_paragraph_for_a_paper(run):
    text = paragraph(RunReader(run))
    for part in (
        "(costs 1 : 10)", "method mra-uhat, seed 0", "4 further simulations (3 on 5 points and 1 on 9 points)",
        "one at a time", "at a total cost of 19 in units of one coarsest solve, 13 of it for chosen and 2 for test",
        "on 2 held-out test examples on the finest mesh fell from 0.4 to 0.1; 80 % of their values", "arXiv:2309.16971",
    ):  # fmt: skip
        assert part in text


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"stopped": "interrupted"}, "was interrupted: `mrafno resume"),
        ({"stopped": "run x: 5 simulations failed"}, "stopped by an error"),
        ({"running": True}, "1 query waits for an answer"),
        ({"stopped": "finished 8 steps", "errors": (0.4, 0.3, 0.2, 0.1, 0.05)}, "more simulations still pay"),
        ({"stopped": "finished 8 steps", "errors": (0.4, 0.2, 0.1, 0.1, 0.1)}, "0 % only"),
    ],
)
def test_what_next(tmp_path, settings, advice):
    folder = made_run(tmp_path / "run", levels=(0,) * 8, **settings)
    assert advice in " ".join(following(RunReader(folder)))


def test_a_run_that_advances_is_left_alone(tmp_path):
    folder = made_run(tmp_path / "run", levels=(0,) * 8, errors=(0.4, 0.3, 0.2, 0.1, 0.05))
    with Run.open(folder):
        assert following(RunReader(folder))[0] == "The run advances at present."


def test_a_run_that_was_never_measured(tmp_path):
    reader = RunReader(made_run(tmp_path / "run"))
    assert "No error is known yet." in learnt(reader)
    assert summary_section(reader)[0] == "Summary"
    assert "0 further simulations" in paragraph(reader)


def test_warnings_are_before_the_numbers(tmp_path):
    run = made_run(tmp_path / "run")
    with Ledger.open(run, write=True) as ledger:
        ledger.append("warned", about="made", text="too <few> test examples")
    _, _, content = summary_section(RunReader(run))
    warnings, numbers, *_ = (part.markup for part in content.contents)
    assert "<strong>Warning:</strong> too &lt;few&gt; test examples" in warnings
    assert "<dt>Error</dt>" in numbers


def test_the_summary_comes_first_and_can_be_copied(run, tmp_path):
    write_report([run], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.index('id="summary"') < page.index('id="error-against-cost"')
    assert 'data-copy="for-a-paper"' in page
    assert "<code>mrafno predict" in page
