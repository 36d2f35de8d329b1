"""Members are independent, restarted when they diverge, and fit a linear operator."""

import math

import numpy as np
import pytest
import torch

from mrafno.data.dataset import Dataset
from mrafno.errors import TrainingError
from mrafno.grids import relative_l2
from mrafno.surrogate import Ensemble
from mrafno.surrogate.inference import base
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.optimiser import FusedAdamW
from tests.surrogate.inference.small import CIRCLE, LINE, TAU, data_of, made, poisoned, waves


def test_a_member_does_not_depend_on_the_others():
    """Two of an ensemble of three are the ensemble of two: each has its own seeds, batches and folds."""
    f = waves(LINE, (0, 3), seed=5)[1][0]
    predictions = []
    for members in (2, 3):
        surrogate = made("ensemble", members=members, dtype="float64")
        surrogate.fit(data_of(LINE, (10, 10)))
        predictions.append(surrogate.predict(f, units="normalised"))
    np.testing.assert_allclose(predictions[0].samples, predictions[1].samples[:2], atol=1e-9)


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
    # Wide here: the members' errors are nearly independent, which out-of-fold errors of single ones do not tell.
    assert 0.8 < inside.mean() < 0.999


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
