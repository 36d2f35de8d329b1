"""Parameters as constant channels: from what people write to arrays, and back."""

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.grids.parameters import as_parameters, check_constant, check_names, join, over_decades, split

NAMES = ("nu", "length")


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("channels", [0, 2])
def test_join_and_split_are_inverse(shape, channels):
    rng = np.random.default_rng(0)
    functions, values = rng.normal(size=(3, channels, *shape)), rng.normal(size=(3, 2))
    f = join(functions, values)
    assert f.shape == (3, channels + 2, *shape)
    np.testing.assert_array_equal(f[:, -1].reshape(3, -1), np.repeat(values[:, 1:], np.prod(shape), axis=1))
    back = split(f, 2)
    np.testing.assert_array_equal(back[0], functions)
    np.testing.assert_array_equal(back[1], values)


def test_no_parameters_are_fine():
    f = np.ones((3, 1, 5))
    functions, values = split(f, 0)
    assert (functions.shape, values.shape) == ((3, 1, 5), (3, 0))
    np.testing.assert_array_equal(join(functions, values), f)


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        {"length": [2, 4], "nu": np.array([1, 3])},
    ],
)
def test_what_people_write(values):
    found = as_parameters(values, NAMES, where="here", error=TaskError)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[1, 2], [3, 4]])


def test_one_value_for_all_in_a_mapping_and_one_row():
    found = as_parameters({"nu": 0.5, "length": [1, 2, 3]}, NAMES, where="here", error=TaskError)
    np.testing.assert_array_equal(found, [[0.5, 1], [0.5, 2], [0.5, 3]])
    assert as_parameters([1.0, 2.0], NAMES, where="here", error=TaskError).shape == (1, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [[1, 2, 3]],
            r"here: parameters of shape \(1, 3\) .* are not numbers \(n, 2\)\. Give one column each for nu, l",
        ),
        ([["a", "b"]], "are not numbers"),
        ([[1, 2], [3]], "are not numbers"),
        ([[1, np.nan]], r"parameter length of input 0 is nan\. Give a finite number"),
        ({"nu": 1}, "the parameter length is missing"),
        ({"nu": 1, "lenght": 2}, "there is no parameter 'lenght'. Did you mean 'length'?"),
        ({"nu": [1, 2], "length": [1, 2, 3]}, "not equally many"),
        ({"nu": "thin", "length": 1}, "are not numbers"),
    ],
)
def test_what_is_refused(values, message):
    with pytest.raises(TaskError, match=message):
        as_parameters(values, NAMES, where="here", error=TaskError)


def test_a_parameter_that_changes_over_the_grid_is_refused():
    f = join(np.zeros((2, 1, 5)), np.array([[1.0, 2.0], [3.0, 4.0]]))
    check_constant(f, NAMES, "here", TaskError)
    f[1, 2, 3] += 1e-3
    with pytest.raises(TaskError, match=r"here: length of input 1 is a parameter, but changes over the grid by 0\.001"):
        check_constant(f, NAMES, "here", TaskError)


def test_positive_parameters_that_vary_tenfold_are_logarithmic():
    values = np.array([[1.0, 1.0, -1.0, 0.0], [10.0, 9.9, 100.0, 50.0]])
    assert over_decades(values, ("a", "b", "c", "d")) == ("a",)
    assert over_decades(values[:0], ("a", "b", "c", "d")) == ()


@pytest.mark.parametrize(
    ("names", "logarithmic", "message"),
    [
        (("a", "a"), (), "need different names"),
        (("a", "{b}"), (), "is no name of a parameter"),
        ((3,), (), "is no name of a parameter"),
        (("nu",), ("mu",), "log_parameters names 'mu', which is no parameter"),
    ],
)
def test_names(names, logarithmic, message):
    with pytest.raises(TaskError, match=message):
        check_names(names, logarithmic, "here", TaskError)
