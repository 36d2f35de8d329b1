"""Figures that benchmarks compute from what they measure."""

import math

import numpy as np
import pytest

from benchmarks.bench_alternatives import Components, cost_to
from benchmarks.bench_queries import at
from benchmarks.bench_scaling import AXES, Sizes, exponent
from mrafno.analysis.curves import Curve


def test_the_exponent_of_a_power():
    sizes = [10.0, 20.0, 80.0]
    assert exponent(sizes, [3 * n**1.5 for n in sizes]) == pytest.approx(1.5)


def test_sizes_of_runs():
    assert Sizes(points=32).shapes == [(8, 8), (32, 32)]
    assert Sizes(points=64, levels=3).shapes == [(8, 8), (36, 36), (64, 64)]
    assert Sizes(dim=3, points=8).shapes == [(4, 4, 4), (8, 8, 8)]
    for axis in AXES.values():
        for value in (*axis.small, *axis.full):
            sizes = axis.of(value)
            assert len(sizes.shapes) == sizes.levels
            assert list(sizes.shapes) == sorted(set(sizes.shapes))
            assert sizes.examples > 3 * (sizes.levels - 1)


def test_the_cost_of_an_error():
    points = [(100.0, 0.2, 1.0), (400.0, 0.05, 2.0), (800.0, 0.06, 3.0)]
    assert cost_to(0.1, points) == pytest.approx(200.0)
    assert cost_to(0.3, points) == 100.0
    assert cost_to(0.01, points) is None


def test_components_keep_what_varies():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 30)) + 5
    components = Components(rows, 8)
    assert len(components.vectors) == 2
    np.testing.assert_allclose(components.back(components.of(rows)), rows, atol=1e-10)
    np.testing.assert_allclose(components.of(rows).std(0), 1.0)


def test_errors_between_costs():
    curve = Curve((1.0, 3.0), (0.4, 0.1))
    np.testing.assert_allclose(at(np.array([2.0]), curve), [math.sqrt(0.04)])
