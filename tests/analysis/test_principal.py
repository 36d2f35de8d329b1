"""Principal components against a singular value decomposition, and where there are none."""

import numpy as np
import pytest

from mrafno.analysis.principal import principal_plane
from mrafno.errors import MrafnoError


@pytest.mark.parametrize("n", [3, 8, 60])
def test_coordinates_are_those_of_a_singular_value_decomposition(n):
    x = np.random.default_rng(0).normal(size=(n, 200)) * np.geomspace(10, 0.1, 200)
    found, shares = principal_plane(x)
    u, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    expected = u[:, :2] * s[:2] * np.sqrt(n / (s[:2] ** 2).sum())
    assert np.abs(np.abs(found) - np.abs(expected)).max() < 1e-8
    assert shares == pytest.approx(tuple(s[:2] ** 2 / (s**2).sum()))
    assert (found**2).sum() == pytest.approx(n)
    assert np.array_equal(found, principal_plane(x)[0])


def test_points_of_a_plane_keep_their_distances():
    plane = np.random.default_rng(1).normal(size=(50, 2)) * [3.0, 1.0]
    basis = np.linalg.qr(np.random.default_rng(2).normal(size=(300, 2)))[0]
    found, shares = principal_plane(plane @ basis.T + 5.0)
    assert sum(shares) == pytest.approx(1.0)
    distance = np.linalg.norm(found[:, None] - found, axis=-1)
    expected = np.linalg.norm(plane[:, None] - plane, axis=-1)
    assert np.allclose(distance * expected.max() / distance.max(), expected)


def test_what_does_not_differ_has_no_components():
    found, shares = principal_plane(np.ones((5, 3)))
    assert (found == 0).all()
    assert shares == (0.0, 0.0)
    assert principal_plane(np.ones((1, 3)))[0].shape == (1, 2)
    with pytest.raises(MrafnoError, match="must be finite rows"):
        principal_plane(np.array([[np.nan, 1.0]]))
