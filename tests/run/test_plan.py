"""What is planned is what happens, and a budget that cannot cover the first simulations is refused before any."""

import json

import pytest
from typer.testing import CliRunner

from mrafno.cli import app
from mrafno.errors import RunError
from mrafno.run import Run
from mrafno.run.goals import Goals
from mrafno.run.plan import Plan
from mrafno.run.settings import RunSettings
from mrafno.tasks import get_task
from tests.runs import answer, create, tiny, tiny3


def planned(plan):
    return [(part.kind, part.level, part.number, part.cost) for part in plan.first]


def test_the_plan_of_a_new_run_is_what_it_simulates(tmp_path):
    task, settings = tiny3(), {"initial": (4, 0, 2), "test": 3, "members": 2}
    plan = Plan.of_new(task, RunSettings.of(**settings), Goals(budget=60.0))
    assert planned(plan) == [("initial", 0, 4, 4.0), ("initial", 2, 2, 10.0), ("test", 2, 3, 15.0)]
    assert (plan.first_cost, plan.left, plan.choices) == (29.0, 31.0, (31, 15, 6))
    with Run.create(tmp_path / "run", task, "random-low", **settings) as run:
        assert planned(run.plan(budget=60.0)) == planned(plan)
        answer(run, run.ask(100))
        assert run.spent.total == plan.first_cost
        after = run.plan(budget=60.0)
        assert (planned(after), after.left, after.choices) == ([], 31.0, (31, 15, 6))


def test_what_a_count_leaves_out_takes_nothing_of_the_budget():
    task, settings = tiny(), RunSettings(initial=3, test=4)
    lefts = [
        Plan.of_new(task, settings, Goals(budget=50.0, count=count)).left for count in ("total", "training", "chosen")
    ]
    assert lefts == [50.0 - 38.0, 50.0 - 18.0, 50.0]


def test_steps_bound_the_choices(tmp_path):
    assert Plan.of_new(tiny(), RunSettings(initial=3, test=0), Goals(steps=7, budget=30.0)).choices == (7, 2)
    assert Plan.of_new(tiny(), RunSettings(initial=3, test=0), Goals()).choices == (None, None)
    with create(tmp_path / "run") as run:
        assert run.plan(5).choices == (5, 5)


def test_imported_examples_are_not_planned():
    plan = Plan.of_new(tiny(), RunSettings(initial=3, test=0), Goals(), given=(5, 1))
    assert planned(plan) == [("initial", 1, 2, 10.0)]


def test_the_default_of_a_built_in_task():
    settings = RunSettings().resolved(levels=2, few=True, builtin=True)
    plan = Plan.of_new(get_task("burgers"), settings, Goals(budget=9000.0))
    assert planned(plan) == [("initial", 0, 10, 10.0), ("initial", 1, 2, 82.4), ("test", 1, 200, 8240.0)]
    assert str(plan).splitlines()[0].split() == ["initial", "10", "on", "33", "10"]
    assert "choices: at most 16 on 129, at 41.2 each" in str(plan)


def test_a_budget_below_the_first_simulations_is_refused_before_any(tmp_path):
    with create(tmp_path / "run") as run:
        with pytest.raises(
            RunError, match=r"budget of 30 is too small for the first simulations, which cost 38: 3 init"
        ):
            run.advance(budget=30.0)
        assert not run.state.queries
        assert run.advance(budget=38.0).reason == "used up the budget of 38"
        assert run.advance(budget=1.0).reason == "used up the budget of 1"


@pytest.fixture
def solver(tmp_path):
    file = tmp_path / f"solver_{abs(hash(tmp_path))}.py"
    file.write_text("from tests.runs import tiny\ntask = tiny()\n")
    return f"{file}:task"


def mrafno(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_dry_run_prints_the_plan_and_makes_nothing(solver, tmp_path):
    call = ("run", solver, "--initial", "4,2", "--test", "3", "--budget", "40", "--dry-run")
    result = mrafno(*call)
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()][:3] == [
        ["initial", "4", "on", "9", "4"], ["initial", "2", "on", "17", "10"], ["test", "3", "on", "17", "15"],
    ]  # fmt: skip
    found = json.loads(mrafno(*call, "--json", "--out", tmp_path / "run").stdout)
    assert (found["first_cost"], found["left_for_choices"], found["most_choices"]) == (29.0, 11.0, {"9": 11, "17": 2})
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == [
        solver.split("/")[-1].removesuffix(":task")
    ]


def test_a_budget_that_is_too_small_leaves_no_run_behind(solver, tmp_path):
    result = mrafno("run", solver, "--out", tmp_path / "run", "--initial", "4", "--budget", "20")
    assert result.exit_code == 1
    assert "4 initial on 9 for 4, 4 initial on 17 for 20. Give a larger budget" in result.stderr
    assert not (tmp_path / "run").exists()
