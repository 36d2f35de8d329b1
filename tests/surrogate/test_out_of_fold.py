"""What single networks say of the examples they left out."""

import numpy as np
import pytest
from scipy.stats import norm

from mrafno.data.dataset import Dataset
from mrafno.grids import Domain, Grid, relative_l2
from mrafno.surrogate import Ensemble
from mrafno.surrogate.out_of_fold import OutOfFoldExamples
from mrafno.surrogate.training.batches import folds

DOMAIN = Domain(1, 1, (Grid((9,), ("nodes",)), Grid((17,), ("nodes",))), ((False, False),))
SMALL = {"width": 4, "modes": (2,), "layers": 2, "hidden": 6}


def examples(sizes, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(n, 1, *grid.shape) for n, grid in zip(sizes, DOMAIN.grids, strict=True)]
    return Dataset.of(DOMAIN, [(rng.normal(size=s), 3 + rng.normal(size=s)) if s[0] else None for s in shapes])


def fitted(sizes):
    data = examples(sizes)
    surrogate = Ensemble(DOMAIN, members=3, network=SMALL, training={"iterations": 3, "batch": 8})
    fit = surrogate.fit(data)
    return (
        surrogate,
        fit,
        OutOfFoldExamples(data, folds(data.sizes, surrogate.training.out_of_fold_share, 3, surrogate.seed)),
    )


def test_errors_are_those_of_the_network_not_trained_on_the_example():
    surrogate, fit, out_of_fold = fitted((0, 50))
    expected = []
    for member, levels in enumerate(out_of_fold.rows):
        for row in levels[1]:
            f, y = out_of_fold.data.inputs[1][[row]], out_of_fold.data.outputs[1][[row]]
            expected.append(relative_l2(surrogate.predict(f).samples[member], y)[0])
    assert len(expected) > 3
    np.testing.assert_allclose(out_of_fold.predict(surrogate).errors(1), expected, rtol=1e-6)
    assert fit.out_of_fold_error == pytest.approx(np.mean(expected), rel=1e-6)
    assert fit.out_of_fold_errors[0] == ()
    np.testing.assert_allclose(fit.out_of_fold_errors[1], expected, rtol=1e-6)


def test_coverage_is_that_of_the_calibrated_intervals_of_single_networks():
    """Out of fold, the variances of the noise, the spread and the network's own deviation from the mean add."""
    surrogate, _, out_of_fold = fitted((0, 90))
    inside, m = {"0.5": [], "0.9": []}, 3
    for member, levels in enumerate(out_of_fold.rows):
        for level, rows in enumerate(levels):
            for row in rows:
                f, y = out_of_fold.data.inputs[level][[row]], out_of_fold.data.outputs[level][[row]]
                found = surrogate.predict(f, level)
                std = np.sqrt(found.std**2 + found.spread * (m - 1) / m)
                distance = np.abs(found.samples[member] - y) / std
                for name in inside:
                    inside[name].append(np.mean(distance <= norm.ppf(0.5 + float(name) / 2)))
    assert surrogate.out_of_fold_count == len(inside["0.5"]) > 6
    for name, shares in inside.items():
        assert surrogate.coverage[name] == pytest.approx(np.mean(shares), abs=1e-6)
    # The noise was fitted to these very examples, which are Gaussian: the intervals hold what they say.
    assert surrogate.coverage["0.9"] == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(("sizes", "levels"), [((200, 10), [1]), ((200, 2), [0, 1]), ((200, 0), [0]), ((0, 10), [1])])
def test_the_calibration_is_of_the_finest_level_if_it_has_examples(sizes, levels):
    surrogate, _, out_of_fold = fitted(sizes)
    surrogate.shift = 0.0
    squares, noises, spreads = [], [], []
    for level in levels:
        for member, rows in enumerate(out_of_fold.rows):
            for row in rows[level]:
                f, y = out_of_fold.data.inputs[level][[row]], out_of_fold.data.outputs[level][[row]]
                found = surrogate.predict(f, level, units="normalised")
                squares.append(np.mean((surrogate.normaliser.outputs(y) - found.samples[member]) ** 2))
                noises.append(found.noise.mean())
                spreads.append((1 + 2 / 3) * found.spread.mean())
    expected = np.log(max(np.mean(squares) - np.mean(spreads), 0.05 * np.mean(squares)) / np.mean(noises))
    assert out_of_fold.predict(surrogate).shift() == pytest.approx(np.clip(expected, -3, 12), abs=1e-6)


def test_without_out_of_fold_examples_there_is_no_coverage():
    surrogate, _, _ = fitted((1, 1))
    assert (surrogate.out_of_fold_count, surrogate.coverage) == (0, {})


def test_a_fit_predicts_out_of_fold_examples_once(monkeypatch):
    """On fine grids predictions take longer than a brief fit's training."""
    asked = []
    predict = Ensemble.predict

    def heard(self, f, level, **options):
        asked.append(level)
        return predict(self, f, level, **options)

    monkeypatch.setattr(Ensemble, "predict", heard)
    surrogate, _, out_of_fold = fitted((50, 50))
    surrogate.fit(out_of_fold.data, kind="update", watch=lambda *_: None)
    assert asked == [0, 1, 0, 1]
