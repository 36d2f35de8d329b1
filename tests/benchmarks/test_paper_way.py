"""The plain step computes what the paper says, and what mrafno computes where both must agree."""

import numpy as np
import pytest
import torch

from benchmarks import paper_way
from mrafno.acquisition import pool_grams, u_hat
from mrafno.data.dataset import Dataset, Normaliser
from mrafno.grids import relative_l2
from mrafno.surrogate.prediction import Prediction
from mrafno.tasks import Burgers


@pytest.fixture(scope="module")
def task():
    return Burgers(resolutions=(17, 33), viscosity=0.02)


@pytest.fixture(scope="module")
def data(task):
    f = task.sample(16, seed=0)
    pairs = [(task.restrict(f[:12], 0), None), (f[12:], None)]
    return Dataset.of(task.domain, [(f, task.solve(f, level)) for level, (f, _) in enumerate(pairs)])


@pytest.mark.parametrize("noise", [-8.0, 2.0])
def test_its_utility_is_that_of_mrafno_for_the_same_predictions(noise):
    rng = np.random.default_rng(0)
    levels = [
        Prediction(rng.normal(size=(5, 7, 2, *grid)), noise + rng.normal(size=(5, 7))) for grid in ((9, 9), (17, 17))
    ]
    targets = [1, 4, 6]
    goals = Prediction(levels[-1].samples[:, targets], levels[-1].log_var[:, targets])
    gram = pool_grams([levels]).gram
    expected = u_hat(gram, gram[targets, -1])
    np.testing.assert_allclose(paper_way.utility(levels, goals, range(7)), expected, rtol=1e-7)


def test_members_differ_and_learn(task, data):
    torch.set_num_threads(1)
    normaliser = Normaliser.fit(data)
    members = [paper_way.Member(data, normaliser, seed) for seed in range(2)]
    f, y = data.inputs[1], data.outputs[1]
    before = float(relative_l2(paper_way.ensemble_mean(members, f, 1), y).mean())
    for member in members:
        for _ in range(40):
            member.epoch()
    after = float(relative_l2(paper_way.ensemble_mean(members, f, 1), y).mean())
    assert after < 0.5 < before
    one, other = (member.predict(f, 1)[0] for member in members)
    assert np.abs(one - other).max() > 1e-3


def test_an_epoch_has_every_example_once_in_batches_of_one_level(task, data):
    member = paper_way.Member(data, Normaliser.fit(data), 0)
    batches = member.batches()
    assert sorted((level, len(f)) for level, f, _ in batches) == [(0, 12), (1, 4)]
    assert member.optimiser.param_groups[0]["lr"] == paper_way.RATE


def test_it_chooses_the_largest_utility_per_cost(task, data):
    members = [paper_way.Member(data, Normaliser.fit(data), seed) for seed in range(3)]
    candidates = task.sample(6, seed=1)
    row, level = paper_way.choose(members, candidates, task.restrict, (1.0, 1e9), [0, 2])
    assert level == 0
    levels = [paper_way.predict(members, task.restrict(candidates, r), r) for r in (0, 1)]
    goals = paper_way.predict(members, candidates[[0, 2]], 1)
    assert row == int(np.argmax(paper_way.utility(levels, goals, range(6))[:, 0]))


def test_two_dimensions_have_the_modes_of_both_signs():
    torch.manual_seed(0)
    layer = paper_way.SpectralConvolution(2, 3)
    v = torch.randn(1, paper_way.WIDTH, 8, 8)
    spectrum = torch.fft.rfft2(layer(v)).abs().sum((0, 1))
    kept = (spectrum > 1e-4 * spectrum.max()).nonzero().tolist()
    # Column 0 is its own mirror image, which makes row 3 of -3 there.
    assert {row for row, column in kept if column} == {0, 1, 2, 5, 6, 7}
    assert {column for _, column in kept} == {0, 1, 2}
