import math

import numpy as np
import pytest

from mrafno.analysis.metrics import Metrics, coverage, evaluate
from mrafno.data.dataset import Dataset
from mrafno.grids import relative_l2
from mrafno.surrogate import Ensemble
from mrafno.surrogate.prediction import Prediction
from mrafno.tasks import FunctionTask


def test_coverage_of_a_calibrated_prediction():
    """Truth drawn from the prediction itself: a central interval holds its own share of the values."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(1, 50, 1, 200))
    log_var = rng.normal(size=(1, 50))
    truth = mean[0] + np.exp(log_var[0] / 2)[:, None, None] * rng.normal(size=(50, 1, 200))
    for p in (0.5, 0.9):
        assert coverage(Prediction(mean, log_var), truth, p) == pytest.approx(p, abs=0.015)


def test_metrics_are_those_of_the_prediction():
    x = np.linspace(0, 1, 17)
    inputs = np.sin(np.pi * x * np.arange(1, 9)[:, None])
    task = FunctionTask(lambda f, level: 100 * f, inputs, resolutions=(9, 17), costs=(1, 2))
    f = task.sample(8)
    data = Dataset.of(task.domain, [(task.restrict(f, 0), 100 * task.restrict(f, 0)), (f, 100 * f)])
    surrogate = Ensemble(task.domain, members=2, training={"iterations": 5})
    surrogate.fit(data)
    metrics = evaluate(surrogate, f, 100 * f)
    predicted = surrogate.predict(f)
    assert metrics.relative_l2 == relative_l2(predicted.mean, 100 * f).mean()
    # An output that is zero everywhere has no relative error of its own; it does not wreck the mean.
    assert evaluate(surrogate, 0 * f, 0 * f).relative_l2 < 1000
    assert metrics.nll_per_value == pytest.approx(metrics.nll / 17)
    # The likelihood is that of normalised values: in physical units it differs by the log of the scale.
    scale = surrogate.normaliser.out_std[0]
    variance = predicted.std**2
    physical = 0.5 * (np.log(2 * np.pi * variance) + (100 * f - predicted.mean) ** 2 / variance)
    assert metrics.nll_per_value == pytest.approx(physical.mean() - np.log(scale))
    assert metrics.coverage["0.9"] == pytest.approx(coverage(predicted, 100 * f, 0.9))


def test_json_has_none_where_there_is_no_finite_number():
    metrics = Metrics(math.inf, -math.inf, math.nan, 2.0, {"0.5": math.nan, "0.9": 0.8})
    expected = {"relative_l2": None, "nll": None, "nll_per_value": None, "nll_joint": 2.0}
    assert metrics.as_json() == {**expected, "coverage": {"0.5": None, "0.9": 0.8}}
