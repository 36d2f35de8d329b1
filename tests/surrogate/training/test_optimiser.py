"""Adam against torch's own."""

import subprocess
import sys

import pytest
import torch

from mrafno.surrogate import get_surrogate
from mrafno.surrogate.training.optimiser import PRIVATE_NAMES, FusedAdamW, make_adamw
from tests.told_examples import domain_of, smooth_data


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_equal_torchs_bit_for_bit(weight_decay, dtype):
    """Also where a parameter has no gradient in some steps, and when the rate changes."""
    generator = torch.Generator().manual_seed(0)
    starts = [torch.randn(shape, generator=generator, dtype=dtype) for shape in ((3, 4), (5,), (2, 3, 4))]
    ours, theirs = ([start.clone().requires_grad_() for start in starts] for _ in range(2))
    mine = FusedAdamW([(ours[:2], weight_decay), (ours[2:], 0.3)], 1e-2)
    groups = [{"params": theirs[:2], "weight_decay": weight_decay}, {"params": theirs[2:], "weight_decay": 0.3}]
    torchs = torch.optim.AdamW(groups, lr=1e-2, fused=True)
    for step in range(6):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = b.grad = (
                None if step < 2 and a.ndim == 1 else torch.randn(a.shape, generator=generator, dtype=dtype)
            )
        for optimiser in (mine, torchs):
            for group in optimiser.param_groups:
                group["lr"] = 1e-2 / (1 + step)
            optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    for a, b in zip(ours, theirs, strict=True):
        assert mine.state[a].keys() == torchs.state[b].keys()
        assert all(torch.equal(value, torchs.state[b][name]) for name, value in mine.state[a].items())


@pytest.mark.parametrize("missing", PRIVATE_NAMES)
def test_without_a_private_name_torch_optim_is_used(monkeypatch, missing):
    assert type(make_adamw([torch.zeros(2)], 0.1)) is FusedAdamW
    monkeypatch.delattr(torch, missing)
    fallback = make_adamw(iter([torch.zeros(2, requires_grad=True)]), 0.25, 0.5)
    assert type(fallback) is torch.optim.AdamW
    assert fallback.defaults["fused"]
    assert [(group["lr"], group["weight_decay"]) for group in fallback.param_groups] == [(0.25, 0.5)]


@pytest.mark.parametrize("name", ["ensemble", "sgld", "svi", "dropout"])
def test_fits_are_the_same_with_torch_optim(monkeypatch, name):
    """SGLD also reads the optimiser's state."""
    domain = domain_of((8,), (16,))
    weights = []
    for private in (True, False):
        if not private:
            # torch.optim itself calls the function at its definition in torch, so only the check is changed.
            monkeypatch.setattr("mrafno.surrogate.training.optimiser.PRIVATE_NAMES", ("_no_such_name_",))
        surrogate = get_surrogate(name, domain)
        surrogate.fit(smooth_data(domain, (6, 3)), iterations=8)
        weights.append(surrogate.weights)
    assert all(torch.equal(value, weights[1][key]) for key, value in weights[0].items())


def test_a_fit_does_not_load_torchs_compiler():
    """It takes longer to load than all else together."""
    program = """
import sys
from mrafno.surrogate import get_surrogate
from tests.told_examples import domain_of, smooth_data

domain = domain_of((8,), (16,))
for name in ("ensemble", "sgld", "svi", "dropout"):
    get_surrogate(name, domain).fit(smooth_data(domain, (6, 3)), iterations=8)
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
