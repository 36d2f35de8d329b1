"""What training minimises: exact likelihoods and the composite loss."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Independent, MultivariateNormal, Normal

from mrafno.surrogate.training.batches import values_per_example
from mrafno.surrogate.training.objective import (
    LOG_VAR_BOUNDS,
    bounded,
    example_losses,
    negative_log_likelihood,
    network_objective,
)
from tests.told_examples import data_of, domain_of, network_and_batches


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
        network_objective(network, batches, loss)().sum().backward()
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


def test_early_steps_are_the_first_ones():
    network, batches = network_and_batches("composite", points=4, early_points=2, early_share=0.5)
    seen = []
    draw = batches.draw

    def recorded(early=False):
        seen.append(early)
        return draw(early)

    batches.draw = recorded
    objective = network_objective(network, batches, "composite", early_steps=2)
    for _ in range(4):
        objective()
    assert seen == [True, True, False, False]
