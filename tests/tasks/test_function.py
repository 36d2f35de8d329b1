"""A Python function as a task."""

import numpy as np
import pytest

from mrafno.errors import SimulationError
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
