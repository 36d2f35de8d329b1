"""What all methods of inference share: fits, warm fits, predictions and their errors."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.errors import SurrogateError, TrainingError
from mrafno.grids import Domain, Grid, relative_l2
from mrafno.surrogate.inference import base
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.out_of_fold import OutOfFoldPredictions
from tests.surrogate.inference.small import (
    CIRCLE,
    KINDS,
    LINE,
    PLANE,
    SAMPLES,
    TAU,
    data_of,
    equal,
    made,
    poisoned,
    waves,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("domain", [LINE, PLANE], ids=["line", "plane"])
def test_fits_and_predicts(kind, domain):
    surrogate = made(kind, domain, iterations=30 if kind == "sgld" else 12)
    fit = surrogate.fit(data_of(domain))
    assert math.isfinite(fit.loss)
    assert fit.events == ()
    assert surrogate.sample_count == SAMPLES[kind]
    for level in (None, 0, 1):
        grid = domain.grids[-1 if level is None else level]
        prediction = surrogate.predict(np.ones((4, domain.in_channels, *grid.shape)), level)
        assert prediction.samples.shape == (SAMPLES[kind], 4, domain.out_channels, *grid.shape)
        assert prediction.log_var.shape == (SAMPLES[kind], 4)
        assert np.isfinite(prediction.samples).all()
        assert np.isfinite(prediction.log_var).all()
        assert prediction.samples.dtype == np.float64
    features = surrogate.features(np.ones((4, domain.in_channels, *domain.grids[1].shape)))
    assert features.shape == (4, 6, *domain.grids[1].shape)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bits(kind):
    f = waves(LINE, (0, 3), seed=5)[1][0]
    predictions = []
    for seed in (0, 0, 1):
        surrogate = made(kind, seed=seed)
        surrogate.fit(data_of(LINE))
        surrogate.fit(data_of(LINE, (7, 8)), kind="refit", iterations=5)
        predictions.append(surrogate.predict(f))
        assert equal(surrogate.predict(f), predictions[-1])
    assert equal(predictions[0], predictions[1])
    assert not equal(predictions[0], predictions[2])


@pytest.mark.parametrize("kind", KINDS)
def test_a_watched_fit_gives_the_same_result(kind):
    f, seen = waves(LINE, (0, 3), seed=5)[1][0], []
    a, b = made(kind, iterations=60), made(kind, iterations=60)
    a.fit(data_of(LINE), watch=lambda *report: seen.append(report))
    b.fit(data_of(LINE))
    assert equal(a.predict(f), b.predict(f))
    done = [share for share, _, _ in seen]
    assert done == sorted(done)
    assert done[0] > 0
    assert done[-1] == 1.0
    assert all(math.isfinite(loss) for _, loss, _ in seen)
    if kind == "ensemble":
        assert math.isfinite(seen[-1][2])


def test_float64_and_float32_agree_at_the_start():
    """The same seeds and batches in two precisions; after few steps the difference is rounding."""
    f = waves(LINE, (0, 3), seed=5)[1][0]
    means = []
    for dtype in ("float32", "float64"):
        surrogate = made("ensemble", dtype=dtype, iterations=3)
        surrogate.fit(data_of(LINE))
        assert {str(w.dtype) for w in surrogate.weights.values()} == {f"torch.{dtype}"}
        means.append(surrogate.predict(f).samples)
    np.testing.assert_allclose(means[0], means[1], atol=1e-3)
    assert not np.array_equal(*means)


def test_predicts_on_a_grid_it_never_saw(fitted, fitted_plane):
    assert fitted.predict(np.ones((2, 1, 57))).samples.shape == (3, 2, 1, 57)
    assert fitted_plane.predict(np.ones((2, 2, 11, 4))).samples.shape == (4, 2, 3, 11, 4)
    cells = Grid((57,), ("cells",))
    on_cells = fitted.predict(np.ones((2, 1, 57)), grid=cells).samples
    assert not np.array_equal(on_cells, fitted.predict(np.ones((2, 1, 57))).samples)


def test_prediction_converges_as_the_grid_is_refined(fitted):
    """The same function predicted on finer and finer nodes, compared at the coarsest nodes."""
    answers = []
    for n in (20, 39, 77, 153):
        grid = Grid((n,), ("nodes",))
        answers.append(fitted.predict(np.sin(TAU * grid.axes[0])[None, None], grid=grid).samples[..., :: (n - 1) // 19])
    steps = [np.abs(a - b).max() for a, b in itertools.pairwise(answers)]
    assert steps[1] < steps[0] / 3
    assert steps[2] < steps[1] / 3


def test_units_are_consistent(fitted):
    f = waves(LINE, (0, 3), seed=5)[1][0]
    physical, normalised = fitted.predict(f), fitted.predict(f, units="normalised")
    scale, shift = fitted.normaliser.out_std[0], fitted.normaliser.out_mean[0]
    np.testing.assert_allclose(physical.samples, normalised.samples * scale + shift, rtol=1e-12)
    np.testing.assert_allclose(physical.log_var, normalised.log_var + 2 * math.log(scale), rtol=1e-12)
    np.testing.assert_allclose(physical.std, normalised.std * scale, rtol=1e-9)


def test_scaling_the_problem_scales_the_prediction():
    """Other units of inputs and outputs give the same model, in those units."""
    predictions = []
    for a, b in ((1.0, 0.0), (1e3, 17.0)):
        pairs = [(a * f + b, a * y + b) for f, y in waves(LINE, (6, 6))]
        surrogate = made("ensemble", dtype="float64", iterations=6)
        surrogate.fit(Dataset.of(LINE, pairs))
        predictions.append(surrogate.predict(a * waves(LINE, (0, 3), seed=5)[1][0] + b))
    np.testing.assert_allclose(predictions[0].samples * 1e3 + 17, predictions[1].samples, rtol=1e-6)
    np.testing.assert_allclose(predictions[0].std * 1e3, predictions[1].std, rtol=1e-6)


def test_chunks_change_nothing(fitted_plane, monkeypatch):
    f = waves(PLANE, (0, 7), seed=5)[1][0]
    whole, features = fitted_plane.predict(f), fitted_plane.features(f)
    monkeypatch.setattr(base, "_CHUNK_NUMBERS", 2 * 4 * 8 * 72)  # two examples at a time
    assert len(fitted_plane._chunks(f, fitted_plane._placed(f, None, None)[2], 4)) == 4
    parts = fitted_plane.predict(f)
    np.testing.assert_allclose(parts.samples, whole.samples, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts.log_var, whole.log_var, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fitted_plane.features(f), features, rtol=0, atol=1e-12)


def test_levels_have_different_predictions(fitted):
    f = waves(LINE, (3, 0), seed=5)[0][0]
    assert not np.allclose(fitted.predict(f, 0).samples, fitted.predict(f, 1).samples)


def test_known_zero_boundaries_are_kept_in_physical_units():
    domain = Domain(1, 1, (Grid((6, 6), ("nodes", "nodes")),), ((True, True), (True, False)))
    rng = np.random.default_rng(0)
    surrogate = made("ensemble", domain)
    surrogate.fit(Dataset.of(domain, [(rng.standard_normal((6, 1, 6, 6)), 5 + rng.standard_normal((6, 1, 6, 6)))]))
    mean = surrogate.predict(rng.standard_normal((2, 1, 6, 6))).samples
    assert (mean[..., 0, :] == 0).all()
    assert (mean[..., -1, :] == 0).all()
    assert (mean[..., :, 0] == 0).all()
    assert (mean[..., 1:-1, 1:] != 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 3, 20)),), r"not \(n, 1, grid"),
        ((np.ones((2, 20)),), r"not \(n, 1, grid"),
        ((np.ones((0, 1, 20)),), r"not \(n, 1, grid"),
        ((np.full((2, 1, 20), np.nan),), "NaN or infinite"),
        ((np.full((2, 1, 20), -np.inf),), "NaN or infinite"),
        ((np.ones((2, 1, 20)), 2), "unknown level 2"),
        ((np.ones((2, 1, 20)), -1), "unknown level -1"),
    ],
)
def test_wrong_inputs_raise_an_error(fitted, arguments, message):
    with pytest.raises(SurrogateError, match=message):
        fitted.predict(*arguments)


def test_a_grid_has_to_fit_the_inputs(fitted):
    with pytest.raises(SurrogateError, match="not on the given grid"):
        fitted.predict(np.ones((2, 1, 20)), grid=Grid((21,), ("nodes",)))


@pytest.mark.parametrize("kind", KINDS)
def test_prediction_before_fit_is_an_error(kind):
    for ask in (made(kind).predict, made(kind).features):
        with pytest.raises(SurrogateError, match="Call fit first"):
            ask(np.ones((1, 1, 20)))


def test_examples_of_another_domain_raise_an_error():
    with pytest.raises(SurrogateError, match="another domain"):
        made("point").fit(data_of(PLANE))


def test_no_examples_are_an_error():
    empty = Dataset.of(LINE, [None, None])
    surrogate = made("point")
    with pytest.raises(SurrogateError, match="no examples"):
        surrogate.fit(empty)
    surrogate.fit(data_of(LINE))
    with pytest.raises(SurrogateError, match="no examples"):
        surrogate.fit(empty, kind="refit")


def test_the_normaliser_is_that_of_the_training_data():
    surrogate, data = made("point"), data_of(LINE)
    surrogate.fit(data)
    assert surrogate.normaliser == Normaliser.fit(data)


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_fit_keeps_the_normaliser_and_starts_from_the_last_weights(kind):
    first, more = data_of(LINE, (6, 6)), data_of(LINE, (9, 9), seed=1)
    surrogate = made(kind)
    surrogate.fit(first)
    normaliser = surrogate.normaliser
    surrogate.fit(more, kind="refit")
    assert surrogate.normaliser == normaliser
    surrogate.fit(more)
    assert surrogate.normaliser == Normaliser.fit(more)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "svi"])
def test_a_warm_fit_has_a_lower_loss_than_one_from_scratch_after_the_same_steps(kind):
    train, test = data_of(CIRCLE, (12, 12)), waves(CIRCLE, (0, 20), seed=9)[1]
    surrogate = made(kind, CIRCLE, iterations=50, training={"batch": 12})
    surrogate.fit(train)
    errors = []
    for warm in (True, False):
        again = copy.deepcopy(surrogate)
        again.fit(train, kind="refit" if warm else "scratch", iterations=6)
        errors.append(relative_l2(again.predict(test[0]).mean, test[1]).mean())
    assert errors[0] < 0.9 * errors[1]


def test_a_warm_fit_without_earlier_weights_is_one_from_scratch():
    a, b, f = made("point"), made("point"), np.ones((1, 1, 20))
    a.fit(data_of(LINE), kind="refit")
    b.fit(data_of(LINE))
    assert equal(a.predict(f), b.predict(f))


def test_one_warm_step_of_no_length_is_where_it_was():
    surrogate, f = made("point"), np.ones((1, 1, 20))
    surrogate.fit(data_of(LINE))
    before = surrogate.predict(f)
    surrogate.policy = surrogate.policy.changed(refit_rate=1e-12)
    surrogate.fit(data_of(LINE), kind="refit", iterations=1)
    np.testing.assert_allclose(surrogate.predict(f).samples, before.samples, atol=1e-5)


def test_the_shift_is_in_the_prediction():
    surrogate = made("ensemble", training={"out_of_fold_share": 0.2})
    fit = surrogate.fit(data_of(LINE, (10, 10)))
    assert fit.shift == surrogate.shift != 0.0
    before = surrogate.predict(np.ones((1, 1, 20))).log_var
    surrogate.shift = 0.0
    np.testing.assert_allclose(surrogate.predict(np.ones((1, 1, 20))).log_var + fit.shift, before)


EXTREMES = {
    "1e30": lambda f, y: (1e30 * f, 1e30 * y),
    "1e-30": lambda f, y: (1e-30 * f, 1e-30 * y),
    "constant inputs": lambda f, y: (0 * f + 0.1, y),
    "constant outputs": lambda f, y: (f, 0 * y + 1e30),
    "zero outputs": lambda f, y: (f, 0 * y),
    "some zero outputs": lambda f, y: (f, y * (np.arange(len(y)) > 0)[:, None, None]),
    "duplicates": lambda f, y: (f[[0] * len(f)], y[[0] * len(y)]),
    "contradictions": lambda f, y: (f[[0] * len(f)], y),
    "an outlier": lambda f, y: (f * np.where(np.arange(len(f)) == 0, 1e6, 1.0)[:, None, None], y),
    "one huge value": lambda f, y: (f, y + 1e9 * (np.arange(y.size) == 3).reshape(y.shape)),
    "one example": lambda f, y: (f[:1], y[:1]),
}


@pytest.mark.parametrize("loss", ["composite", "likelihood"])
@pytest.mark.parametrize("name", EXTREMES)
def test_no_finite_data_gives_nan(name, loss):
    pairs = [None, EXTREMES[name](*waves(LINE, (0, 8))[1])]
    kinds = ["ensemble"]
    if loss == "likelihood":
        kinds += ["svi"] if name == "one example" else ["svi", "sgld"]
    for kind in kinds:
        surrogate = made(kind, iterations=26 if kind == "sgld" else 10, training={"loss": loss})
        fit = surrogate.fit(Dataset.of(LINE, pairs))
        prediction = surrogate.predict(pairs[1][0])
        assert math.isfinite(fit.loss)
        assert fit.events == ()
        for values in (prediction.samples, prediction.log_var, prediction.std):
            assert np.isfinite(values).all()


def test_a_fit_that_fails_leaves_the_surrogate_unchanged(monkeypatch):
    surrogate, f = made("point"), np.ones((1, 1, 20))
    surrogate.fit(data_of(LINE))
    before = surrogate.predict(f)
    monkeypatch.setattr(MemberFNO, "initialise_member", lambda self, member, seed: None)
    poisoned(monkeypatch, 0)
    other = Dataset.of(LINE, [(f, 100 * y) for f, y in waves(LINE, (6, 6))])
    with pytest.raises(TrainingError):
        surrogate.fit(other, iterations=140)
    assert equal(surrogate.predict(f), before)


def test_unknown_units_raise_an_error(fitted):
    with pytest.raises(SurrogateError):
        fitted.predict(np.ones((1, 1, 20)), units="phyiscal")


@pytest.mark.parametrize("kind", ["dropout", "sgld", "svi"])
def test_zero_samples_raise_an_error(kind):
    with pytest.raises(SurrogateError):
        made(kind, samples=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_level_without_examples_is_predicted_as_the_nearest_below(kind):
    """Its embedding and its correction have not been trained: their values depend on the initialisation only."""
    surrogate = made(kind)
    surrogate.fit(Dataset.of(LINE, [waves(LINE, (6, 6))[0], None]))
    f = np.ones((1, 1, 20))
    assert equal(surrogate.predict(f, 1), surrogate.predict(f, 0, grid=LINE.grids[1]))
    surrogate.fit(data_of(LINE), kind="refit")
    assert not equal(surrogate.predict(f, 1), surrogate.predict(f, 0, grid=LINE.grids[1]))


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_fails_at_its_end_leaves_everything_unchanged(kind, warm, monkeypatch):
    surrogate, other = made(kind), made(kind)
    names = ("normaliser", "shift", "trained_levels", "fits", *surrogate.stacks)
    data = data_of(LINE)
    for one in (surrogate, other):
        one.fit(data)
    before = {name: copy.deepcopy(getattr(surrogate, name)) for name in names}

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(OutOfFoldPredictions, "shift", interrupt)
        with pytest.raises(KeyboardInterrupt):
            surrogate.fit(data_of(LINE, (8, 8)), kind="refit" if warm else "scratch")
    for name in names:
        now = getattr(surrogate, name)
        if name in surrogate.stacks:
            assert now.keys() == before[name].keys()
            assert all(torch.equal(now[key], value) for key, value in before[name].items())
        else:
            assert now == before[name], name
    for one in (surrogate, other):
        one.fit(data_of(LINE, (8, 8)), kind="refit" if warm else "scratch")
    f = data.inputs[1]
    assert equal(surrogate.predict(f), other.predict(f))
