"""Recordings: the same bits as the function they record, whatever it is made of."""

import pytest
import torch
from torch.nn import functional

from mrafno.surrogate.training.replay import Recording


def arithmetic(a, b):
    return [a @ b, a.sum(1) * 2.0, torch.exp(a).T]


def views(a, b):
    """Results that are views, of an input and of one another."""
    parts = (a + 1).unbind(1)
    return [parts[0] - parts[1], a.T, b.view(-1)[2:].expand(3, -1)]


def changed_in_place(a, b):
    c = a.clone()
    c[:, 0] += b[0, 0]
    d = c.new_empty(2, *c.shape)
    d[0], d[1] = c, -c
    return [d, c.mul_(2.0).sum()]


def constants(a, b):
    return [a + torch.full_like(a, 3.0), b * torch.arange(4.0), functional.pad(a, (1, 0)), None]


def derivatives(a, b):
    a, b = (x.detach().requires_grad_() for x in (a, b))
    value = (functional.gelu(a @ b).norm(dim=0) + torch.cat([b[:2], b[1:]]).std()).sum()
    return [value.detach(), *torch.autograd.grad(value, (a, b))]


def forgotten(a, b):
    """Many results of one size, of which each is needed for a while."""
    first = a * 2
    for _ in range(5):
        first, a = a - first, first * a
    return [first, a, b]


def several_results(a, b):
    values, places = torch.sort(a, dim=1)
    return [values, places]


@pytest.mark.parametrize(
    "function", [arithmetic, views, changed_in_place, constants, derivatives, forgotten, several_results]
)
def test_replays_equal_the_function(function):
    generator = torch.Generator().manual_seed(0)
    draws = [(torch.randn(5, 3, generator=generator), torch.randn(3, 4, generator=generator)) for _ in range(4)]
    recording = Recording(function, draws[0])
    for a, b in (*draws, draws[0]):
        for found, expected in zip(recording(a, b), function(a, b), strict=True):
            if expected is None:
                assert found is None
            else:
                assert torch.equal(found, expected)
                assert found.stride() == expected.stride()


def test_the_tensors_it_is_given_are_left_alone():
    a, b = torch.ones(5, 3), torch.ones(3, 4)
    recording = Recording(lambda a, b: [a.mul_(2.0) @ b], (a, b))
    recording(a, b)
    assert torch.equal(a, torch.ones(5, 3))


def test_memory_is_given_again():
    """A hundred results one after another take the place of two."""

    def chain(a):
        for _ in range(100):
            a = a + 1
        return [a]

    recording = Recording(chain, [torch.zeros(1000)])
    places = {call.keywords["out"].data_ptr() for call in recording._calls}
    assert len(recording._calls) == 100
    assert len(places) == 2
