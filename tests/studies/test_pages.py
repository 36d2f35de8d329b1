"""What all studies of runs write."""

import pytest

from mrafno.errors import MrafnoError
from mrafno.studies import runner
from mrafno.studies.curves_report import curves_study
from tests.studies.tiny import tiny_study


def test_failed_runs_raise_after_the_page_is_written(tmp_path, monkeypatch, capsys):
    really = runner.run_job

    def sometimes(job, *rest):
        if job.method == "random-low":
            raise MrafnoError("the simulator is broken.")
        return really(job, *rest)

    monkeypatch.setattr(runner, "run_job", sometimes)
    with pytest.raises(MrafnoError, match=r"1 run failed.*the simulator is broken"):
        curves_study(tiny_study("curves", tmp_path, seeds=1, steps=2), "random-low,random-high")
    assert (tmp_path / "curves.html").exists()
    with pytest.raises(MrafnoError, match=r"no run of this study.*the simulator is broken"):
        curves_study(tiny_study("curves", tmp_path / "none", seeds=1, steps=2), "random-low")
    assert "FAILED" in capsys.readouterr().err
