"""What a run has spent, by purpose, and what it had spent at every measurement."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from mrafno.cli import app
from mrafno.errors import RunError
from mrafno.run import Run, RunReader, telling
from mrafno.run.spending import Spent, check_count, price_of
from tests.made_runs import made_run
from tests.runs import COSTS, answer, create, tiny

COARSE, FINE = COSTS


def test_a_new_run_has_spent_nothing(tmp_path):
    with create(tmp_path / "run") as run:
        assert run.spent == Spent()
        assert str(run.spent) == "0 in all: 0 initial, 0 chosen, 0 test"


def test_every_simulation_counts_by_its_purpose(tmp_path):
    with create(tmp_path / "run") as run:
        answer(run, run.ask(6))
        assert run.spent == Spent(initial=3 * COARSE + 3 * FINE)
        answer(run, run.ask(100))
        assert run.spent == Spent(initial=18.0, test=4 * FINE)
        [query] = run.ask(1)
        answer(run, [query], cost=0.1)
        [query] = run.ask(1)
        run.fail(query.id, "no convergence")
        price = COSTS[query.level]
        assert run.spent == Spent(initial=18.0, chosen=0.1, test=20.0, failed=price)
        assert run.spent.total == 18.0 + 0.1 + 20.0 + price
        assert run.state.cost == 0.1
        assert str(run.spent) == f"{38.1 + price:g} in all: 18 initial, 0.1 chosen, 20 test, {price:g} failed"
        spent = run.spent
    assert Run.open(tmp_path / "run", tiny(), write=False).spent == spent
    assert RunReader(tmp_path / "run").state.spent == spent


def test_a_failure_costs_what_is_told_and_an_abandoned_query_nothing(tmp_path):
    with create(tmp_path / "run") as run:
        first, second, third = run.ask(3)
        run.fail(first.id, "no convergence", cost=0.25, seconds=3.0)
        run.abandon(second.id, "no steady state")
        assert run.spent == Spent(failed=0.25)
        run.abandon(third.id, "stopped half-way", cost=0.5)
        assert run.spent == Spent(failed=0.75)
        record = run.state.queries[first.id]
        assert (record.cost, record.seconds) == (0.25, 3.0)
        [again] = run.ask(1)
        with pytest.raises(RunError, match=r"cost of .* must be a number, 0 or more, got -1"):
            run.fail(again.id, "no convergence", cost=-1)
        assert run.state.queries[again.id].status == "running"


def test_a_second_output_is_paid_and_of_no_use(tmp_path):
    with create(tmp_path / "run", lease=0.001) as run:
        [first] = run.ask(1)
        run.state.queries[first.id].expires = 0.0
        [again] = run.ask(1)
        assert (again.level, run.state.queries[first.id].status) == (first.level, "expired")
        answer(run, [again, first])
        assert run.spent == Spent(initial=COARSE, failed=COARSE)


def test_imported_examples_were_paid_before(tmp_path):
    task = tiny()
    f = task.restrict(np.cos(np.linspace(0, 3, 17))[None, None], 0)
    examples = {"input_0": f, "output_0": task.solve(f, 0), "cost_0": [7.0]}
    with create(tmp_path / "run", examples=examples) as run:
        assert run.spent == Spent(imported=7.0)
        assert run.spent.total == 0.0
        assert str(run.spent) == "0 in all: 0 initial, 0 chosen, 0 test; 7 before the run, imported"
        assert run.state.as_json()["initial_cost"] == 7.0


def test_failures_told_by_another_process_cost_the_same(tmp_path):
    with create(tmp_path / "run") as run:
        queries = run.ask(3)
        # The run is held here, so the answers wait in its inbox.
        telling.fail(tmp_path / "run", queries[0].id, "no convergence", cost=0.5, seconds=2.0)
        telling.fail(tmp_path / "run", queries[1].id, "no convergence")
        telling.abandon(tmp_path / "run", queries[2].id, "never", cost=0.125)
        run.session.take_in()
        assert run.spent == Spent(failed=0.5 + COARSE + 0.125)
        assert run.state.queries[queries[0].id].seconds == 2.0


def test_the_command_line_takes_the_cost_of_a_failure(tmp_path):
    with create(tmp_path / "run") as run:
        one, two = run.ask(2)
    for arguments in (
        ("fail", tmp_path / "run", one.id, "--reason", "no convergence", "--cost", "0.5", "--seconds", "2"),
        ("abandon", tmp_path / "run", two.id, "--reason", "never", "--cost", "0.25"),
    ):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == 0, result.output
    assert RunReader(tmp_path / "run").state.spent == Spent(failed=0.75)


def test_a_simulation_that_fails_in_the_loop_costs_its_price_and_keeps_its_seconds(tmp_path):
    calls = []

    def solve(f, level):
        calls.append(level)
        if len(calls) == 2:
            raise ArithmeticError("no convergence")
        return f

    with create(tmp_path / "run", "random-low", tiny(solve)) as run:
        run.advance(2)
        [failed] = [q for q in run.state.queries.values() if q.status == "failed"]
        assert run.spent == Spent(initial=18.0, chosen=2 * COARSE, test=4 * FINE, failed=COARSE)
        assert failed.cost == COARSE
        assert failed.seconds > 0


def test_json_has_new_keys_beside_the_old_ones(tmp_path):
    folder = made_run(tmp_path / "run", levels=(0, 1, 0), errors=(0.8, 0.6))
    state = RunReader(folder).state
    found = json.loads(json.dumps(state.as_json()))
    assert found["spent"] == {**state.spent.as_json(), "total": state.spent.total}
    assert (found["accumulated_cost"], found["spent"]["chosen"]) == (12.0, 12.0)
    first = found["spent"]["initial"] + found["spent"]["test"]
    assert [s["accumulated_cost"] for s in found["steps"]] == [1.0, 11.0, 12.0]
    assert found["initial_total_cost"] == first
    assert [s["total_cost"] for s in found["steps"]] == [None, first + 11.0, None]
    assert [e.spent.total for e in state.evaluations] == [first, first + 11.0]


def test_ways_of_counting():
    spent = Spent(initial=1.0, chosen=2.0, test=4.0, failed=8.0, imported=16.0)
    assert (spent.total, spent.counted(), spent.counted("training"), spent.counted("chosen")) == (15, 15, 11, 2)
    check_count("training")
    with pytest.raises(RunError, match="unknown count 'choosen'"):
        check_count("choosen")


def test_prices_of_running_queries(tmp_path):
    with create(tmp_path / "run") as run:
        run.ask(100)
        running = run.state.running
        assert [price_of(running, COSTS, count) for count in ("total", "training", "chosen")] == [38.0, 18.0, 0.0]


def test_sums_are_exact():
    assert Spent(initial=0.1, chosen=0.2, test=0.3).total == 0.6
