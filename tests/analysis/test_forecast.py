"""Forecasts from learning curves: exact on exact power laws, right as often as they say on scattered ones."""

import math

import numpy as np
import pytest

from mrafno.analysis.forecast import CostForecast, ErrorForecast, LearningCurve

EXAMPLES = [50.0, 70, 100, 140, 200, 280, 400]


def law(examples, power, floor=0.0, scale=10.0):
    return np.sqrt((scale * np.asarray(examples, dtype=float) ** -power) ** 2 + floor**2)


def test_a_power_law_is_continued():
    curve = LearningCurve.fit(EXAMPLES, law(EXAMPLES, 0.9))
    middle, low, high = curve.error_at(800)
    assert middle == pytest.approx(law([800], 0.9)[0], rel=0.15)
    assert low < law([800], 0.9)[0] < high
    count, early, late = curve.examples_to_reach(float(law([800], 0.9)[0]))
    assert count == pytest.approx(800, rel=0.25)
    assert early < 800 < late


def test_the_present_is_known_best():
    curve = LearningCurve.fit(EXAMPLES, law(EXAMPLES, 0.9))
    widths = [curve.error_at(n)[2] / curve.error_at(n)[1] for n in (400, 800, 1600)]
    assert widths == sorted(widths)
    assert curve.error_at(400)[0] == pytest.approx(law([400], 0.9)[0], rel=0.05)


def test_an_error_below_the_floor_may_be_out_of_reach():
    examples = np.geomspace(50, 3000, 12)
    curve = LearningCurve.fit(examples, law(examples, 1.2, floor=0.02))
    assert math.isinf(curve.examples_to_reach(0.001)[0])
    assert math.isinf(curve.examples_to_reach(0.01)[2])
    # And the floor is foreseen.
    assert curve.error_at(12_000)[0] > 0.01


@pytest.mark.parametrize("power", [0.4, 0.8, 1.2])
def test_the_interval_holds_about_as_often_as_it_says(power):
    """From half of the cost to all of it, with errors that scatter by a tenth."""
    rng, held, ratios = np.random.default_rng(int(10 * power)), [], []
    for _ in range(60):
        floor = rng.choice([0.0, 0.3]) * law([800], power)[0]
        curve = LearningCurve.fit(EXAMPLES, law(EXAMPLES, power, floor) * np.exp(0.1 * rng.normal(size=len(EXAMPLES))))
        truth = law([800], power, floor)[0] * math.exp(0.1 * rng.normal())
        middle, low, high = curve.error_at(800)
        held.append(low <= truth <= high)
        ratios.append(middle / truth)
    assert np.mean(held) >= 0.8
    assert abs(math.log(np.median(ratios))) < math.log(1.25)


def test_errors_that_may_all_be_wrong_widen_the_forecast():
    sure, unsure = (LearningCurve.fit(EXAMPLES, law(EXAMPLES, 0.9), deviation=d).error_at(800) for d in (0.0, 0.6))
    assert unsure[1] < sure[1] < sure[2] < unsure[2]


@pytest.mark.parametrize(
    ("examples", "errors"),
    [([1, 2, 3], [3, 2, 1]), ([5, 5, 5, 5], [4, 3, 2, 1]), ([1, 2, 3, 4], [1, math.nan, 0, 1]), ([], [])],
)
def test_too_few_points_give_no_curve(examples, errors):
    assert LearningCurve.fit(examples, errors) is None


def test_forecasts_print_as_sentences():
    assert str(ErrorForecast(500, 0.0214, 0.0171, 0.027)) == (
        "about 0.0214, 0.0171 to 0.027 with 90 % probability, at a total cost of 500"
    )
    reach = {"error": 0.02, "low": 240.0, "high": 450.0, "total": 900.0}
    assert str(CostForecast(more=310.0, seconds=5400, workers=4, **reach)) == (
        "about 310 more, 240 to 450, to reach 0.02; 1.5 h at 4 workers"
    )
    assert str(CostForecast(more=310.0, **reach)) == "about 310 more, 240 to 450, to reach 0.02"
    never = {"error": 0.02, "high": math.inf, "total": math.inf}
    assert str(CostForecast(more=math.inf, low=240.0, **never)) == "more than 240 more, to reach 0.02"
    assert str(CostForecast(more=math.inf, low=math.inf, **never)) == "an error of 0.02 is out of reach"
    assert str(CostForecast(0.02, 310, 240, math.inf, 900)) == "about 310 more, at least 240, to reach 0.02"
    assert str(CostForecast(0.5, 0, 0, 9, 900)) == "an error of 0.5 is as likely reached as not"
