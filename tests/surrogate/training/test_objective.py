"""What training minimises: exact likelihoods, and steps that are recorded and replayed."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Independent, MultivariateNormal, Normal

from mrafno.data.dataset import Normaliser
from mrafno.surrogate.operator.fno import MemberFNO, NetworkSettings
from mrafno.surrogate.training import objective
from mrafno.surrogate.training.batches import Batches, values_per_example
from mrafno.surrogate.training.loop import TrainingSettings, adam, train
from mrafno.surrogate.training.objective import (
    LOG_VAR_BOUNDS,
    bounded,
    example_losses,
    negative_log_likelihood,
    network_objective,
)
from tests.told_examples import SEEDS, data_of, domain_of, network_and_batches


@pytest.mark.parametrize("shape", [(2, 9), (3, 4, 5)])
def test_likelihood_equals_torch_distributions(shape):
    """With the factor d on the log-variance: d independent values of one variance, and as one dense Gaussian."""
    generator = torch.Generator().manual_seed(0)
    mean, target = (torch.randn(4, 3, *shape, generator=generator, dtype=torch.float64) for _ in range(2))
    log_var = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    found = negative_log_likelihood(mean, log_var, target)
    scale = torch.exp(log_var / 2).view(4, 3, *[1] * len(shape)).expand_as(mean)
    expected = -Independent(Normal(mean, scale), len(shape)).log_prob(target)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    d = math.prod(shape)
    dense = MultivariateNormal(mean.flatten(2), torch.exp(log_var)[..., None, None] * torch.eye(d, dtype=torch.float64))
    torch.testing.assert_close(found, -dense.log_prob(target.flatten(2)), rtol=1e-12, atol=0)


def test_likelihood_loss_divides_by_the_values_of_an_average_example():
    """So the sum over all examples is the exact likelihood of all values, over one constant."""
    domain = domain_of((8,), (16,), outputs=2)
    data = data_of(domain, (6, 2))
    average = 2 * (6 * 8 + 2 * 16) / 8
    shares = values_per_example(data)
    np.testing.assert_allclose(shares, [16 / average, 32 / average])
    generator = torch.Generator().manual_seed(0)
    for level, n in enumerate((8, 16)):
        mean, target = (torch.randn(2, 3, 2, n, generator=generator, dtype=torch.float64) for _ in range(2))
        log_var = torch.randn(2, 3, generator=generator, dtype=torch.float64)
        found = example_losses(mean, log_var, target, "likelihood", shares[level])
        torch.testing.assert_close(found, negative_log_likelihood(mean, bounded(log_var), target) / average)


def test_best_log_variance_of_the_likelihood_is_that_of_the_residuals():
    """Without the factor d the minimum would be elsewhere."""
    residual = 0.3 * torch.randn(1, 1, 2, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    log_var = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    for loss in ("likelihood", "composite"):
        optimum = torch.log(residual.square().mean()).item()
        # The softly bounded value is what the likelihood sees.
        raw = torch.full_like(log_var, optimum).requires_grad_()
        inverse = raw + (raw - bounded(raw)).detach()
        value = example_losses(torch.zeros_like(residual), inverse, residual, loss)
        (gradient,) = torch.autograd.grad(value.sum(), inverse)
        assert abs(gradient.item()) < 1e-3
        (away,) = torch.autograd.grad(
            example_losses(torch.zeros_like(residual), inverse + 0.5, residual, loss).sum(), inverse
        )
        assert away.item() > 0.1


def test_log_variance_is_bounded_softly():
    low, high = LOG_VAR_BOUNDS
    x = torch.linspace(-60, 60, 2401, dtype=torch.float64, requires_grad=True)
    y = bounded(x)
    assert y.min() >= low - 1e-6
    assert y.max() <= high
    assert (y.diff() >= 0).all()
    (slope,) = torch.autograd.grad(y.sum(), x)
    inside = (x > low + 8) & (x < high - 8)
    torch.testing.assert_close(y[inside], x[inside], rtol=0, atol=1e-3)
    assert (slope >= 0).all()
    assert (slope <= 1).all()
    extreme = bounded(torch.tensor([-1e30, 1e30, -math.inf, math.inf]))
    torch.testing.assert_close(extreme, torch.tensor([low, high, low, high]), rtol=0, atol=1e-5)


def test_composite_loss_is_relative_error_and_the_likelihood_of_the_noise():
    generator = torch.Generator().manual_seed(0)
    mean, target = (torch.randn(2, 3, 1, 16, generator=generator, dtype=torch.float64) for _ in range(2))
    log_var = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    relative = (mean - target).flatten(2).norm(dim=-1) / target.flatten(2).norm(dim=-1)
    expected = relative + negative_log_likelihood(mean, bounded(log_var), target) / 16
    torch.testing.assert_close(example_losses(mean, log_var, target, "composite"), expected)


def test_variance_of_the_composite_loss_does_not_reach_the_mean():
    mean = torch.randn(1, 2, 1, 8, dtype=torch.float64, requires_grad=True)
    target = torch.randn(1, 2, 1, 8, dtype=torch.float64)
    log_var = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    gradients = []
    for shift in (0.0, -5.0):
        value = example_losses(mean, log_var + shift, target, "composite").sum()
        gradients.append(torch.autograd.grad(value, (mean, log_var)))
    assert torch.equal(gradients[0][0], gradients[1][0])
    assert not torch.equal(gradients[0][1], gradients[1][1])


@pytest.mark.parametrize("loss", ["composite", "likelihood"])
def test_only_composite_keeps_the_variance_from_the_shared_layers(loss):
    gradients = []
    for bias in (0.0, 3.0):
        network, batches = network_and_batches(loss)
        with torch.no_grad():
            network.variance_out.bias += bias
        network_objective(network, batches, loss, record=False)().sum().backward()
        gradients.append({name: p.grad for name, p in network.named_parameters()})
    for name, gradient in gradients[0].items():
        assert torch.equal(gradient, gradients[1][name]) == (loss == "composite" and not name.startswith("variance"))


@pytest.mark.parametrize("loss", ["composite", "likelihood"])
def test_losses_of_zero_targets_and_perfect_means_have_finite_gradients(loss):
    for target in (torch.zeros(1, 2, 1, 8), torch.ones(1, 2, 1, 8)):
        for mean in (torch.zeros(1, 2, 1, 8), target.clone(), torch.full((1, 2, 1, 8), 1e-30)):
            mean, log_var = mean.requires_grad_(), torch.tensor([[-1e4, 1e4]], requires_grad=True)
            value = example_losses(mean, log_var, target, loss)
            gradients = torch.autograd.grad(value.sum(), (mean, log_var))
            assert value.isfinite().all()
            assert all(g.isfinite().all() for g in gradients)


# Recorded steps.


@pytest.fixture
def recorders(monkeypatch):
    """All recorders of a test, in which steps are recorded from the third of a kind on."""
    made = []

    class Noted(objective._Recorder):
        def __init__(self, loss):
            super().__init__(loss)
            made.append(self)

    monkeypatch.setattr(objective, "_Recorder", Noted)
    monkeypatch.setattr(objective, "_WORTH", 3)
    objective._recorder.cache_clear()
    yield made
    objective._recorder.cache_clear()


def replayed_steps(recorders):
    """How many steps each of them replayed."""
    return [recorder.steps - 2 for recorder in recorders if recorder.recording is not None]


def trained(kind, iterations, rows=(12, 5), weight=1.0, fft=None, record=True, **settings):
    """Weights and losses of two members after some steps."""
    domain = domain_of((9,), (17,))
    data = data_of(domain, rows)
    network_settings = NetworkSettings(in_channels=1, out_channels=1, levels=2, dim=1, width=6, modes=(3,), **settings)
    network = MemberFNO(network_settings, 2).initialise([1, 2])
    for layer in network.layers:
        layer.fft = fft
    chosen = TrainingSettings(iterations=iterations, batch=6, loss=kind)
    batches = Batches(data, Normaliser.fit(data), chosen, SEEDS[:2])
    found = network_objective(network, batches, kind, record=record)
    history = train(lambda: found() * torch.tensor([1.0, weight]), adam(network, chosen), chosen)
    return [p.detach().clone() for p in network.parameters()], history.losses


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("likelihood", {}), ("composite", {"stencil_radius": 1, "spacing": (0.125,)}), ("composite", {"fft": True})],
)
@pytest.mark.parametrize("rows", [(12, 5), (12, 0)])
def test_replayed_steps_give_the_same_bits(recorders, kind, settings, rows):
    """Also where a level has no examples, so that its corrections have no derivative."""
    replayed = trained(kind, 12, rows, **settings)
    assert replayed_steps(recorders) == [10]
    plain = trained(kind, 12, rows, record=False, **settings)
    assert all(torch.equal(a, b) for a, b in zip(replayed[0], plain[0], strict=True))
    assert replayed[1] == plain[1]


def test_a_recording_serves_other_networks_and_numbers_of_the_same_kind(recorders):
    """Eight of 12 + 5 draw as many of each level as of 13 + 5, though each counts for less."""
    trained("composite", 4, (12, 5))
    replayed = trained("composite", 8, (13, 5))
    assert replayed_steps(recorders) == [10]
    plain = trained("composite", 8, (13, 5), record=False)
    assert all(torch.equal(a, b) for a, b in zip(replayed[0], plain[0], strict=True))


def test_members_of_a_replayed_step_may_count_differently(recorders):
    replayed = trained("composite", 8, weight=0.25)
    assert replayed_steps(recorders) == [6]
    plain = trained("composite", 8, weight=0.25, record=False)
    for a, b in zip(replayed[0], plain[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_recorded_is_computed_as_before(recorders, monkeypatch):
    def broken(*_):
        raise RuntimeError("no tracing here")

    monkeypatch.setattr(objective, "Recording", broken)
    with pytest.warns(UserWarning, match="could not be recorded and take longer. no tracing here"):
        found = trained("composite", 8)
    assert not replayed_steps(recorders)
    assert found[1] == trained("composite", 8, record=False)[1]
