"""Benchmarks keep what they print, and the page of them is what is made of the files."""

import importlib.util
import json
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks import record

ROOT = Path(__file__).parents[2]


@pytest.fixture
def machinery():
    """The script that makes the page."""
    spec = importlib.util.spec_from_file_location("page_of_benchmarks", ROOT / "docs" / "machinery" / "benchmarks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(folder):
    report = record.Report("sums", "Sums", "What a sum takes.\n\n    python", Namespace(out=folder, seed=3))
    table = report.table("Seconds", {"of": "", "s": ".2f"})
    table.add("a | b", 1.234)
    table.add("c", None)
    report.ratio("slow / fast", [2.0, 6.0, 4.0], [1.0, 2.0, 1.0])
    report.note("A note.")
    return report


def test_a_report_prints_and_keeps_the_same(tmp_path, capsys):
    path = made(tmp_path).save()
    printed, kept = capsys.readouterr().out, json.loads(path.read_text())
    assert path.name == "sums.json"
    assert "1.23" in printed
    assert "slow / fast: 3 (2 to 4)" in printed
    assert (kept["about"], kept["seed"]) == ("What a sum takes.", 3)
    assert kept["tables"][0]["rows"] == [["a | b", 1.234], ["c", None]]
    assert kept["ratios"]["slow / fast"] == {"median": 3.0, "low": 2.0, "high": 4.0, "repetitions": 3}
    assert {"processor", "cores", "memory", "threads"} == set(kept["machine"])
    assert {"python", "torch"} <= set(kept["versions"])


def test_a_row_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ValueError, match="3 cells, there are 2"):
        made(tmp_path).tables[0].add("a", 1.0, 2.0)


def test_alternatives_take_turns():
    calls, clock = [], iter(range(100))
    works = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    found = record.alternate(works, 2, clock=lambda: next(clock))
    assert calls == ["a", "b"] * 3
    assert found == {"a": [1, 1], "b": [1, 1]}


def test_a_command_leaves_out_where_results_go(monkeypatch):
    monkeypatch.setattr(record.sys, "argv", ["x.py", "--rounds", "3", "--out", "there", "--out=there", "burgers"])
    assert record.command().endswith("--rounds 3 burgers")


def test_the_page_has_all_of_a_report(tmp_path, machinery):
    made(tmp_path).save()
    text = machinery.page(tmp_path)
    assert "## Sums" in text
    assert r"| a \| b | 1.23 |" in text
    assert "| slow / fast | 3 (2 to 4) |" in text
    assert "A note." in text


def test_the_page_is_made_of_the_results(machinery):
    assert machinery.PAGE.read_text() == machinery.page(), "run: python docs/machinery/benchmarks.py"
