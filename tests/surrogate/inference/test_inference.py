"""Five ways of inference behind one protocol: what all of them keep, and what each of them claims to sample."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch

from mrafno.data.dataset import Dataset, Normaliser
from mrafno.errors import SurrogateError, TrainingError
from mrafno.grids import Domain, Grid, relative_l2
from mrafno.surrogate import SURROGATES, Ensemble, Langevin, Point, Surrogate, Variational, get_surrogate
from mrafno.surrogate.inference import base
from mrafno.surrogate.inference.sgld import Dynamics
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.out_of_fold import OutOfFoldPredictions
from mrafno.surrogate.training.optimiser import FusedAdamW

TAU = 2 * np.pi
KINDS = tuple(SURROGATES)
SAMPLES = {"ensemble": 3, "point": 1, "dropout": 4, "sgld": 4, "svi": 4}

LINE = Domain(1, 1, (Grid((12,), ("nodes",)), Grid((20,), ("nodes",))), ((False, False),))
PLANE = Domain(2, 3, (Grid((6, 5), ("cells", "periodic")), Grid((9, 8), ("cells", "periodic"))), ((False, False),) * 2)
CIRCLE = Domain(1, 1, (Grid((16,), ("periodic",)), Grid((32,), ("periodic",))), ((False, False),))


def waves(domain, sizes, seed=0):
    """Random waves; outputs are their shifted negatives, an operator that can be fitted."""
    rng = np.random.default_rng(seed)
    pairs = []
    for n, grid in zip(sizes, domain.grids, strict=True):
        x = np.meshgrid(*grid.axes, indexing="ij")
        phase, height = rng.uniform(0, TAU, (n, 1, *[1] * grid.dim)), rng.uniform(0.5, 2, (n, 1, *[1] * grid.dim))
        f, y = (height * np.sin(TAU * sum(x) + phase + shift) for shift in (0.0, 2.0))
        pairs.append((np.repeat(f, domain.in_channels, 1), 3 + 2 * np.repeat(y, domain.out_channels, 1)))
    return pairs


def data_of(domain, sizes=(6, 6), seed=0):
    return Dataset.of(domain, waves(domain, sizes, seed))


def made(kind, domain=LINE, *, iterations=12, seed=0, network=None, training=None, **settings):
    own = {} if kind == "point" else {"members" if kind == "ensemble" else "samples": SAMPLES[kind]}
    small = {"width": 6, "modes": (3, 2)[: domain.dim], "layers": 2, "hidden": 8}
    return get_surrogate(
        kind,
        domain,
        seed=seed,
        network={**small, **(network or {})},
        training={"iterations": iterations, "batch": 6, **(training or {})},
        **{**own, **settings},
    )


def equal(a, b):
    return np.array_equal(a.samples, b.samples) and np.array_equal(a.log_var, b.log_var)


# The protocol.


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
        surrogate.fit(data_of(LINE, (7, 8)), warm=True, iterations=5)
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


def test_a_member_does_not_depend_on_the_others():
    """Two of an ensemble of three are the ensemble of two: each has its own seeds, batches and folds."""
    f = waves(LINE, (0, 3), seed=5)[1][0]
    predictions = []
    for members in (2, 3):
        surrogate = made("ensemble", members=members, dtype="float64")
        surrogate.fit(data_of(LINE, (10, 10)))
        predictions.append(surrogate.predict(f, units="normalised"))
    np.testing.assert_allclose(predictions[0].samples, predictions[1].samples[:2], atol=1e-9)


def test_point_is_an_ensemble_of_one_with_the_composite_loss():
    f = waves(LINE, (0, 3), seed=5)[1][0]
    point, one = made("point"), made("ensemble", members=1)
    point.fit(data_of(LINE))
    one.fit(data_of(LINE))
    assert equal(point.predict(f), one.predict(f))
    assert made("point", preset="paper").training.loss == "composite"


# Predicting.


@pytest.fixture(scope="module")
def fitted():
    surrogate = made("ensemble", training={"out_of_fold_share": 0.2})
    surrogate.fit(data_of(LINE))
    return surrogate


@pytest.fixture(scope="module")
def fitted_plane():
    surrogate = made("dropout", PLANE, dtype="float64")
    surrogate.fit(data_of(PLANE))
    return surrogate


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


# Fitting.


def test_unknown_names_raise_an_error_with_the_known_ones():
    with pytest.raises(SurrogateError, match=r"'ensembel'.*ensemble, point, dropout, sgld, svi"):
        get_surrogate("ensembel", LINE)
    with pytest.raises(SurrogateError, match="Did you mean 'width'"):
        get_surrogate("point", LINE, network={"widht": 3})
    with pytest.raises(SurrogateError, match="Did you mean 'iterations'"):
        get_surrogate("svi", LINE, training={"iteration": 3})
    with pytest.raises(SurrogateError, match="fast, paper"):
        get_surrogate("svi", LINE, preset="fats")
    with pytest.raises(SurrogateError, match="float32 or float64"):
        get_surrogate("point", LINE, dtype="half")
    with pytest.raises(SurrogateError, match="at least one member"):
        get_surrogate("ensemble", LINE, members=0)
    for rate in (0.0, 1.0):
        with pytest.raises(SurrogateError, match="rate must be between 0 and 1"):
            get_surrogate("dropout", LINE, rate=rate)


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
        surrogate.fit(empty, warm=True)


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
    surrogate.fit(more, warm=True)
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
        again.fit(train, warm=warm, iterations=6)
        errors.append(relative_l2(again.predict(test[0]).mean, test[1]).mean())
    assert errors[0] < 0.9 * errors[1]


def test_a_warm_fit_without_earlier_weights_is_one_from_scratch():
    a, b, f = made("point"), made("point"), np.ones((1, 1, 20))
    a.fit(data_of(LINE), warm=True)
    b.fit(data_of(LINE))
    assert equal(a.predict(f), b.predict(f))


def test_one_warm_step_of_no_length_is_where_it_was():
    surrogate, f = made("point"), np.ones((1, 1, 20))
    surrogate.fit(data_of(LINE))
    before = surrogate.predict(f)
    surrogate.training = surrogate.training.changed(warm_rate=1e-12)
    surrogate.fit(data_of(LINE), warm=True, iterations=1)
    np.testing.assert_allclose(surrogate.predict(f).samples, before.samples, atol=1e-5)


def test_out_of_fold_error_is_that_of_members_not_trained_on_the_rows():
    data = data_of(LINE, (10, 10))
    surrogate = made("ensemble", training={"out_of_fold_share": 0.2})
    fit = surrogate.fit(data)
    out_of_fold = base.folds(data.sizes, 0.2, 3, 0)
    errors = []
    for member in range(3):
        rows = out_of_fold[member][1]
        prediction = surrogate.predict(data.inputs[1][rows], 1)
        errors.append(relative_l2(prediction.samples[member], data.outputs[1][rows]))
    np.testing.assert_allclose(fit.out_of_fold_error, np.concatenate(errors).mean(), rtol=1e-5)


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


def poisoned(monkeypatch, member, fits=1):
    """Initialise a member with NaN in the first ``fits`` fits."""
    begin, left = MemberFNO.initialise, [fits]

    def initialise(self, seeds):
        begin(self, seeds)
        if left[0]:
            left[0] -= 1
            with torch.no_grad():
                self.layers[0].spectral[member] = math.nan
        return self

    monkeypatch.setattr(MemberFNO, "initialise", initialise)


def test_a_member_that_diverges_is_restarted_and_reported(monkeypatch):
    data, f = data_of(LINE), np.ones((1, 1, 20))
    healthy = made("ensemble")
    healthy.fit(data)
    poisoned(monkeypatch, 1)
    surrogate = made("ensemble")
    fit = surrogate.fit(data)
    assert fit.events == ("member 1 diverged at step 0 and was restarted",)
    a, b = surrogate.predict(f, units="normalised"), healthy.predict(f, units="normalised")
    assert np.isfinite(a.samples).all()
    assert np.array_equal(a.samples[[0, 2]], b.samples[[0, 2]])
    assert not np.array_equal(a.samples[1], b.samples[1])


def test_a_network_that_always_diverges_is_an_error(monkeypatch):
    monkeypatch.setattr(MemberFNO, "initialise_member", lambda self, member, seed: None)
    poisoned(monkeypatch, 0)
    with pytest.raises(TrainingError, match="member 0 became nan"):
        made("point", iterations=140).fit(data_of(LINE))


# What the ways of inference claim.


def derivative(sizes, seed):
    """A smoothed derivative of four random waves, on the circle."""
    rng = np.random.default_rng(seed)
    pairs = []
    for n, grid in zip(sizes, CIRCLE.grids, strict=True):
        f, y = np.zeros((2, n, 1, *grid.shape))
        for k in range(1, 5):
            a, b = rng.standard_normal((2, n, 1, 1)) / k
            c, s = np.cos(TAU * k * grid.axes[0]), np.sin(TAU * k * grid.axes[0])
            f += a * c + b * s
            y += k / (1 + 0.1 * k * k) * (b * c - a * s)
        pairs.append((f, y))
    return pairs


def test_the_ensemble_fits_a_linear_operator_and_estimates_its_error():
    """Bounds: a network that predicts zero has error 1, the bare mean of members that do not converge .1."""
    surrogate = Ensemble(
        CIRCLE,
        members=5,
        network={"width": 12, "modes": (6,), "layers": 2, "hidden": 24},
        training={"iterations": 150, "batch": 20},
    )
    fit = surrogate.fit(Dataset.of(CIRCLE, derivative((40, 40), 0)))
    f, y = derivative((0, 60), 1)[1]
    prediction = surrogate.predict(f)
    error = relative_l2(prediction.mean, y).mean()
    singles = np.mean([relative_l2(mean, y).mean() for mean in prediction.samples])
    assert error < 0.04
    assert error < singles
    # The out-of-fold error is a single member's.
    assert 0.5 < fit.out_of_fold_error / singles < 2
    inside = np.abs(y - prediction.mean) < 1.645 * prediction.std
    assert 0.7 < inside.mean() < 0.99


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


def test_variational_weights_without_data_return_to_the_prior():
    """The embedding of a level without examples is multiplied by zero: its posterior is the prior, N(0, 1), exactly."""
    surrogate = Variational(
        LINE,
        samples=50,
        start=0.2,
        network={"width": 6, "modes": (2,), "layers": 1, "hidden": 4, "bins": 2},
        training={"iterations": 150, "rate": 0.03, "schedule": "constant"},
    )
    surrogate.fit(Dataset.of(LINE, [waves(LINE, (8, 0))[0], None]))
    centres, spreads = (values["lift_in.weight"][0] for values in (surrogate._centres, surrogate._spreads))
    seen, unseen = 2, 3  # the columns are value, position, and one per level
    assert centres[:, unseen].abs().max() < 0.05
    torch.testing.assert_close(torch.exp(spreads[:, unseen]), torch.ones(6), rtol=0, atol=0.1)
    assert torch.exp(spreads[:, seen]).mean() < 0.9
    draws = surrogate.weights["lift_in.weight"][:, :, unseen]
    assert abs(draws.std().item() - 1) < 0.15


def test_variational_draws_have_the_posteriors_moments():
    surrogate = made("svi", samples=200)
    surrogate.fit(data_of(LINE))
    name = "mean_in.weight"
    z = (surrogate.weights[name] - surrogate._centres[name]) / torch.exp(surrogate._spreads[name])
    count = z.numel()
    assert abs(z.mean().item()) < 4 / math.sqrt(count)
    assert abs(z.var().item() - 1) < 4 * math.sqrt(2 / count)


def test_dropout_masks_have_their_rate_and_keep_the_mean():
    surrogate = made("dropout", rate=0.3, network={"width": 64})
    masks = torch.stack(surrogate._masks(torch.Generator().manual_seed(0), 50, 8))
    torch.testing.assert_close(masks.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert abs((masks == 0).double().mean().item() - 0.3) < 0.01
    assert abs(masks.mean().item() - 1) < 0.02


def test_a_dropout_sample_is_one_network_for_all_inputs(fitted_plane):
    """An input has the same samples alone and in a batch: the pool's Gram matrices need that."""
    f = waves(PLANE, (0, 5), seed=5)[1][0]
    np.testing.assert_allclose(
        fitted_plane.predict(f).samples[:, 2:3], fitted_plane.predict(f[2:3]).samples, atol=1e-12
    )
    assert fitted_plane.predict(f).spread.max() > 0


def test_every_kind_is_a_surrogate_with_its_name():
    assert {kind: SURROGATES[kind].name for kind in KINDS} == {kind: kind for kind in KINDS}
    assert all(issubclass(kind, Surrogate) for kind in SURROGATES.values())
    assert isinstance(get_surrogate("point", LINE), Point)


# Known to be wrong. Strict, so that a repair shows.


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


def test_svi_fits_few_values():
    get_surrogate("svi", CIRCLE, training={"iterations": 1}).fit(data_of(CIRCLE, (1, 0)))


def test_warm_members_keep_their_folds():
    """Else the out-of-fold error and the calibration of a warm fit are measured on examples that were trained on."""
    before, after = (base.folds((n,), 0.1, 5, 0) for n in (40, 41))
    for a, b in zip(before, after, strict=True):
        assert set(a[0].tolist()) <= set(b[0].tolist())


def test_a_member_that_diverges_at_the_end_is_trained_all_the_same(monkeypatch):
    untrained = made("ensemble", iterations=1, training={"rate": 1e-12})
    poisoned(monkeypatch, 1)
    untrained.fit(data_of(LINE))
    monkeypatch.undo()
    surrogate = made("ensemble", iterations=30)
    step, count = FusedAdamW.step, [0]

    def broken_once(self):
        step(self)
        count[0] += 1
        if count[0] == 26:
            with torch.no_grad():
                self.param_groups[0]["params"][0][1] = math.nan

    monkeypatch.setattr(FusedAdamW, "step", broken_once)
    fit = surrogate.fit(data_of(LINE))
    assert fit.events == ("member 1 diverged at step 29 and was restarted", "member 1 was trained once more")
    assert not torch.allclose(surrogate.weights["lift_in.weight"][1], untrained.weights["lift_in.weight"][1])


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


def test_an_unknown_keyword_raises_an_error_with_the_nearest_name():
    with pytest.raises(SurrogateError, match="members"):
        get_surrogate("ensemble", LINE, member=3)


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
    surrogate.fit(data_of(LINE), warm=True)
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
            surrogate.fit(data_of(LINE, (8, 8)), warm=warm)
    for name in names:
        now = getattr(surrogate, name)
        if name in surrogate.stacks:
            assert now.keys() == before[name].keys()
            assert all(torch.equal(now[key], value) for key, value in before[name].items())
        else:
            assert now == before[name], name
    for one in (surrogate, other):
        one.fit(data_of(LINE, (8, 8)), warm=warm)
    f = data.inputs[1]
    assert equal(surrogate.predict(f), other.predict(f))
