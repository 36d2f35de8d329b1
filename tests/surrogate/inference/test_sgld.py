"""Stochastic gradient Langevin dynamics against exact moments."""

import math

import numpy as np
import torch

from mrafno.data.dataset import Dataset
from mrafno.surrogate import Langevin
from mrafno.surrogate.inference.sgld import Dynamics
from mrafno.surrogate.training import divergence, low_precision
from tests.surrogate.inference.small import CIRCLE, LINE, PLANE, data_of, made, poisoned, waves


def test_langevin_steps_have_the_right_stationary_distribution():
    """U = a (x - 1)^2 / 2 per value and the prior: 4000 chains against the exact mean and variance of the recursion.

    The discretisation's own variance is 1 / (2 - k) times 2 / (precision), k the step's contraction; both are checked
    through the exact value, and that it is close to the posterior's 1 / (a N + 1).
    """
    chains, values, a, step, scale = 4000, 5.0, 0.7, 0.02, 3.0
    x = torch.zeros(chains, dtype=torch.float64, requires_grad=True)
    scales = [torch.full_like(x, scale).detach()]
    dynamics = Dynamics([x], scales, values, torch.Generator().manual_seed(0), step)
    for _ in range(400):
        x.grad = None
        (0.5 * a * (x - 1).square()).sum().backward()
        dynamics.step()
    found = x.detach().numpy()
    precision = a * values + 1
    contraction = step * scale * precision / values
    variance = (2 * step * scale / values) / (1 - (1 - contraction) ** 2)
    assert abs(variance * precision - 1) < 0.05
    assert abs(found.mean() - a * values / precision) < 4 * math.sqrt(variance / chains)
    assert abs(found.var() / variance - 1) < 4 * math.sqrt(2 / chains)


def test_langevin_keeps_states_of_one_chain():
    """Different from each other, and the later ones farther from the first."""
    surrogate = Langevin(
        CIRCLE, samples=5, step=1e-4, network={"width": 6, "modes": (3,), "layers": 1}, training={"iterations": 80}
    )
    surrogate.fit(data_of(CIRCLE))
    states = torch.cat([w.flatten(1) for w in surrogate.weights.values()], dim=1)
    assert len(states) == 5
    distances = (states - states[0]).norm(dim=1)
    assert (distances[1:] > 0).all()
    assert distances[4] > distances[1]


def test_sgld_gives_all_its_samples_after_few_steps():
    surrogate = made("sgld", samples=20, iterations=100)
    surrogate.fit(data_of(LINE))
    assert surrogate.predict(np.ones((1, 1, 20))).sample_count == surrogate.sample_count == 20


def test_sgld_of_one_example_is_finite():
    data = Dataset.of(LINE, [None, waves(LINE, (0, 1))[1]])
    surrogate = made("sgld", iterations=26)
    fit = surrogate.fit(data)
    assert math.isfinite(fit.loss)
    assert fit.events == ()
    assert np.isfinite(surrogate.predict(data.inputs[1]).samples).all()


def test_sgld_reports_a_restart_while_it_optimises(monkeypatch):
    poisoned(monkeypatch, 0)
    assert len(made("sgld", iterations=60).fit(data_of(LINE)).events) == 1


def test_the_chain_sees_all_points_in_full_precision(monkeypatch):
    seen = []
    objective = divergence.network_objective

    def recorded(*arguments, bfloat16_steps, early_steps):
        seen.append((bfloat16_steps > 0, early_steps > 0))
        return objective(*arguments, bfloat16_steps=bfloat16_steps, early_steps=early_steps)

    monkeypatch.setattr(divergence, "network_objective", recorded)
    monkeypatch.setattr(low_precision, "bfloat16_is_fast", lambda device: True)
    made("sgld", PLANE).fit(data_of(PLANE))
    assert seen == [(True, True), (False, False)]
