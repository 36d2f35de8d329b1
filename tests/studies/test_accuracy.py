"""What the fast preset reaches on 200 + 200 examples; minutes each, so run with `make test-slow`."""

import pytest

from mrafno.studies.fixed import Job, Setup, run_job


@pytest.mark.slow
@pytest.mark.parametrize(("task", "error"), [("burgers", 0.018), ("darcy", 0.025)])
def test_ensemble_of_the_fast_preset(task, error, tmp_path):
    metrics = run_job(Job(Setup(task), "ensemble", 0, "mixed"), tmp_path)["metrics"]
    assert metrics["relative_l2"] <= error
    assert 0.8 <= metrics["coverage"]["0.9"] <= 0.97
