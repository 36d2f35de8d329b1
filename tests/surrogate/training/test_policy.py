"""When a fit is due, from what start, and for how long."""

import pytest

from mrafno.errors import SurrogateError
from mrafno.surrogate.training.policy import TrainingPolicy
from mrafno.surrogate.training.settings import TrainingSettings

POLICY, TRAINING = TrainingPolicy(), TrainingSettings(iterations=4000, batch=40)


def due(trained, new, at_refit, members=5, **changes):
    return POLICY.changed(**changes).due(
        trained=trained, new=new, at_refit=at_refit, members=members, first=not trained
    )


def test_the_first_fit_is_from_scratch_and_nothing_new_is_no_fit():
    assert due(0, 6, 0) == "scratch"
    assert due(0, 0, 0) is None
    assert due(20, 0, 20) is None


def test_growth_is_a_fit_on_all_examples_from_scratch_while_they_are_few():
    assert due(29, 1, 20) == "update"
    assert due(30, 1, 20) == "scratch"
    assert due(290, 10, 200) == "update"
    assert due(290, 11, 200) == "refit"
    assert due(30, 1, 20, scratch_below=0) == "refit"
    assert due(20, 1, 20, refit_growth=0) == "scratch"


@pytest.mark.parametrize(
    ("members", "trained", "wait"), [(5, 4, 1), (5, 149, 1), (5, 150, 2), (5, 290, 3), (5, 900, 4), (2, 900, 1)]
)
def test_updates_become_rarer_up_to_the_number_of_members(members, trained, wait):
    for new in range(1, wait):
        assert due(trained, new, trained, members) is None
    assert due(trained, wait, trained, members) in ("update", "scratch")


@pytest.mark.parametrize(
    ("sizes", "iterations", "batch"),
    [((1, 0), 411, 20), ((10, 10), 620, 20), ((90, 10), 1500, 20), ((300, 0), 3700, 30), ((400, 50), 4000, 40)],
)
def test_few_examples_have_fewer_iterations_and_smaller_steps(sizes, iterations, batch):
    """A tenth, and eleven tenths of the share of 400 examples."""
    found = POLICY.settings("scratch", TRAINING, sizes)
    assert (found.iterations, found.batch, found.rate) == (iterations, batch, TRAINING.rate)


def test_refits_have_no_early_steps():
    training = TRAINING.changed(early_points=8, early_share=0.5)
    shares = {kind: POLICY.settings(kind, training, (30, 4)).early_share for kind in ("scratch", "refit", "update")}
    assert shares == {"scratch": 0.5, "refit": 0.0, "update": 0.5}


def test_levels_start_close_together_while_one_of_them_is_rare():
    scales = [POLICY.settings("scratch", TRAINING, sizes).level_embedding_scale for sizes in ((200, 200), (390, 10))]
    assert scales == [1.0, 0.05]
    assert (
        POLICY.settings("scratch", TRAINING, (400, 0)).level_embedding_scale == 1.0
    )  # one level differs from no other
    assert POLICY.changed(full_size=0).settings("scratch", TRAINING, (2, 2)) == TRAINING.changed(batch=20)


def test_refits_and_updates_have_their_own_iterations_and_rates():
    refit = POLICY.settings("refit", TRAINING, (300, 10))
    assert refit == TRAINING.changed(iterations=1200, batch=40, rate=2e-3)
    # A fit from scratch on 12 examples has 532 iterations: a refit on as many is not longer than half of it.
    assert POLICY.settings("refit", TRAINING, (10, 2)).iterations == 266
    assert POLICY.changed(scale_iterations=False).settings("refit", TRAINING, (10, 2)).iterations == 1200
    assert POLICY.changed(full_size=0, refit_share=1.0).settings("refit", TRAINING, (10, 2)).iterations == 4000
    update = POLICY.settings("update", TRAINING, (300, 10))
    assert update == TRAINING.changed(iterations=40, batch=20, rate=1e-3)


@pytest.mark.parametrize("changes", [{"refit_growth": -0.1}, {"update_iterations": 0}, {"refit_rate": -1.0}])
def test_impossible_settings_are_refused(changes):
    with pytest.raises(SurrogateError, match=f"training policy: {next(iter(changes))} must be"):
        TrainingPolicy(**changes)


def test_it_comes_back_from_json():
    policy = TrainingPolicy(refit_growth=0.25, update_batch=7)
    assert TrainingPolicy(**policy.as_json()) == policy
