"""The fixed-data study as tables and pages."""

import json

from mrafno.studies.fixed import PAPER, Setup
from mrafno.studies.fixed_report import run_and_report

TINY = Setup("burgers", examples=6, tests=4, iterations=3)


def test_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Setup, "quick", staticmethod(lambda task, preset: TINY))
    run_and_report("burgers", ["point", "ensemble"], 1, tmp_path / "out", "fast", 1, True)
    assert "ensemble" in capsys.readouterr().out
    summary = json.loads((tmp_path / "out" / "burgers.json").read_text())
    assert [row["method"] for row in summary["rows"]] == ["point", "ensemble"]
    assert summary["paper"] == {k: list(v) for k, v in PAPER["burgers"].items()}
    page = (tmp_path / "out" / "burgers.html").read_text(encoding="utf-8")
    assert "ensemble: test input 2" in page
    assert "http://" not in page.split("</style>")[1].split("<script")[0]
