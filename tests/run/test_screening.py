"""The part of a large pool that is scored: drawn at each fit, predicted in fixed groups, the same after a resume."""

import numpy as np
import pytest
import torch

from mrafno.acquisition.utilities import PoolGrams
from mrafno.run import Run, chooser, screening
from mrafno.run.screening import Screen
from tests import runs

POOL = 40


@pytest.fixture
def small(monkeypatch):
    """Pools of more than eight candidates are large, and are predicted in groups of three."""
    for module in (chooser, screening):
        monkeypatch.setattr(module, "SMALL", 8)
        monkeypatch.setattr(module, "GROUP", 3)


def large(folder, method="mra-uhat", candidates=5, **more):
    task = runs.tiny(n=POOL + 10)
    settings = {"pool": None, "candidates": candidates, "members": 3, "test": 4, "refit_growth": 0.3, **more}
    return runs.create(folder, method, task, **settings)


# The order.


def predicted(calls):
    def predict(rows):
        calls.append(rows.tolist())
        gram = torch.as_tensor(rows, dtype=torch.float64).reshape(-1, 1, 1, 1).expand(-1, 2, 3, 3)
        return PoolGrams(gram, gram[:, :, 0, 0], (4, 8))

    return predict


def test_the_first_ones_that_remain_are_taken_and_each_group_is_predicted_once(small):
    calls = []
    screen = Screen(np.arange(20), 24, [0, 1], predicted(calls))
    first = screen.first(5, np.arange(20))
    np.testing.assert_array_equal(first, np.sort(np.random.default_rng([0, 1]).permutation(20)[:5]))
    left = np.setdiff1d(np.arange(20), first[:2])
    assert set(first[2:]) < set(screen.first(5, left))
    grams = screen.grams(first)
    np.testing.assert_array_equal(grams.gram[first, 0, 0, 0], first)
    assert [len(rows) for rows in calls] == [3, 3]
    screen.grams(np.append(first, 22))  # one that is not in the order is predicted by itself
    assert calls[2:] == [[22]]
    np.testing.assert_array_equal(screen.grams(first).log_noise[22], [22, 22])
    assert len(calls) == 3


def test_there_may_be_fewer_than_are_scored(small):
    screen = Screen(np.arange(4), 4, [0], predicted([]))
    np.testing.assert_array_equal(screen.first(10, np.array([1, 3])), [1, 3])
    assert not len(screen.first(10, np.array([], dtype=np.int64)))


# In a run.


@pytest.mark.parametrize("method", ["mra-auto", "mra-u", "mr-predvar", "coreset-mix", "random-mix"])
def test_every_method_scores_a_part_and_uses_up_the_pool(tmp_path, small, method):
    with large(tmp_path / "run", method, refit_growth=5.0, evaluate=99, test=0) as run:
        assert run.advance().reason == "asked for the whole pool"
        assert len({q.row for q in run.state.of_kind("pool")}) == len(run.inputs.pool)


def test_only_groups_with_scored_candidates_are_predicted(tmp_path, small, monkeypatch):
    with large(tmp_path / "run") as run:
        runs.set_up(run).train_and_evaluate_if_due()
        counted = []
        whole = chooser.Chooser._predicted_grams

        def counting(self, surrogate, rows):
            counted.append(len(rows))
            return whole(self, surrogate, rows)

        monkeypatch.setattr(chooser.Chooser, "_predicted_grams", counting)
        run.ask(1)
        assert sum(counted) < 15  # eight targets, in groups of three of 40
        before = len(counted)
        run.ask(1)  # the same fit: what is known is not predicted again
        assert len(counted) - before <= 1


def test_the_choice_is_the_best_of_the_scored(tmp_path, small):
    with large(tmp_path / "run", "mra-u", candidates=9) as run:
        runs.set_up(run).train_and_evaluate_if_due()
        context = run.chooser.context(run.surrogate, run.state)
        assert len(context.candidates) == 9
        assert len(context.remaining) == len(run.inputs.pool)
        scores = np.asarray(run.method.acquisition.score(context, [])) / np.asarray(context.cost_weights)
        row, level = np.unravel_index(np.argmax(scores), scores.shape)
        [query] = run.ask(1)
        assert (query.candidate, query.level) == (context.candidates[row], level)


@pytest.mark.parametrize("method", ["mra-auto", "mra-uhat"])
def test_a_run_that_is_opened_again_at_each_step_asks_the_same(tmp_path, small, method):
    with large(tmp_path / "straight", method) as run:
        runs.set_up(run)
        for _ in range(6):
            runs.answer(run, run.ask(1))
        expected = runs.choices(run.state)
    runs.set_up(large(tmp_path / "stopped", method)).close()
    for _ in range(6):
        with Run.open(tmp_path / "stopped", runs.tiny(n=POOL + 10)) as run:
            runs.answer(run, run.ask(1))
            found = runs.choices(run.state)
    assert found == expected


def test_candidates_none_scores_all(tmp_path, small):
    with large(tmp_path / "run", candidates=None) as run:
        runs.set_up(run).train_and_evaluate_if_due()
        context = run.chooser.context(run.surrogate, run.state)
        assert len(context.candidates) == len(run.inputs.pool)
