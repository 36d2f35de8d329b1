"""Fitted surrogates that several tests use and none changes."""

import pytest

from tests.surrogate.inference.small import LINE, PLANE, data_of, made


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
