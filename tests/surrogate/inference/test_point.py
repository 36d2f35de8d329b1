"""A single network."""

from tests.surrogate.inference.small import LINE, data_of, equal, made, waves


def test_point_is_an_ensemble_of_one_with_the_composite_loss():
    f = waves(LINE, (0, 3), seed=5)[1][0]
    point, one = made("point"), made("ensemble", members=1)
    point.fit(data_of(LINE))
    one.fit(data_of(LINE))
    assert equal(point.predict(f), one.predict(f))
    assert made("point", preset="paper").training.loss == "composite"
