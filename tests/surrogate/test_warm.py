import math

import pytest
import torch

from mrafno.surrogate.warm import RunningAverage, moments, remember


class Weights(torch.nn.Module):
    def __init__(self, *values):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(values, dtype=torch.float64)[:, None])
        self.unused = torch.nn.Parameter(torch.zeros(len(values), 1, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(len(values), dtype=torch.int64))


def test_average_has_half_forgotten_after_its_half_life():
    network = Weights(1.0, 3.0)
    average = RunningAverage(network, {n: torch.zeros_like(v) for n, v in network.state_dict().items()}, half_life=7)
    for step in range(7):
        average(step)
    torch.testing.assert_close(average.finished(set())["w"], network.w.detach() / 2)


def test_members_that_were_restarted_or_spoilt_are_taken_as_they_are():
    network = Weights(1.0, 2.0, 3.0)
    average = RunningAverage(network, {n: torch.zeros_like(v) for n, v in network.state_dict().items()}, half_life=1)
    with torch.no_grad():
        network.w[1] = math.nan
    average(0)
    with torch.no_grad():
        network.w[1] = 5.0
    average(1)
    assert average.finished({2})["w"].flatten().tolist() == pytest.approx([0.75, 5.0, 3.0])


def test_an_optimiser_that_remembers_takes_the_same_steps():
    """A long run of Adam, cut in two: after so many steps the correction for a short memory is gone."""
    ends = []
    for cut in (False, True):
        network = Weights(0.5, -2.0)
        optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
        for step in range(12_000):
            if cut and step == 11_990:
                kept = [moments(optimiser, network, which) for which in ("exp_avg", "exp_avg_sq")]
                assert not kept[0]["unused"].any()
                assert not kept[0]["seen"].any()
                optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
                remember(optimiser, network, *kept)
            optimiser.zero_grad()
            (network.w.square().sum() * (1 + step % 3)).backward()
            optimiser.step()
        ends.append(network.w.detach().clone())
    torch.testing.assert_close(*ends, rtol=1e-3, atol=1e-9)
