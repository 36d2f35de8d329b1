"""Training steps in bfloat16 against the same in float32."""

import numpy as np
import pytest
import torch

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.surrogate import Ensemble
from mrafno.surrogate.operator.adapters import NetworkFactory, make_network
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.presets import network_preset
from mrafno.surrogate.training import low_precision
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.low_precision import Bfloat16Copy, bfloat16_is_fast, bfloat16_steps
from mrafno.surrogate.training.objective import network_objective
from mrafno.surrogate.training.settings import TrainingSettings
from tests.small_surrogates import DOMAINS

#: Half the distance from 1 to the next number.
ROUNDING = 2.0**-9


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(low_precision, "bfloat16_is_fast", lambda device: device.type == "cpu")


def data_of(domain, n=12):
    rng = np.random.default_rng(0)
    pairs = []
    for grid in domain.grids:
        f = rng.standard_normal((n, domain.in_channels, *[1] * grid.dim)) + rng.standard_normal(grid.shape)
        pairs.append((f, np.tanh(f[:, : domain.out_channels])))
    return Dataset.of(domain, pairs)


def objective_of(dim, steps, seed=0, **changes):
    domain = DOMAINS[dim]
    settings = network_preset("fast", domain, modes=(2,) * dim, width=16, hidden=16, **changes)
    network = MemberFNO(settings, 2).initialise([1, 2])
    data = data_of(domain)
    batches = Batches(data, Normaliser.fit(data), TrainingSettings(batch=6), [[seed, 0], [seed, 1]])
    return network, network_objective(network, batches, "composite", bfloat16_steps=steps)


def gradients(network, objective):
    for parameter in network.parameters():
        parameter.grad = None
    losses = objective()
    losses.sum().backward()
    assert losses.dtype == torch.float32
    assert {parameter.grad.dtype for parameter in network.parameters()} == {torch.float32}
    return losses.detach(), torch.cat([parameter.grad.flatten() for parameter in network.parameters()])


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("stencil_radius", [0, 1])
def test_losses_and_gradients_are_those_of_float32_but_for_rounding(dim, stencil_radius):
    network, rounded = objective_of(dim, 1, stencil_radius=stencil_radius)
    other, exact = objective_of(dim, 0, stencil_radius=stencil_radius)
    (loss, gradient), (expected_loss, expected) = gradients(network, rounded), gradients(other, exact)
    torch.testing.assert_close(loss, expected_loss, rtol=4 * ROUNDING, atol=0)
    difference = float((gradient - expected).norm() / expected.norm())
    assert 0.01 * ROUNDING < difference < 20 * ROUNDING


def test_steps_after_the_first_ones_are_in_float32_on_the_same_minibatches():
    network, rounded = objective_of(2, 2)
    other, exact = objective_of(2, 0)
    for step in range(4):
        found, expected = gradients(network, rounded), gradients(other, exact)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)) == (step >= 2)


def test_a_copy_follows_the_weights():
    network = MemberFNO(network_preset("fast", DOMAINS[2], modes=(2, 2)), 2).initialise([1, 2])
    copied = Bfloat16Copy(network)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2).add_(1)
    cast = copied.cast()
    pairs = zip(cast.modules(), network.named_modules(), strict=True)
    seen = [(getattr(one, name), p) for one, (_, other) in pairs for name, p in other._parameters.items()]
    assert len(seen) == len(list(network.parameters()))
    assert all(torch.equal(value, p.to(torch.bfloat16)) for value, p in seen)


def test_which_fits_have_such_steps(fast):
    settings, domain = TrainingSettings(iterations=200, bfloat16_share=0.75), DOMAINS[2]
    small = network_preset("fast", domain, modes=(2, 2))
    assert bfloat16_steps(MemberFNO(small, 1), settings) == 150
    assert bfloat16_steps(MemberFNO(small, 1), settings.changed(bfloat16_share=0.0)) == 0
    assert bfloat16_steps(MemberFNO(small, 1, torch.float64), settings) == 0
    assert bfloat16_steps(MemberFNO(small, 1).to("meta"), settings) == 0
    factory = NetworkFactory(lambda: torch.nn.Conv2d(domain.in_channels + 4, domain.out_channels, 1))
    assert bfloat16_steps(make_network(small, 1, torch.float32, factory), settings) == 0


def test_no_processor_has_it_that_torch_does_not_know(monkeypatch):
    for name in low_precision._CHECKS:
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert not bfloat16_is_fast(torch.device("cpu"))
    monkeypatch.setattr(torch.cpu, low_precision._CHECKS[0], lambda: True, raising=False)
    assert bfloat16_is_fast(torch.device("cpu"))
    assert not bfloat16_is_fast(torch.device("meta"))


def test_two_fits_are_equal_and_learn_as_well_as_one_in_float32(fast):
    data, f = data_of(DOMAINS[2], 30), data_of(DOMAINS[2], 40).inputs[1][30:]
    truth = np.tanh(f[:, : DOMAINS[2].out_channels])

    def predicted(share):
        training = {"iterations": 150, "bfloat16_share": share}
        made = Ensemble(DOMAINS[2], members=2, network={"width": 16, "modes": (2, 2)}, training=training)
        made.fit(data)
        return made.predict(f, check=False).mean

    first, second, exact = predicted(0.75), predicted(0.75), predicted(0.0)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, exact)
    errors = [float(np.linalg.norm(mean - truth) / np.linalg.norm(truth)) for mean in (first, exact)]
    assert errors[0] < 1.1 * errors[1] < 0.3
