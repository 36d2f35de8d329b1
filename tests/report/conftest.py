"""Runs with chosen numbers, and their pages."""

import shutil

import pytest

from mrafno.report import write_report
from mrafno.report.page import run_page
from mrafno.run.reader import RunReader
from tests.made_runs import made_run


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


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two methods, the dear one with two seeds, each error an exact power, so that crossings are known."""
    folder = tmp_path_factory.mktemp("runs")
    return [
        made_run(folder / "a", method="mra-uhat", levels=(0,) * 4, errors=(0.4, 0.2, 0.1)),
        made_run(folder / "b", method="random-high", levels=(1,) * 4, errors=(0.4, 0.2, 0.1)),
        made_run(folder / "c", method="random-high", levels=(1,) * 4, errors=(0.4, 0.4, 0.2), seed=1),
    ]
