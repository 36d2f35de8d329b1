"""The first simulations: their inputs, and what replaces those that fail."""

import numpy as np
import pytest

from mrafno.errors import RunError
from mrafno.run import Run, RunReader
from mrafno.run.first import medoids
from mrafno.run.settings import RunSettings
from mrafno.tasks import FunctionTask, TableTask
from tests.runs import COSTS, answer, create, fields, smooth, tiny, tiny3


def initial(run):
    return run.state.of_kind("initial")


def test_medoids_are_those_of_the_greedy_algorithm():
    points = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [3.0]])
    # The median of all is 2 (sums 27, 23, 21, 33, 37, 21: the first of equals). With 10 the other distances sum to 5.
    assert list(medoids(points))[:2] == [2, 3]
    assert sorted(medoids(points)) == list(range(6))


def test_every_medoid_lowers_the_sum_of_distances_most():
    points = np.random.default_rng(0).normal(size=(60, 3))
    order = list(medoids(points))

    def total(rows):
        return np.linalg.norm(points[:, None] - points[rows], axis=2).min(axis=1).sum()

    for count in range(1, 8):
        best = min(total([*order[:count], row]) for row in range(60) if row not in order[:count])
        assert total(order[: count + 1]) == pytest.approx(best)


def test_inputs_of_all_sizes_are_among_spread_ones(tmp_path):
    """Four decades of sizes: by plain distances the first ones would all be large."""
    sizes = np.exp(np.random.default_rng(0).uniform(0, np.log(1e4), 300))
    inputs = fields(300, 17) * sizes[:, None]
    task = FunctionTask(smooth, inputs, ((9,), (17,)), COSTS, name="decades")
    with Run.create(tmp_path / "run", task, members=2) as run:
        first = np.stack([q.f for q in run.ask(100) if q.level == 0])
    norms = np.log10(np.linalg.norm(first.reshape(len(first), -1), axis=1))
    assert np.ptp(norms) > 2.5
    assert len(set(np.floor(norms))) >= 3


def test_parameters_are_compared_as_numbers(tmp_path):
    values = np.random.default_rng(1).uniform(0, 1, (200, 2))
    task = FunctionTask(
        lambda parameters, level: np.full((1, (9, 17)[level]), parameters.sum()),
        parameters=values, resolutions=((9,), (17,)), costs=COSTS, name="numbers",
    )  # fmt: skip
    with Run.create(tmp_path / "run", task, members=2) as run:
        first = np.array([list(q.parameters.values()) for q in run.ask(100) if q.level == 0])
    quarters = np.array([[x, y] for x in (0.25, 0.75) for y in (0.25, 0.75)])
    assert np.linalg.norm(quarters[:, None] - first, axis=2).min(axis=1).max() < 0.2


def test_mra_auto_begins_with_a_few_candidates_and_solves_some_on_both_meshes(tmp_path):
    with Run.create(tmp_path / "run", tiny(), members=2) as run:
        assert (run.settings.initial, run.settings.design, run.settings.test) == ((10, 2), "spread", 0)
        queries = run.ask(100)
        assert [q.level for q in queries] == [0] * 10 + [1] * 2
        rows = [q.candidate for q in queries]
        assert rows[10:] == rows[:2]
        assert len(set(rows)) == 10
        np.testing.assert_array_equal(queries[10].f, run.inputs.pool[rows[0]])
        answer(run, queries)
        assert run.spent.initial == 10 * COSTS[0] + 2 * COSTS[1]
        [choice] = run.ask(1)
        assert choice.candidate not in rows
    assert RunReader(tmp_path / "run").pool == 40
    with Run.open(tmp_path / "run", tiny()) as run:
        assert [q.candidate for q in initial(run)] == rows
        assert run.session.missing_setup() == []


def test_defaults_follow_from_task_and_method():
    few = {"levels": 3, "few": True, "builtin": False}
    assert RunSettings().resolved(**few).initial == (10, 2, 2)
    paper = RunSettings().resolved(levels=2, few=False, builtin=True)
    assert (paper.initial, paper.design, paper.test) == (10, "random", 200)
    # Initial examples that are asked for are the same for every method.
    chosen = RunSettings(initial=4, test=7).resolved(**few)
    assert (chosen.initial, chosen.design, chosen.test) == (4, "random", 7)
    assert RunSettings(initial=4, design="spread").resolved(**few).design == "spread"
    assert RunSettings().resolved(levels=1, few=True, builtin=False).initial == 10


def test_initial_examples_by_level(tmp_path):
    with create(tmp_path / "run", task=tiny3(), initial=(4, 0, 2)) as run:
        levels = [q.level for q in run.ask(100) if q.kind == "initial"]
        assert levels == [0] * 4 + [2] * 2
        assert len(run.inputs.initial) == 6
    assert RunReader(tmp_path / "run").state.settings.initial == (4, 0, 2)


@pytest.mark.parametrize("initial", [(5, 0), (1, 1), (2, 0)])
def test_a_level_may_begin_with_one_example_or_none(tmp_path, initial):
    with create(tmp_path / "run", "mra-auto", initial=initial) as run:
        outcome = run.advance(3)
        assert outcome.steps == 3
        assert run.surrogate.predict(run.inputs.pool[:2]).mean.shape == (2, 1, 17)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (0, "initial must be 1 or more on some level, got 0"),
        ((0, 0), "initial must be 1 or more on some level"),
        ((3, -1), "initial must be a whole number, 0 or more, got -1"),
        (2.5, "initial must be a whole number, 0 or more, got 2.5"),
        ((1, 2, 3), "3 numbers, the task has 2 levels"),
    ],
)
def test_wrong_numbers_are_refused(tmp_path, wrong, said):
    with pytest.raises(RunError, match=said):
        create(tmp_path / "run", initial=wrong)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("design", ["random", "spread"])
def test_a_failed_initial_example_is_replaced_by_a_candidate(tmp_path, design):
    with create(tmp_path / "run", design=design, retries=1) as run:
        first, *others = run.ask(6)
        answer(run, others)
        run.fail(first.id, "no convergence")
        [again] = [q for q in run.ask(1) if q.kind == "initial"]
        np.testing.assert_array_equal(again.f, first.f)
        run.fail(again.id, "no convergence")
        [other] = [q for q in run.ask(1) if q.kind == "initial"]
        assert (other.level, other.candidate) == (first.level, run.state.queries[other.id].row)
        assert not np.array_equal(other.f, first.f)
        answer(run, [other])
        assert {q.kind for q in run.ask(100)} == {"test"}
        assert run.state.counts(2, "told") == [3, 3]
        assert run.spent.failed == 2 * COSTS[0]
        record = run.state.queries[other.id]
        assert other.candidate in run.state.used_rows("pool")
    state = RunReader(tmp_path / "run").state
    assert state.queries[other.id] == record


def test_an_abandoned_initial_example_is_replaced_at_once(tmp_path):
    with create(tmp_path / "run", design="spread") as run:
        queries = run.ask(6)
        run.abandon(queries[0].id, "no steady state")
        [other] = [q for q in run.ask(1) if q.kind == "initial"]
        assert other.candidate not in [q.candidate for q in queries]
        # The fine example of the same input is still of use, and the next fine one is of an input that works.
        assert queries[3].candidate == queries[0].candidate
        run.abandon(queries[4].id, "no steady state")
        [fine] = [q for q in run.ask(1) if q.kind == "initial"]
        assert (fine.level, fine.candidate) == (1, other.candidate)


def test_a_run_goes_on_where_initial_simulations_fail(tmp_path):
    broken = tiny().sample(4, seed=0)

    def solve(f, level):
        if any(np.allclose(f[0], one[0, :: 2 if level == 0 else 1]) for one in broken):
            raise ArithmeticError("no convergence")
        return smooth(f, level)

    with create(tmp_path / "run", "random-low", tiny(solve), test=0, retries=0) as run:
        run.advance(2, max_failure_rate=0.9)
        assert run.state.counts(2, "told") == [5, 3]
        assert sum(q.status == "failed" for q in initial(run)) == 4
        assert sum(q.from_pool for q in initial(run)) == 4


def test_a_row_that_a_table_lacks_is_no_initial_example(tmp_path):
    inputs = fields(30, 17)
    coarse, fine = inputs[:, None, ::2].copy(), inputs[:, None].copy()
    coarse[::3], fine[1::2] = np.nan, np.nan
    table = TableTask(inputs, [coarse, fine], (1.0, 5.0))
    with Run.create(tmp_path / "run", table, members=2) as run:
        queries = run.ask(100)
        assert [q.level for q in queries] == [0] * 10 + [1] * 2
        assert all(run.inputs.available[q.candidate, q.level] for q in queries)
        for query in queries:
            table.solve(query.f[None], query.level)
