"""A Python function as a task."""

import numpy as np
import pytest

from mrafno.errors import SimulationError, TaskError
from mrafno.tasks import FunctionTask


def square(f, level):
    return f**2 + level


class Stubborn:
    """Like a tensor that has a gradient."""

    def __array__(self, *_, **__):
        raise RuntimeError("detach it first")


@pytest.fixture
def inputs():
    return np.random.default_rng(0).standard_normal((6, 17))


def test_a_function_on_an_interval(inputs):
    task = FunctionTask(square, inputs, (9, 17), (1, 4))
    f = task.sample(4, seed=2)
    assert f.shape == (4, 1, 17)
    np.testing.assert_array_equal(task.solve(f, 1), f**2 + 1)
    np.testing.assert_array_equal(task.solve(task.restrict(f, 0), 0), f[..., ::2] ** 2)


def test_a_function_of_several_channels_on_a_grid_that_is_not_square():
    candidates = np.random.default_rng(1).standard_normal((5, 2, 16, 24))
    task = FunctionTask(
        lambda f, _: np.stack([f[0] + f[1], f[0] * f[1], f[1]]), candidates, ((8, 12), (16, 24)), (1, 4),
        out_channels=3, layout="cells", interpolation="nearest",
    )  # fmt: skip
    f = task.sample(5)
    y = task.solve(f, 1)
    assert y.shape == (5, 3, 16, 24)
    np.testing.assert_array_equal(y[:, 1], f[:, 0] * f[:, 1])
    assert task.solve(task.restrict(f, 0), 0).shape == (5, 3, 8, 12)
    assert task.domain.in_channels == 2


def test_a_batched_function_gets_the_whole_batch(inputs):
    seen = []
    task = FunctionTask(lambda f, _: seen.append(f.shape) or f, inputs, (17,), (1,), batched=True)
    task.solve(task.sample(6), 0)
    assert seen == [(6, 1, 17)]


def test_the_channel_axis_may_be_left_out(inputs):
    whole = FunctionTask(square, inputs[:, None], (17,), (1,))
    short = FunctionTask(lambda f, level: square(f, level)[0], inputs, (17,), (1,))
    np.testing.assert_array_equal(short.solve(short.sample(3), 0), whole.solve(whole.sample(3), 0))


def test_a_function_may_work_in_place_and_reuse_its_buffer(inputs):
    buffer = np.empty((1, 17))

    def careless(f, _):
        f *= 2
        buffer[:] = f
        return buffer

    task = FunctionTask(careless, inputs, (17,), (1,))
    f = task.sample(3)
    before = f.copy()
    np.testing.assert_array_equal(task.solve(f, 0), 2 * before)
    np.testing.assert_array_equal(f, before)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda f, _: f[..., 1:], r"returned shape \(1, 16\), expected \(1, 17\)"),
        (lambda f, _: np.concatenate([f, f]), r"returned shape \(2, 17\), expected \(1, 17\).*say out_channels=2"),
        (lambda f, _: f if f[0, 0] > 0 else f[:, :3], r"returned shape \(1, 3\)"),
        (lambda f, _: f * np.nan, "NaN or infinite"),
        (
            lambda f, _: f + 1j,
            r"complex128\. Return an array of real numbers of shape \(1, 17\) \(out_channels, grid\)",
        ),
        (lambda f, _: None, "on level 0 returned None: is a `return` missing"),
        (lambda f, _: "done", r"returned a str\. Return an array"),
        (
            lambda f, _: Stubborn(),
            r"returned a Stubborn of which NumPy makes no array \(RuntimeError .*: detach it first\)",
        ),
        (lambda f, _: [[1.0], [1.0, 2.0]], r"returned a list whose rows differ in length\. Return an array"),
        (
            lambda f, _: 1 / 0,
            r"given shape \(1, 17\) on level 0, raised ZeroDivisionError \(test_function.py:\d+\): division by zero",
        ),
    ],
)
def test_a_function_that_fails_is_reported(inputs, function, message):
    task = FunctionTask(function, inputs, (17,), (1,), name="mine")
    with pytest.raises(SimulationError, match=f"mine: .*{message}"):
        task.solve(inputs[:, None], 0)


PARAMETERS = {"nu": [0.01, 0.1, 1.0, 10.0, 3.0, 0.5], "shift": [1, 2, 3, 4, 5, 6]}


def test_parameters_are_the_third_argument(inputs):
    def scaled(f, level, parameters):
        nu, shift = parameters
        return nu * f + shift + 100 * level

    task = FunctionTask(scaled, inputs, (9, 17), (1, 4), parameters=PARAMETERS)
    assert (task.in_channels, task.parameters, task.log_parameters) == (3, ("nu", "shift"), ("nu",))
    f = task.sample(6)
    functions, values = task.split(f)
    assert {tuple(row) for row in values} == set(zip(*PARAMETERS.values(), strict=True))
    expected = values[:, :1, None] * functions[..., ::2] + values[:, 1:, None]
    np.testing.assert_array_equal(task.solve(task.restrict(f, 0), 0), expected)
    np.testing.assert_array_equal(task.split(task.restrict(f, 0))[1], values)


@pytest.mark.parametrize("layout", ["nodes", "cells", "periodic"])
def test_parameters_only(layout):
    """Parameters survive every interpolation to the last bit."""
    values = np.random.default_rng(0).uniform(0.1, 0.3, (5, 2))

    def bump(parameters, level):
        x = np.linspace(0, 1, (9, 17)[level])
        return parameters[0] * np.exp(-x / parameters[1])

    task = FunctionTask(bump, parameters=values, resolutions=(9, 17), costs=(1, 4), layout=layout)
    assert (task.in_channels, task.parameters, task.domain.function_channels) == (2, ("p0", "p1"), 0)
    f = task.sample(5, seed=1)
    found = task.split(task.restrict(f, 0))[1]
    np.testing.assert_array_equal(np.sort(found[:, 0]), np.sort(values[:, 0]))
    np.testing.assert_array_equal(task.solve(task.restrict(f, 0), 0)[0, 0], bump(found[0], 0))
    np.testing.assert_array_equal(task.join(None, found, 1), f)


def test_a_batched_function_of_parameters():
    seen = []

    def batched(parameters, level):
        seen.append(parameters.shape)
        return np.repeat(parameters[:, :1, None], 17, axis=2)

    values = {"a": [1.0, 2.0, 3.0]}
    task = FunctionTask(batched, parameters=values, resolutions=(17,), costs=(1,), batched=True)
    task.solve(task.sample(3), 0)
    assert seen == [(3, 1)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"mine: there are no candidates\. Give inputs=, functions, or parameters="),
        ({"parameters": {"a": [1.0, 2.0]}, "inputs": np.zeros((3, 17))}, "3 functions and 2 parameters"),
        ({"parameters": [1.0, 2.0]}, r"parameters of shape \(2,\) are not \(n, p\)"),
        ({"parameters": [[0.0], [1.0]], "log_parameters": ["p0"]}, "p0 is 0 in some input.*positive"),
        ({"parameters": [[1.0]], "parameter_names": "nu"}, "must be a list of texts"),
        ({"parameters": [[1.0]], "parameter_names": ("a", "b")}, "are not numbers"),
        ({"inputs": np.random.default_rng(0).normal(size=(3, 2, 17)), "parameter_names": ("a",)}, "changes over the g"),
        ({"inputs": np.zeros((3, 17)), "parameter_names": ("a", "b")}, "2 parameter_names are too many"),
    ],
)
def test_wrong_parameters_are_refused(settings, message):
    with pytest.raises(TaskError, match=message):
        FunctionTask(square, **{"resolutions": (17,), "costs": (1,), "name": "mine", **settings})
