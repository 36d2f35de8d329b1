"""Writing a report: one self-contained file, from run directories alone."""

import re

import pytest

from mrafno.errors import LedgerError, MrafnoError
from mrafno.report import write_report
from mrafno.storage.ledger import Ledger
from tests.made_runs import made_run, made_task
from tests.report.conftest import page_of


def test_a_page_is_self_contained(page):
    assert re.search(r"<script[^>]+src=|<link[^>]+href=|@import|<img[^>]+src=\"(?!data:)", page) is None
    assert page.count("<!DOCTYPE html>") == 1
    # Plotly itself comes once, though there are several figures.
    assert page.count('id="plotly"') == 1
    assert page.count('class="plot"') >= 6
    assert len(page) < 1_000_000


def test_headings_can_be_linked_to(page):
    names = re.findall(r'<section id="([^"]+)"[^>]*><h2>[^<]+<a href="#([^"]+)"', page)
    assert all(name == target for name, target in names)
    assert len({name for name, _ in names}) == len(names) >= 10
    assert "error-against-cost" in dict(names)


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


def test_the_same_folder_twice_is_one_run(run):
    assert "<h1>made: mra-uhat, seed 0</h1>" in page_of(run, run)


def test_reports_that_raise(run, tmp_path):
    with pytest.raises(MrafnoError, match="no run was given"):
        write_report([], tmp_path / "x.html")
    with pytest.raises(MrafnoError, match="is a folder"):
        write_report([run], tmp_path)
    with pytest.raises(LedgerError, match="missing"):
        write_report([tmp_path / "nothing"], tmp_path / "x.html")
    with pytest.raises(MrafnoError, match="unknown format 'gif'"):
        write_report([run], tmp_path / "x.html", images=tmp_path, formats=("gif",))


def test_damaged_lines_raise_an_error_with_their_number(copy, tmp_path):
    path = copy / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"step":2', b'"step":3', 1))
    with pytest.raises(LedgerError, match=r"line \d+ is damaged"):
        write_report([copy], tmp_path / "x.html")


def test_a_ledger_that_is_being_written_can_be_reported(copy):
    with Ledger.open(copy, write=True):
        assert "4 steps" in page_of(copy)
