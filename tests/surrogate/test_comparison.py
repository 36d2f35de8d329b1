"""A surrogate is clearly worse when its paired errors are, beyond chance."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from mrafno.surrogate import comparison
from mrafno.surrogate.comparison import clearly_worse


class Errors:
    """Out-of-fold examples whose errors are known."""

    def __init__(self, data, rows):
        pass

    def predict(self, surrogate, levels):
        return SimpleNamespace(errors=lambda level: np.asarray(surrogate.errors))


def verdict(monkeypatch, after, before, rows=5):
    monkeypatch.setattr(comparison, "OutOfFoldExamples", Errors)
    monkeypatch.setattr(comparison, "folds", lambda *_: [[range(0), range(rows)]])
    data = SimpleNamespace(domain=SimpleNamespace(levels=2), sizes=(5, 5))
    settings = {"training": SimpleNamespace(out_of_fold_share=0.05), "members": 1, "seed": 0}
    return clearly_worse(SimpleNamespace(errors=after, **settings), SimpleNamespace(errors=before, **settings), data)


OLD = [0.1, 0.5, 0.2, 0.9, 0.3]


@pytest.mark.parametrize(
    ("after", "worse"),
    [
        (OLD, False),
        ([2 * e for e in OLD], True),
        ([e + 0.01 for e in OLD], True),  # a small difference without any noise
        ([e / 2 for e in OLD], False),
        ([0.9, 0.1, 0.2, 0.5, 0.31], False),  # noise
        ([*OLD[:4], 30.0], False),  # one example alone proves nothing
        ([*OLD[:4], math.inf], True),
        ([*OLD[:4], math.nan], True),
    ],
)
def test_the_difference_is_compared_with_its_noise(monkeypatch, after, worse):
    assert verdict(monkeypatch, after, OLD) is worse


def test_the_bound_is_that_of_students_t(monkeypatch):
    """For n = 5 the one-sided 95 % quantile is 2.132."""
    d = np.array([0.0, 1.0, 2.0, 3.0, 4.0]) - 2.0
    edge = 2.1318 * d.std(ddof=1) / math.sqrt(5)
    assert verdict(monkeypatch, 5 + d + 1.01 * edge, np.full(5, 5.0))
    assert not verdict(monkeypatch, 5 + d + 0.99 * edge, np.full(5, 5.0))


def test_too_few_examples_prove_nothing(monkeypatch):
    assert not verdict(monkeypatch, [9.0, 9.0], [0.1, 0.1], rows=2)
    assert not verdict(monkeypatch, [math.inf] * 5, [math.nan] * 5)
