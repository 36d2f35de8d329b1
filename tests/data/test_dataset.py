"""Examples per level, and normalisers fitted to training examples only."""

import json
import math

import numpy as np
import pytest

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.errors import SurrogateError
from mrafno.grids import Domain, Grid


def domain_of(inputs=2, outputs=1, zero=False):
    grids = (Grid((8,), ("nodes",)), Grid((20,), ("nodes",)))
    return Domain(inputs, outputs, grids, ((zero, False),))


def examples(domain, sizes, seed=0, scale=1.0, offset=0.0):
    rng = np.random.default_rng(seed)
    channels = (domain.in_channels, domain.out_channels)
    return [
        tuple(offset + scale * rng.standard_normal((n, c, *grid.shape)) for c in channels)
        for n, grid in zip(sizes, domain.grids, strict=True)
    ]


def fit(domain, pairs):
    return Normaliser.fit(Dataset.of(domain, pairs))


def test_sizes():
    domain = domain_of()
    data = Dataset.of(domain, [None, examples(domain, (0, 3))[1]])
    assert data.sizes == (0, 3)
    assert len(data) == 3
    assert data.inputs[0].shape == (0, 2, 8)
    assert data.outputs[0].shape == (0, 1, 8)


def test_any_numbers_become_float64():
    domain = domain_of()
    pairs = [(f.astype(np.float32), np.ones(y.shape, dtype=int).tolist()) for f, y in examples(domain, (2, 3))]
    data = Dataset.of(domain, pairs)
    assert {a.dtype for a in (*data.inputs, *data.outputs)} == {np.dtype(np.float64)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p[:1], "1 inputs and 1 outputs for 2 levels"),
        (lambda p: [*p, None], "3 inputs and 3 outputs for 2 levels"),
        (lambda p: [p[1], p[0]], "inputs of level 0 have shape"),
        (lambda p: [(p[0][0], p[0][1][:, :, :5]), p[1]], r"outputs of level 0 have shape .* expected \(n, 1, 8\)"),
        (lambda p: [p[0], (p[1][0][:, :1], p[1][1])], "inputs of level 1 have shape"),
        (lambda p: [(p[0][0][:1], p[0][1]), p[1]], "level 0 has 1 inputs but 2 outputs"),
        (lambda p: [p[0], (p[1][0], np.full_like(p[1][1], np.nan))], "outputs of level 1 have NaN"),
        (lambda p: [(np.full_like(p[0][0], np.inf), p[0][1]), p[1]], "inputs of level 0 have NaN or infinite"),
    ],
)
def test_wrong_examples_are_refused(change, message):
    domain = domain_of()
    with pytest.raises(SurrogateError, match=message):
        Dataset.of(domain, change(examples(domain, (2, 3))))


def test_moments_weigh_examples_alike_whatever_their_grid():
    domain = domain_of()
    pairs = examples(domain, (4, 6), offset=3.0, scale=2.0)
    found = fit(domain, pairs)
    for channel in range(2):
        each = [f[channel] for pair in pairs for f in pair[0]]
        mean = np.mean([f.mean() for f in each])
        variance = np.mean([(f**2).mean() for f in each]) - mean**2
        np.testing.assert_allclose(found.in_mean[channel], mean, rtol=1e-12)
        np.testing.assert_allclose(found.in_std[channel], np.sqrt(variance), rtol=1e-12)


def test_normalised_examples_have_unit_moments_and_come_back():
    domain = domain_of(outputs=3)
    pairs = [None, examples(domain, (0, 50), offset=-7.0, scale=0.01)[1]]
    normaliser = fit(domain, pairs)
    f, y = normaliser.inputs(pairs[1][0]), normaliser.outputs(pairs[1][1])
    for values in (f, y):
        np.testing.assert_allclose(values.mean(axis=(0, 2)), 0, atol=1e-9)
        np.testing.assert_allclose(values.std(axis=(0, 2)), 1, rtol=1e-6)
    np.testing.assert_allclose(normaliser.physical(y, 1), pairs[1][1], rtol=1e-12)
    samples = np.stack([y, y])
    np.testing.assert_allclose(normaliser.physical(samples, 1)[1], pairs[1][1], rtol=1e-12)


def test_the_typical_norm_of_outputs():
    domain = domain_of(outputs=1)
    pairs = examples(domain, (4, 50), offset=3.0, scale=2.0)
    norms = [np.sqrt(np.sum(pairs[1][1] ** 2, axis=(1, 2)))]
    assert fit(domain, pairs).typical_norm((20,)) == pytest.approx(np.median(norms), rel=0.2)


def test_a_constant_channel_has_no_say_in_the_typical_norm():
    """Its scale is 1 by convention, which may be a million times that of the others."""
    small = Normaliser((0.0,), (1.0,), (0.0, 0.0), (1.0, 1e-6))
    assert small.typical_norm((25,)) == pytest.approx(5e-6)
    assert Normaliser((0.0,), (1.0,), (-7e-3,), (1.0,)).typical_norm((25,)) == pytest.approx(0.035)
    assert Normaliser((0.0,), (1.0,), (0.0,), (1.0,)).typical_norm((25,)) is None


def test_zero_boundaries_mean_no_shift_of_outputs():
    """A shift would make the normalised outputs something else than zero on the boundary."""
    domain = domain_of(zero=True)
    pairs = examples(domain, (5, 5), offset=2.0)
    normaliser = fit(domain, pairs)
    assert normaliser.out_mean == (0.0,)
    assert normaliser.in_mean != (0.0, 0.0)
    squares = np.mean([(y**2).mean() for _, ys in pairs for y in ys])
    np.testing.assert_allclose(normaliser.out_std, [np.sqrt(squares)])
    assert (normaliser.outputs(np.zeros((1, 1, 8))) == 0).all()


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, -5.0, 101325.0, 1e-30, 1e30, -7.7e20, 1e200])
def test_a_constant_channel_has_no_scale(value):
    """Rounding is no scale: a value that moves later must not be blown up, nor the constant itself be far from 0."""
    domain = domain_of(inputs=1)
    pairs = [(np.full((7, 1, n), value), np.full((7, 1, n), value)) for n in (8, 20)]
    normaliser = fit(domain, pairs)
    assert all(std >= 1.0 for std in (*normaliser.in_std, *normaliser.out_std))
    for pair in pairs:
        assert np.abs(normaliser.inputs(pair[0])).max() < 1e-2
        np.testing.assert_allclose(normaliser.physical(normaliser.outputs(pair[1]), 1), pair[1], rtol=1e-12)
    assert math.isfinite(normaliser.log_scale)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-30, 1e30, 1e200, 1e307])
def test_any_finite_scale_is_normalised(scale):
    """Squares of such numbers leave float64; the moments must not."""
    domain = domain_of(inputs=1)
    pairs = examples(domain, (6, 6), scale=scale)
    unit = fit(domain, examples(domain, (6, 6)))
    normaliser = fit(domain, pairs)
    np.testing.assert_allclose(np.divide(normaliser.in_std, scale), unit.in_std, rtol=1e-9)
    assert 0.5 < np.abs(normaliser.outputs(pairs[0][1])).max() < 5
    np.testing.assert_allclose(normaliser.log_scale, unit.log_scale + 2 * math.log(scale), rtol=1e-9)


def test_a_small_variation_about_a_large_value_is_seen():
    domain = domain_of(inputs=1)
    normaliser = fit(domain, examples(domain, (20, 20), scale=1e-4, offset=1e6))
    np.testing.assert_allclose(normaliser.in_std, 1e-4, rtol=0.1)


def test_channels_have_scales_of_their_own():
    domain = domain_of()
    (f, y), fine = examples(domain, (5, 5))
    f = f * np.array([1.0, 1e25])[:, None]
    normaliser = fit(domain, [(f, y), (fine[0] * np.array([1.0, 1e25])[:, None], fine[1])])
    assert 0.5 < normaliser.in_std[0] < 2
    assert 0.5e25 < normaliser.in_std[1] < 2e25


def test_log_scale_turns_normalised_noise_physical():
    normaliser = Normaliser((0.0,), (1.0,), (1.0,), (3.0,))
    np.testing.assert_allclose(normaliser.log_scale, 2 * math.log(3.0))
    two = Normaliser((0.0,), (1.0,), (0.0, 0.0), (1.0, 3.0))
    np.testing.assert_allclose(two.log_scale, math.log(5.0))


def test_json_round_trip_keeps_every_bit():
    domain = domain_of(outputs=2)
    for scale in (1e-200, 1 / 3, 1e200):
        normaliser = fit(domain, examples(domain, (3, 4), scale=scale))
        assert Normaliser.from_json(json.loads(json.dumps(normaliser.as_json()))) == normaliser


def test_no_examples_is_an_error():
    with pytest.raises(SurrogateError, match="no examples"):
        fit(domain_of(), [None, None])
