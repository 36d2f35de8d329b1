"""The fixed-data study: its examples, runs and table."""

import numpy as np
import pytest

from mrafno.errors import MrafnoError
from mrafno.studies import fixed
from mrafno.studies.fixed import Job, Setup, examples, jobs, run_job, run_study, table
from mrafno.studies.fixed_report import as_cells
from mrafno.tasks import get_task

TINY = Setup("burgers", examples=6, tests=4, iterations=3)


def test_both_mixes_have_the_same_inputs():
    task = get_task("burgers")
    mixed, coarse = (examples(task, TINY, 3, mix) for mix in ("mixed", "coarse"))
    assert mixed.sizes == (6, 6)
    assert coarse.sizes == (12, 0)
    np.testing.assert_array_equal(coarse.inputs[0][6:], mixed.inputs[0])
    np.testing.assert_array_equal(coarse.inputs[0][:6], task.restrict(mixed.inputs[1], 0))


def test_test_inputs_are_not_training_inputs():
    task = get_task("burgers")
    test = task.sample(200, seed=fixed.TEST_SEED)
    for seed in range(5):
        training = task.sample(400, seed=seed)
        assert not (test[:, None] == training[None]).all(axis=(2, 3)).any()


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    job = Job(TINY, "point", 0, "mixed")
    first = run_job(job, tmp_path)
    monkeypatch.setattr(fixed, "get_surrogate", lambda *_, **__: pytest.fail("trained again"))
    assert run_job(job, tmp_path) == first
    # Another setting is another run.
    with pytest.raises(pytest.fail.Exception, match="trained again"):
        run_job(Job(Setup("burgers", examples=6, tests=4, iterations=4), "point", 0, "mixed"), tmp_path)


@pytest.mark.slow
def test_workers_give_the_results_of_one(tmp_path):
    todo = [Job(TINY, "point", seed, "mixed") for seed in range(2)]
    alone = run_study(todo, tmp_path / "one")
    together = run_study(todo, tmp_path / "two", workers=2)
    for a, b in zip(alone, together, strict=True):
        assert b["metrics"]["relative_l2"] == pytest.approx(a["metrics"]["relative_l2"], rel=1e-3)


def result(method, seed, mix, error):
    metrics = {"relative_l2": error, "nll": 10 * error, "nll_per_value": error, "coverage": {"0.9": 0.9}}
    return {"job": {"method": method, "seed": seed, "mix": mix}, "metrics": metrics, "seconds": 1.0}


def test_table_of_known_results():
    results = [result("svi", s, mix, e) for s, mix, e in [(0, "mixed", 0.1), (0, "coarse", 0.3), (1, "mixed", 0.2),
               (1, "coarse", 0.4), (2, "mixed", 0.9)]]  # fmt: skip
    (row,) = table(results)  # the third seed has no coarse run yet
    assert row.seeds == 2
    assert row.error == pytest.approx((0.15, np.std([0.1, 0.2], ddof=1)))
    assert row.increase == pytest.approx((150, np.std([200, 100], ddof=1)))
    assert as_cells("burgers", [row])[1][1] == "0.1500 ± 0.0707 (0.1182)"


def test_unknown_names():
    with pytest.raises(MrafnoError, match="point, dropout, sgld, svi, ensemble"):
        jobs(TINY, ["magic"], 1)
    with pytest.raises(MrafnoError, match="burgers and darcy"):
        jobs(Setup("diffusion"), ["point"], 1)
