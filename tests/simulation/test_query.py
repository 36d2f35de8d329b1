"""Queries and observations are records that nobody changes."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from mrafno.simulation.query import Observation, Query


def test_they_are_frozen():
    query = Query("q000001", "pool", 1, np.zeros((1, 5)), 7, 2)
    assert (query.candidate, query.step) == (7, 2)
    assert Query("q000002", "test", 1, np.zeros((1, 5))).candidate is None
    with pytest.raises(FrozenInstanceError):
        query.level = 0
    observation = Observation("q000001", None, 1.5, "no convergence")
    with pytest.raises(FrozenInstanceError):
        observation.reason = None
