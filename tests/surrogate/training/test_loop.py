"""Training: a loop that gives the same bits and survives a member's death."""

import math
from itertools import pairwise

import pytest
import torch

from mrafno.errors import TrainingError
from mrafno.surrogate.operator.fno import MemberFNO, NetworkSettings
from mrafno.surrogate.training import loop
from mrafno.surrogate.training.loop import adam, correction_decay, forget, train
from mrafno.surrogate.training.objective import example_losses, network_objective
from mrafno.surrogate.training.settings import TrainingSettings
from tests.told_examples import network_and_batches


class Parabolas:
    """Members that minimise (x - target)^2 each; one has a NaN or large loss at given steps."""

    def __init__(self, members=3, poison=(), victim=1):
        self.x = torch.zeros(members, 2, dtype=torch.float64, requires_grad=True)
        self.target = torch.arange(1, 2 * members + 1, dtype=torch.float64).view(members, 2)
        self.optimiser = torch.optim.Adam([self.x], lr=0.1, fused=True)
        self.step, self.poison, self.victim, self.restarts = 0, set(poison), victim, []

    def objective(self):
        if self.step in self.poison:
            with torch.no_grad():
                self.x[self.victim] = math.nan
        self.step += 1
        return (self.x - self.target).square().sum(1)

    def restart(self, member, times):
        self.restarts.append((member, times))
        with torch.no_grad():
            self.x[member] = 0.0

    def train(self, iterations=400, **options):
        settings = TrainingSettings(iterations=iterations, rate=0.1)
        return train(self.objective, self.optimiser, settings, **{"restart": self.restart, **options})


def test_the_loop_minimises_every_member(monkeypatch):
    monkeypatch.setattr(loop.time, "monotonic", lambda: 0.0)  # steps take no time
    problem, seen, steps = Parabolas(), [], []
    history = problem.train(watch=lambda step, losses: seen.append((step, losses)), after_step=steps.append)
    torch.testing.assert_close(problem.x.detach(), problem.target, rtol=0, atol=1e-2)
    assert steps == list(range(400))
    assert [step for step, _ in seen[:3]] == [0, 4, 25]  # the second report tells how long the rest will take
    del seen[1]
    assert [step for step, _ in seen] == history.steps == [*range(0, 400, 25), 399]
    assert [losses for _, losses in seen] == history.losses
    assert history.events == []
    assert problem.restarts == []


def test_slow_steps_are_reported_several_times_a_second(monkeypatch):
    """So that results of simulations are recorded meanwhile; nothing of the training changes."""
    clock = iter(range(100_000))
    monkeypatch.setattr(loop.time, "monotonic", lambda: 0.05 * next(clock))
    problem, seen = Parabolas(), []
    history = problem.train(30, watch=lambda step, losses: seen.append(step))
    assert seen[:3] == [0, 4, 9]  # the clock is read once a step, and again after a report
    assert max(b - a for a, b in pairwise(seen)) == 5
    assert (seen[-1], history.steps) == (29, [0, 25, 29])


def test_a_member_that_diverges_is_restarted_and_the_others_are_unchanged():
    healthy, poisoned = Parabolas(), Parabolas(poison=[60])
    healthy.train()
    history = poisoned.train()
    assert poisoned.restarts == [(1, 1)]
    assert history.events == ["member 1 diverged at step 75 and was restarted"]
    assert torch.equal(poisoned.x[[0, 2]], healthy.x[[0, 2]])
    assert poisoned.x.isfinite().all()
    # Long enough before the end for the member to arrive as well.
    torch.testing.assert_close(poisoned.x.detach(), poisoned.target, rtol=0, atol=0.2)


def test_the_members_of_a_network_are_untouched_by_one_that_dies():
    """Through every layer and the fused optimiser: bit for bit."""
    ends = []
    for poison in (False, True):
        network, batches = network_and_batches("composite", seeds=(1, 2, 3), iterations=60)
        objective, steps = network_objective(network, batches, "composite"), iter(range(1000))

        def poisoned(objective=objective, steps=steps, network=network, poison=poison):
            if next(steps) == 10 and poison:
                with torch.no_grad():
                    network.layers[0].spectral[1] = math.nan
            return objective()

        settings = TrainingSettings(iterations=60)
        history = train(
            poisoned,
            adam(network, settings, (4, 3)),
            settings,
            restart=lambda m, t, n=network: n.initialise_member(m, 100 + t),
        )
        assert len(history.events) == poison
        ends.append(network.state_dict())
    for name, value in ends[0].items():
        assert torch.equal(value[[0, 2]], ends[1][name][[0, 2]]), name
        assert not torch.equal(value[1], ends[1][name][1])
        assert ends[1][name].isfinite().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e6])
def test_what_counts_as_diverged(bad):
    """Not finite, or ten thousand times the first loss, which is 61 for this member."""
    problem = Parabolas()
    normal = problem.objective
    problem.objective = lambda: normal() + torch.tensor([0.0, 0.0, bad if problem.step == 26 else 0.0])
    assert problem.train().events == ["member 2 diverged at step 25 and was restarted"]


def test_a_large_first_loss_is_not_divergence():
    problem = Parabolas()
    normal = problem.objective
    problem.objective = lambda: normal() + 1e6
    assert problem.train().events == []


def test_too_many_restarts_are_an_error():
    with pytest.raises(TrainingError, match=r"member 1 became nan at step .*learning rate"):
        Parabolas(poison=range(1000)).train()
    with pytest.raises(TrainingError, match="member 1"):
        Parabolas(poison=[0]).train(restart=None)


def test_forgetting_clears_one_member():
    problem = Parabolas()
    problem.train(iterations=3)
    forget(problem.optimiser, 1)
    state = problem.optimiser.state[problem.x]
    for name in ("exp_avg", "exp_avg_sq"):
        assert (state[name][1] == 0).all()
        assert (state[name][[0, 2]] != 0).all()
    assert state["step"] == 3


def test_a_step_of_the_network_equals_torchs_adamw():
    """All members in one fused step, against a loop of single networks and the plain optimiser."""
    settings = TrainingSettings(iterations=4, schedule="constant", rate=1e-2)
    together, batches = network_and_batches("composite")
    train(network_objective(together, batches, "composite"), adam(together, settings, batches.sizes), settings)
    for member, seed in enumerate((1, 2)):
        alone, _ = network_and_batches("composite", seeds=(seed,))
        _, batches = network_and_batches("composite")
        optimiser = torch.optim.AdamW(alone.parameters(), lr=1e-2, weight_decay=settings.weight_decay, foreach=False)
        for _ in range(4):
            optimiser.zero_grad()
            loss = 0.0
            for level, mesh, f, y in batches.draw():
                mean, log_var = alone(f[member : member + 1], mesh, level, detach_variance=True)
                own = example_losses(mean, log_var, y[member : member + 1], "composite").mean()
                loss = loss + batches.shares[level] * own
            loss.backward()
            optimiser.step()
        for a, b in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a[member], b[0], rtol=1e-8, atol=1e-10)


def test_a_local_correction_decays_more_the_fewer_examples_inform_it():
    settings = TrainingSettings(correction_decay=2.56, weight_decay=0.01, rate=1e-3)
    assert [correction_decay(n, settings) for n in (0, 1, 2, 4, 20)] == pytest.approx([2.56, 2.56, 2.56, 1.28, 0.256])
    # A step lowers a weight by at most half.
    assert correction_decay(2, TrainingSettings(correction_decay=1e9, rate=0.01)) == pytest.approx(50.0)


def test_each_correction_is_a_group_with_its_own_decay():
    network = MemberFNO(
        NetworkSettings(
            in_channels=1,
            out_channels=1,
            levels=3,
            dim=1,
            width=4,
            hidden=4,
            modes=(2,),
            stencil_radius=1,
            spacing=(0.1,),
        ),
        2,
    ).initialise(range(2))
    settings = TrainingSettings(correction_decay=2.56, weight_decay=0.01, rate=1e-3)
    groups = adam(network, settings, (9, 2, 2)).param_groups
    assert [group["weight_decay"] for group in groups] == pytest.approx([0.01, 0.01 + 1.28, 0.01 + 2.56])
    assert [len(group["params"]) for group in groups[1:]] == [6, 6]
    held = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in network.parameters())
