"""The context and the protocols: what an acquisition from outside sees, and what its mistakes are answered with."""

import numpy as np
import pytest

from mrafno.acquisition import Acquisition, Choice, Information, MeshRule, MultilevelGain, scorer, select
from mrafno.errors import AcquisitionError
from tests.acquisition.contexts import context_of


class Ones:
    name = "ones"

    def score(self, context, chosen):
        return np.ones((len(context.candidates), context.levels))


class Rule:
    name = "rule"

    def __init__(self, gains):
        self._gains = gains

    def gains(self, context, chosen):
        return self._gains(chosen) if callable(self._gains) else self._gains


def test_built_in_and_outside_objects_satisfy_the_protocols():
    assert isinstance(Information(), Acquisition)
    assert isinstance(Ones(), Acquisition)
    assert isinstance(MultilevelGain(), MeshRule)
    assert isinstance(Rule([1.0]), MeshRule)
    assert not isinstance(object(), Acquisition)


def test_levels_count_from_either_end():
    context = context_of(range(3))
    assert [context.level(level) for level in (0, 2, -1, -3)] == [0, 2, 2, 0]
    for wrong in (3, -4):
        with pytest.raises(AcquisitionError, match=f"no level {wrong}; the task has 3"):
            context.level(wrong)


def test_predictions_and_features_are_of_the_candidates_unless_others_are_named():
    asked = []
    context = context_of(
        [4, 7],
        predictor=lambda rows, level: asked.append((rows.tolist(), level)),
        features=lambda rows, level: rows + level,
    )
    context.predict()
    context.predict(0, [1, 2, 3])
    assert asked == [([4, 7], 2), ([1, 2, 3], 0)]
    assert context.features(1).tolist() == [5, 8]
    assert context.restricted(np.array([9])).features(0).tolist() == [9]


def test_a_context_without_a_surrogate_says_so():
    context = context_of([1], features=None, pool_grams=None)
    for call in (context.predict, context.features, context.grams):
        with pytest.raises(AcquisitionError, match="context: there are no"):
            call()


def test_random_numbers_depend_on_seed_step_and_purpose_only():
    def drawn(purpose=0, **about):
        return context_of([1], **about).generator(purpose).random()

    assert drawn(seed=1, step=2) == drawn(seed=1, step=2)
    assert len({drawn(seed=1, step=2), drawn(seed=2, step=2), drawn(seed=1, step=3), drawn(1, seed=1, step=2)}) == 4


def test_a_value_is_computed_once_per_batch():
    made = []
    context = context_of([1, 2])
    for here in (context, context.restricted(np.array([2]))):
        assert here.once("key", lambda: made.append(1) or 5) == 5
    assert made == [1]


def test_a_mesh_rule_leaves_one_level():
    score = scorer(Ones(), context_of(range(4)), Rule(lambda chosen: [1.0, len(chosen) * 2.0, 0.5]))
    assert score(np.arange(4), []).tolist() == [[1.0, -np.inf, -np.inf]] * 4
    assert score(np.arange(2), [Choice(9, 0)]).tolist() == [[-np.inf, 1.0, -np.inf]] * 2


def test_a_level_beyond_the_budget_gives_way():
    context = context_of(range(9), costs=(1.0, 4.0), budget=6.0)
    found = select(scorer(Ones(), context, Rule([1.0, 2.0])), n=5, remaining=range(9), prices=(1, 4), budget=6.0)
    assert [choice.level for choice in found] == [1, 0, 0]


@pytest.mark.parametrize("shape", [(3,), (3, 1), (2, 3)])
def test_scores_of_a_wrong_shape_are_refused(shape):
    wrong = Ones()
    wrong.score = lambda context, chosen: np.ones(shape)
    with pytest.raises(
        AcquisitionError, match=r"acquisition 'ones': score returned shape .* expected \(3, 3\) \(candidates"
    ):
        scorer(wrong, context_of(range(3)))(np.arange(3), [])


@pytest.mark.parametrize("gains", [[1.0], [1.0, np.nan, 2.0], [[1.0, 2.0, 3.0]]])
def test_gains_that_are_not_one_number_per_level_are_refused(gains):
    with pytest.raises(AcquisitionError, match=r"mesh rule 'rule': gains returned .* one number for each of 3 levels"):
        scorer(Ones(), context_of(range(3)), Rule(gains))(np.arange(3), [])


def test_a_mesh_rule_decides_before_inputs_are_scored():
    """So that scores of other levels need not be computed."""
    asked = []

    class Asks:
        name = "asks"

        def score(self, context, chosen):
            asked.append(context.only)
            return np.zeros((len(context.candidates), context.levels))

    class Finest:
        name = "finest"

        def gains(self, context, chosen):
            return [0.0, 0.0, 1.0]

    context = context_of(range(4))
    assert [choice.level for choice in select(scorer(Asks(), context, Finest()), n=2, remaining=range(4))] == [2, 2]
    select(scorer(Asks(), context), n=1, remaining=range(4))
    assert asked == [2, 2, None]
