"""Inputs as people have them."""

from dataclasses import replace

import numpy as np
import pytest

from mrafno.errors import SurrogateError
from mrafno.surrogate.shapes import as_inputs
from tests import small_surrogates


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((3, 1, 7), (3, 1, 7)), ((1, 7), (1, 1, 7)), ((7,), (1, 1, 7))],
)
def test_one_channel(shape, expected):
    values = np.random.default_rng(0).normal(size=shape)
    found = as_inputs(values.tolist(), small_surrogates.DOMAINS[1])
    assert (found.shape, found.dtype) == (expected, np.float64)
    np.testing.assert_array_equal(found.ravel(), values.ravel())


@pytest.mark.parametrize(("shape", "expected"), [((3, 2, 5, 6), (3, 2, 5, 6)), ((2, 5, 6), (1, 2, 5, 6))])
def test_several_channels(shape, expected):
    assert as_inputs(np.ones(shape, dtype=np.int32), small_surrogates.DOMAINS[2]).shape == expected


@pytest.mark.parametrize(
    ("dim", "values", "said"),
    [
        (1, np.ones((3, 2, 7)), r"shape \(3, 2, 7\) are not \(n, 1, grid of 1 axis\), nor one function without n\.$"),
        (1, np.ones((3, 7)), r"If they are 3 functions, add an axis for the channel: f\[:, None\]\."),
        (1, np.ones((1, 1, 1, 7)), r"are not \(n, 1, grid of 1 axis\)"),
        (1, np.ones((0, 1, 7)), "are not"),
        (1, np.ones(1), "at least 2 points"),
        (1, 3.0, r"shape \(\) are not"),
        (2, np.ones((5, 6)), r"shape \(5, 6\) are not \(n, 2, grid of 2 axes\)"),
        (2, np.ones((3, 5, 6)), "are not"),
        (2, np.ones((3, 1, 5, 6)), "are not"),
        (1, [0.0, np.nan, 1.0], "NaN or infinite"),
        (1, np.ones(7, dtype=complex), "complex128. Give an array of real numbers"),
        (1, [[1.0, 2.0], [3.0]], "real numbers"),
    ],
)
def test_what_is_no_input(dim, values, said):
    with pytest.raises(SurrogateError, match=said):
        as_inputs(values, small_surrogates.DOMAINS[dim])


def test_a_surrogate_takes_them_all():
    surrogate = small_surrogates.surrogate()
    x = np.linspace(99, 101, 20)
    expected = surrogate.predict(x[None, None])
    assert expected.mean.shape == expected.std.shape == (1, 1, 20)
    for f in (x, x[None], list(x)):
        np.testing.assert_array_equal(surrogate.predict(f).samples, expected.samples)


MIXED = replace(small_surrogates.DOMAINS[1], in_channels=3, parameters=("nu", "a"), log_parameters=("nu",))
ONLY = replace(MIXED, in_channels=2)


def test_parameters_beside_functions_and_in_them():
    f, values = np.arange(14.0).reshape(2, 1, 7), np.array([[1.0, -2.0], [3.0, 4.0]])
    found = as_inputs(f, MIXED, values)
    np.testing.assert_array_equal(found[:, 0], f[:, 0])
    np.testing.assert_array_equal(found[:, 1:, 3], values)
    np.testing.assert_array_equal(as_inputs(found, MIXED), found)
    np.testing.assert_array_equal(as_inputs(f[0, 0], MIXED, {"a": [-2, 4], "nu": 1.0})[:, 1:, 0], [[1, -2], [1, 4]])
    np.testing.assert_array_equal(as_inputs(f, MIXED, [1.0, -2.0])[:, 1:, 0], [[1, -2], [1, -2]])


def test_parameters_only_are_on_the_finest_grid_or_the_one_that_is_wanted():
    assert as_inputs(None, ONLY, [[1.0, 2.0]]).shape == (1, 2, 11)
    assert as_inputs(None, ONLY, [[1.0, 2.0]], (5,)).shape == (1, 2, 5)


@pytest.mark.parametrize(
    ("domain", "f", "parameters", "said"),
    [
        (MIXED, None, None, r"there are no inputs\. Give parameters= \(nu, a\)"),
        (MIXED, None, [1.0, 2.0], "functions and parameters. Give both"),
        (ONLY, np.ones((1, 1, 7)), [1.0, 2.0], "parameters only. Leave f out"),
        (small_surrogates.DOMAINS[1], np.ones(7), [1.0], "have no parameters"),
        (small_surrogates.DOMAINS[1], None, None, r"Give f, an array of functions"),
        (MIXED, np.ones((2, 1, 7)), np.ones((3, 2)), "2 functions and 3 parameters"),
        (MIXED, np.ones(7), [0.0, 1.0], "nu is 0, but it is positive in all training inputs"),
        (MIXED, np.arange(42.0).reshape(2, 3, 7), None, "nu of input 0 is a parameter, but changes"),
    ],
)
def test_parameters_that_are_refused(domain, f, parameters, said):
    with pytest.raises(SurrogateError, match=said):
        as_inputs(f, domain, parameters)
