"""Costs that are measured: prices follow from the recorded seconds; declared ones that are far off are a warning."""

import time

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.run import Run, RunReader
from mrafno.run.prices import is_measured, mismatch, prices, typical_seconds
from mrafno.tasks import FunctionTask
from tests.runs import answer, create, fields, smooth, tiny, tiny3


def measured(solve=smooth, n=40):
    return FunctionTask(solve, fields(n, 17), (9, 17), "measured", name="tiny")


def slept(f, level):
    time.sleep((0.002, 0.02)[level])
    return smooth(f, level)


def told(run, queries, *seconds):
    for query, one in zip(queries, seconds, strict=True):
        answer(run, [query], seconds=one)


def test_declared_costs_are_the_prices(tmp_path):
    with create(tmp_path / "run") as run:
        told(run, run.ask(3), 7.0, 8.0, 9.0)
        assert prices(run.state) == (1.0, 5.0)
        assert run.spent.initial == 3.0


def test_prices_are_the_medians_of_seconds_without_the_first_call(tmp_path):
    with create(tmp_path / "run", task=measured()) as run:
        assert is_measured(run.state)
        # Before anything is known, as the numbers of grid points.
        assert prices(run.state) == (1.0, 17 / 9)
        coarse, fine = run.ask(3), run.ask(3)
        told(run, coarse[:1], 90.0)
        assert prices(run.state) == pytest.approx((90.0, 170.0))
        told(run, coarse[1:], 2.0, 4.0)
        assert typical_seconds(run.state) == [3.0, None]
        assert prices(run.state) == pytest.approx((3.0, 3.0 * 17 / 9))
        run.fail(fine[0].id, "no convergence", seconds=1000.0)
        told(run, fine[1:], 50.0, 40.0)
        assert prices(run.state) == (3.0, 40.0)
        # A cost is the seconds of the simulation, not its price.
        assert (run.spent.initial, run.spent.failed) == (90.0 + 2 + 4 + 50 + 40, 1000.0)
        now = prices(run.state)
    assert prices(RunReader(tmp_path / "run").state) == now
    with Run.open(tmp_path / "run", measured()) as run:
        assert prices(run.state) == now
        assert run.task.measured_costs


def test_a_level_in_between_has_the_price_of_its_nearest(tmp_path):
    task = FunctionTask(smooth, fields(40, 17), (5, 9, 17), "measured", name="tiny")
    with create(tmp_path / "run", task=task, initial=(2, 0, 2)) as run:
        told(run, run.ask(4), 1.0, 1.0, 9.0, 8.0)
        assert prices(run.state) == pytest.approx((1.0, 9 / 5, 8.0))


def test_a_run_chooses_and_keeps_its_budget_by_what_it_sees(tmp_path):
    with create(tmp_path / "run", "mra-auto", task=measured(slept), test=0, initial=(4, 3)) as run:
        run.advance(2)
        coarse, fine = prices(run.state)
        assert 0.002 <= coarse < 0.02 <= fine
        assert run.spent.total == pytest.approx(sum(q.seconds for q in run.state.queries.values()))
        left = 2.5 * coarse
        outcome = run.advance(budget=run.spent.total + left)
        assert outcome.reason.startswith("used up the budget")
        # A choice is made if its price fits, and costs what it takes.
        assert {q.level for q in run.state.of_kind("pool") if q.step > 2} == {0}
        record = run.state.as_json()
    assert RunReader(tmp_path / "run").state.as_json() == record


def test_few_simulations_are_no_reason_for_a_warning(tmp_path):
    with create(tmp_path / "run", task=tiny(costs=(1.0, 60.0)), initial=4) as run:
        queries = run.ask(8)
        told(run, queries[:7], 9.0, 2.0, 2.0, 2.0, 99.0, 4.0, 4.0)
        assert mismatch(run.state) is None  # without the first one, two of the fine level
        told(run, queries[7:], 4.0)
        assert mismatch(run.state) is not None


@pytest.mark.parametrize(("fine", "warned"), [(25.0, True), (31.0, False), (119.0, False), (125.0, True)])
def test_a_factor_of_two_is_the_limit(tmp_path, fine, warned):
    with create(tmp_path / "run", task=tiny(costs=(1.0, 60.0)), initial=4) as run:
        told(run, run.ask(8), 9.0, 1.0, 1.0, 1.0, 99.0, fine, fine, fine)
        text = mismatch(run.state)
        assert (text is not None) == warned
        if warned:
            assert f"are as 1 : 60, but its simulations take 1 s, {fine:g} s, as 1 : {fine:g}." in text


def test_the_warning_comes_while_the_run_advances(tmp_path):
    def slow(f, level):
        time.sleep(0.06)
        return smooth(f, level)

    with create(tmp_path / "run", "random-low", task=tiny(slow, costs=(1.0, 10.0)), test=0, initial=4) as run:
        with pytest.warns(UserWarning, match=r"declared costs of tiny are as 1 : 10, but its simulations take"):
            outcome = run.advance(1)
        assert any("declared costs" in text for text in outcome.warnings)


def test_three_levels_are_compared_with_the_first(tmp_path):
    with create(tmp_path / "run", task=tiny3(), initial=4) as run:
        told(run, run.ask(12), *[1.0] * 4, *[2.0] * 4, *[5.0] * 4)
        assert mismatch(run.state) is None


def test_other_texts_are_no_costs():
    with pytest.raises(TaskError, match='Give one per resolution, or "measured"'):
        FunctionTask(smooth, np.ones((3, 17)), (9, 17), "mesured")
