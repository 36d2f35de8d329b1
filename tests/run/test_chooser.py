"""From a surrogate and a state to the next queries: every method, against what is computed directly."""

import json
import math
import shutil

import numpy as np
import pytest
import torch

from mrafno.acquisition import (
    Choice,
    LargestClusterMaxDist,
    Typical,
    annealed_cost,
    draw_targets,
    gram,
    u,
    u_hat,
)
from mrafno.acquisition.baselines import allowed_levels
from mrafno.acquisition.mesh_rule import level_gains
from mrafno.grids import Grid, resample
from mrafno.run import Run
from mrafno.run.chooser import Chooser
from mrafno.run.methods import METHODS
from mrafno.run.scoring import scoring_grid
from mrafno.tasks import get_task
from tests import runs

pytestmark = pytest.mark.usefixtures("quick")


def check_run(run, steps):
    queries = run.state.of_kind("pool")
    assert [q.status for q in queries] == ["told"] * steps
    assert len({q.row for q in queries}) == steps
    assert [q.step for q in queries] == list(range(1, steps + 1))
    allowed = allowed_levels(getattr(run.method.acquisition, "levels", "mix"), run.task.levels)
    assert {q.level for q in queries} <= set(allowed)
    for query in queries:
        json.dumps(query.choice, allow_nan=False)
        assert math.isfinite(query.choice["score"])
        assert query.choice["best"][query.level] is not None
        # Steps count from 1, schedules from 0.
        costs = annealed_cost(run.task.costs, query.step - 1, rate=run.settings.alpha)
        assert query.choice["costs"] == (costs if run.method.divide_by_cost else None)
    assert run.state.cost == math.fsum(run.task.costs[q.level] for q in queries)


# Every method.


@pytest.mark.parametrize("method", METHODS)
def test_every_method_makes_a_run(tmp_path, method):
    with runs.ready(tmp_path / "run", method, evaluate=6, alpha=0.5, refit_growth=0.4) as run:
        assert run.advance(total_steps=6).reason == "finished 6 steps"
        check_run(run, 6)


METHODS3 = ("mra-u", "mra-uhat", "mra-auto", "random-mix", "coreset-mix", "lcmd-mix")


@pytest.mark.parametrize("method", METHODS3)
@pytest.mark.parametrize("make", [runs.tiny3, runs.tiny_darcy])
def test_three_levels_in_one_and_two_dimensions(tmp_path, method, make):
    settings = {"evaluate": 6, "initial": 2, "test": 2, "refit_growth": 0.5}
    with runs.advanced(tmp_path / "run", 6, method, make(), settings=settings) as run:
        check_run(run, 6)


@pytest.mark.parametrize("method", ["random-mix", "mra-uhat", "coreset-mix"])
def test_one_level_is_enough(tmp_path, method):
    task = runs.tiny(resolutions=((17,),), costs=(2.0,))
    with runs.advanced(tmp_path / "run", 3, method, task) as run:
        check_run(run, 3)


# Scores.


def predicted_grams(run, grid):
    """(P, R, S, S), scaled as if the outputs were on each level's own points."""
    pool = resample(run.inputs.pool, run.task.grids[-1], grid, run.task.interpolation)
    found = []
    for level, own in enumerate(run.task.grids):
        prediction = run.surrogate.predict(pool, level, grid=grid, units="normalised")
        found.append(gram(prediction.samples, prediction.log_var) * (math.prod(own.shape) / math.prod(grid.shape)))
    return torch.stack(found, 1)


@pytest.mark.parametrize("method", ["mra-u", "mra-uhat"])
def test_scores_are_information_of_directly_computed_gram_matrices(tmp_path, method):
    with runs.ready(tmp_path / "run", method, members=4) as run:
        g = predicted_grams(run, run.task.grids[0])
        scores = np.asarray((u if method == "mra-u" else u_hat)(g))
        costs = annealed_cost(run.task.costs, 0, rate=run.settings.alpha)
        row, level = np.unravel_index(np.argmax(scores / costs), scores.shape)
        [query] = run.ask(1)
        assert (query.candidate, query.level) == (row, level)
        choice = run.state.queries[query.id].choice
        assert choice["score"] == pytest.approx(scores[row, level], rel=1e-9)
        assert choice["best"] == pytest.approx(scores.max(0).tolist(), rel=1e-9)
        assert choice["costs"] == costs


def test_scores_are_given_what_is_told_but_not_learnt_and_what_runs(tmp_path):
    with runs.ready(tmp_path / "run", members=4, refit_growth=1.0) as run:
        told, running = run.ask(2)
        runs.answer(run, [told])
        assert [q.id for q in run.state.not_trained_on] == [told.id]
        g = predicted_grams(run, run.task.grids[0])
        given = g[told.candidate, told.level] + g[running.candidate, running.level]
        rest = [row for row in range(12) if row not in (told.candidate, running.candidate)]
        scores = np.asarray(u_hat(g[rest], given=given)) / annealed_cost(run.task.costs, 2, rate=run.settings.alpha)
        row, level = np.unravel_index(np.argmax(scores), scores.shape)
        [query] = run.ask(1)
        assert len(run.state.trainings) == 1
        assert (query.candidate, query.level) == (rest[row], level)


def test_a_large_pool_is_scored_in_pieces_like_a_whole(tmp_path, monkeypatch):
    with runs.ready(tmp_path / "run", members=4) as run:
        whole = run.chooser._predicted_grams(run.surrogate, np.arange(12))
        monkeypatch.setattr("mrafno.run.chooser.GROUP", 5)
        pieces = run.chooser._predicted_grams(run.surrogate, np.arange(12))
        torch.testing.assert_close(pieces.gram, whole.gram, rtol=1e-4, atol=1e-6)
        assert whole.sizes == (9, 17)


def test_only_candidates_that_may_be_asked_about_are_predicted(tmp_path):
    with runs.advanced(tmp_path / "run", 4, settings={"members": 4}) as run:
        trained_on = {run.state.queries[id].row for id in run.state.trained_on if run.state.queries[id].kind == "pool"}
        assert trained_on
        whole = run.chooser._predicted_grams(run.surrogate, np.arange(12)).gram
        found = run.chooser._pool_grams(run.surrogate, run.state).gram
        for row in range(12):
            expected = torch.zeros_like(whole[row]) if row in trained_on else whole[row]
            torch.testing.assert_close(found[row], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("number", [3, None])
def test_targets_and_candidates_are_drawn_anew_each_step(tmp_path, number):
    """Targets are drawn from all that remain, or are all of them, however few candidates are scored."""
    with runs.ready(tmp_path / "run", members=4, targets=number, candidates=5, alpha=0.3) as run:
        g = predicted_grams(run, run.task.grids[0])
        for step in (1, 2):
            used = sorted(run.state.used_rows("pool"))
            left = np.setdiff1d(np.arange(12), used)
            rows = np.sort(np.random.default_rng([0, step, 3]).choice(left, 5, replace=False))
            targets = left if number is None else draw_targets(left, number, seed=0, step=step)
            given = None if step == 1 else g[used[0], run.state.of_kind("pool")[0].level]
            scores = np.asarray(u_hat(g[rows], g[targets, -1], given))
            costs = annealed_cost(run.task.costs, step - 1, rate=0.3)
            row, level = np.unravel_index(np.argmax(scores / costs), scores.shape)
            [query] = run.ask(1)
            assert (query.candidate, query.level) == (rows[row], level)


def test_coreset_takes_the_input_farthest_from_all_that_are_used(tmp_path):
    with runs.ready(tmp_path / "run", "coreset-high") as run:
        first, second = run.ask(2)
        runs.answer(run, [first])
        grid = run.task.grids[0]
        pool, initial = (resample(f, run.task.grids[-1], grid) for f in (run.inputs.pool, run.inputs.initial))
        used = [run.surrogate.features(initial[:3], 0, grid=grid), run.surrogate.features(initial[3:], 1, grid=grid)]
        candidates = run.surrogate.features(pool, 1, grid=grid).reshape(12, -1)
        taken = np.concatenate(used).reshape(6, -1)

        def farthest():
            distances = np.linalg.norm(candidates[:, None] - taken[None], axis=2).min(1)
            return int(np.argmax(distances))

        for query in (first, second):
            assert query.candidate == farthest()
            taken = np.concatenate([taken, candidates[query.candidate][None]])


# Costs.


def test_a_schedule_step_is_not_repeated_after_reopening_or_failing(tmp_path):
    with runs.ready(tmp_path / "run", alpha=0.5, schedule="sigmoid", renormalise=False) as run:
        run.advance(total_steps=2)
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        [query] = run.ask(1)
        run.fail(query.id, "no")
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        run.advance(total_steps=4)
        steps = [(q.step, q.status) for q in run.state.of_kind("pool")]
        assert steps == [(1, "told"), (2, "told"), (3, "failed"), (3, "told"), (4, "told")]
        for query in run.state.of_kind("pool"):
            costs = annealed_cost(run.task.costs, query.step - 1, schedule="sigmoid", rate=0.5, renormalise=False)
            assert query.choice["costs"] == costs


def test_a_strong_schedule_turns_to_the_cheap_mesh(tmp_path):
    task = runs.tiny(costs=(1.0, 1e6))
    with runs.advanced(tmp_path / "run", 4, "mra-u", task, settings={"alpha": 10.0}) as run:
        assert [q.level for q in run.state.of_kind("pool")][1:] == [0, 0, 0]


# Random streams.


@pytest.mark.parametrize("method", ["random-mix", "mra-uhat"])
def test_the_same_seed_makes_the_same_choices_and_another_others(tmp_path, method):
    found = []
    settings = {"refit_growth": 0.4, "test": 2, "evaluate": 5}
    for number, seed in enumerate((0, 0, 1)):
        with runs.advanced(tmp_path / str(number), 4, method, seed=seed, settings=settings) as run:
            found.append(runs.decisions(run.state))
    assert found[0] == found[1]
    assert [q[2:4] for q in found[0]["queries"][8:]] != [q[2:4] for q in found[2]["queries"][8:]]


def test_random_choice_does_not_depend_on_what_was_learnt(tmp_path):
    """Its stream comes from seed, step and what runs."""
    found = []
    for number, iterations in enumerate((6, 9)):
        settings = {"iterations": iterations, "test": 0, "refit_growth": 1.0}
        with runs.advanced(tmp_path / str(number), 5, "random-mix", settings=settings) as run:
            found.append(runs.choices(run.state))
    assert found[0] == found[1]
    assert {level for _, level in found[0]} == {0, 1}


# The mesh with most to give.


def test_auto_asks_the_level_with_the_largest_gain_and_in_it_the_input_of_the_level(tmp_path):
    lcmd, typical = LargestClusterMaxDist("low", relative=True), Typical()
    with runs.ready(tmp_path / "run", "mra-auto", members=4) as run:
        for _ in range(8):
            [query] = run.ask(1)
            errors = run.state.trainings[-1].level_errors
            shares = [share.expected for share in errors.shares]
            context = run.chooser.context(run.surrogate, run.state)
            gains = level_gains(shares, run.state.counts(2, "told"), run.task.costs)
            assert query.level == int(np.argmax(gains))
            waiting = [Choice(q.row, q.level) for q in run.state.not_trained_on if q.id != query.id]
            rest = np.setdiff1d(np.arange(12), [q.row for q in run.state.of_kind("pool", "told")])
            scores = (typical if query.level else lcmd).score(context.restricted(rest), waiting)
            assert query.candidate == rest[int(np.argmax(scores[:, query.level]))]
            runs.answer(run, [query])


def test_auto_counts_a_batch_as_it_grows(tmp_path):
    """Those running and those chosen before count as bought."""
    with runs.ready(tmp_path / "run", "mra-auto", members=4, pool=28) as run:
        batch = [(q.candidate, q.level) for q in run.ask(27)]
    shutil.rmtree(tmp_path / "run")
    with runs.ready(tmp_path / "run", "mra-auto", members=4, pool=28) as run:
        assert [(q.candidate, q.level) for _ in range(27) for q in run.ask(1)] == batch
    assert len(batch) == 27


# Where candidates are compared.


def test_the_scoring_grid_is_the_coarsest_or_smaller():
    assert scoring_grid(runs.tiny(), 256) == Grid((9,), ("nodes",))
    assert scoring_grid(get_task("burgers"), 256).shape == (33,)
    assert scoring_grid(get_task("burgers", resolutions=(65, 129)), 33).shape == (33,)
    assert scoring_grid(runs.tiny_darcy(), 256).shape == (6, 6)
    assert scoring_grid(get_task("darcy3"), 256) == Grid((16, 16), get_task("darcy3").layout)
    assert scoring_grid(get_task("diffusion"), 100).shape == (10, 10)


def test_gram_matrices_are_kept_until_the_surrogate_learns(tmp_path, monkeypatch):
    made = []
    predicted = Chooser._predicted_grams
    monkeypatch.setattr(
        Chooser, "_predicted_grams", lambda self, s, rows: made.append(s.fits) or predicted(self, s, rows)
    )
    with runs.ready(tmp_path / "run", refit_growth=0.25) as run:
        for _ in range(5):
            runs.answer(run, run.ask(1))
        assert 1 < len(run.state.trainings) < 5
        assert made == list(range(1, len(run.state.trainings) + 1))


def test_choices_in_advance_are_those_of_later_calls(tmp_path, monkeypatch):
    with runs.ready(tmp_path / "run", alpha=0.0) as run:
        calls, choose = [], run.chooser.choose
        monkeypatch.setattr(run.chooser, "choose", lambda *given: calls.append(given[2]) or choose(*given))

        def ask(n):
            """What is asked for, and what would have been without choices in advance."""
            expected = [choice for choice, _ in choose(run.trainer.surrogate, run.state, n)]
            run.trainer.meanwhile = run.trainer.surrogate  # as if a fit were going on
            asked = run.ask(n, train=False)
            run.trainer.meanwhile = None
            assert [(query.candidate, query.level) for query in asked] == [tuple(choice) for choice in expected]
            return asked

        first = [*ask(1), *ask(2)]
        assert len(calls) == 1  # the second call had its choices in advance
        run.abandon(first[0].id, "its candidate was not simulated")
        ask(1)
        assert len(calls) == 2  # what the others rested on has changed
        run.train("update")
        run.tell(first[1].id, run.task.solve(first[1].f[None], first[1].level)[0])
        run.train("update")
        ask(1)
        assert len(calls) == 3
        run.trainer.meanwhile = run.trainer.surrogate
        run.ask(1, train=False, budget=1e9)
        assert calls[-1] == 1  # a budget is kept choice by choice
