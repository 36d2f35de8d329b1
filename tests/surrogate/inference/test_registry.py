"""Surrogates by name."""

import pytest

from mrafno.errors import SurrogateError
from mrafno.surrogate import SURROGATES, Point, Surrogate, get_surrogate
from tests.surrogate.inference.small import KINDS, LINE


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


def test_every_kind_is_a_surrogate_with_its_name():
    assert {kind: SURROGATES[kind].name for kind in KINDS} == {kind: kind for kind in KINDS}
    assert all(issubclass(kind, Surrogate) for kind in SURROGATES.values())
    assert isinstance(get_surrogate("point", LINE), Point)


def test_an_unknown_keyword_raises_an_error_with_the_nearest_name():
    with pytest.raises(SurrogateError, match="members"):
        get_surrogate("ensemble", LINE, member=3)
