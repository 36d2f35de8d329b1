"""Variational inference against its prior and its posterior."""

import math

import torch

from mrafno.data.dataset import Dataset
from mrafno.surrogate import Variational, get_surrogate
from tests.surrogate.inference.small import CIRCLE, LINE, data_of, made, waves


def test_variational_weights_without_data_return_to_the_prior():
    """The embedding of a level without examples is multiplied by zero: its posterior is the prior, N(0, 1), exactly."""
    surrogate = Variational(
        LINE,
        samples=50,
        start=0.2,
        network={"width": 6, "modes": (2,), "layers": 1, "hidden": 4, "bins": 2},
        training={"iterations": 150, "rate": 0.03, "schedule": "constant"},
    )
    surrogate.fit(Dataset.of(LINE, [waves(LINE, (8, 0))[0], None]))
    centres, spreads = (values["lift_in.weight"][0] for values in (surrogate._centres, surrogate._spreads))
    seen, unseen = 2, 3  # the columns are value, position, and one per level
    assert centres[:, unseen].abs().max() < 0.05
    torch.testing.assert_close(torch.exp(spreads[:, unseen]), torch.ones(6), rtol=0, atol=0.1)
    assert torch.exp(spreads[:, seen]).mean() < 0.9
    draws = surrogate.weights["lift_in.weight"][:, :, unseen]
    assert abs(draws.std().item() - 1) < 0.15


def test_variational_draws_have_the_posteriors_moments():
    surrogate = made("svi", samples=200)
    surrogate.fit(data_of(LINE))
    name = "mean_in.weight"
    z = (surrogate.weights[name] - surrogate._centres[name]) / torch.exp(surrogate._spreads[name])
    count = z.numel()
    assert abs(z.mean().item()) < 4 / math.sqrt(count)
    assert abs(z.var().item() - 1) < 4 * math.sqrt(2 / count)


def test_svi_fits_few_values():
    get_surrogate("svi", CIRCLE, training={"iterations": 1}).fit(data_of(CIRCLE, (1, 0)))
