"""Tasks with an array of candidates: shapes, settings, draws and identity."""

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.tasks import FunctionTask


def square(f, level):
    return f**2 + level


@pytest.fixture
def inputs():
    return np.random.default_rng(0).standard_normal((6, 17))


def test_candidates_are_drawn_without_repetition(inputs):
    task = FunctionTask(square, inputs, (17,), (1,))
    drawn = task.sample(6, seed=1)[:, 0]
    assert {row.tobytes() for row in drawn} == {row.tobytes() for row in inputs}
    np.testing.assert_array_equal(task.sample(2, seed=1)[:, 0], drawn[:2])
    assert (task.sample(6, seed=2)[:, 0] != drawn).any()
    with pytest.raises(TaskError, match="7 inputs asked for, but only 6 candidates"):
        task.sample(7)


def test_layout_and_boundary_reach_the_domain(inputs):
    task = FunctionTask(square, inputs, (17,), (1,), layout="periodic", zero_boundary=[(True, False)])
    assert task.grids[0].layout == ("periodic",)
    assert task.domain.zero_boundary == ((True, False),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solve": "text"}, "must be a function"),
        ({"inputs": np.zeros((3, 1, 16))}, r"inputs of shape \(3, 1, 16\) do not match the finest resolution \(17,\)"),
        (
            {"inputs": np.zeros((3, 18))},
            r"\(3, 18\) do not match the finest resolution .* or correct the resolutions\.",
        ),
        ({"in_channels": 2}, r"inputs of shape \(6, 17\) have 1 channels, in_channels=2"),
        ({"inputs": np.zeros((0, 17))}, "n at least 1"),
        ({"inputs": np.zeros(17)}, "do not match"),
        ({"inputs": np.full((3, 17), np.nan)}, "NaN"),
        ({"inputs": [[1.0], [1.0, 2.0]]}, "rows differ in length"),
        ({"inputs": "text"}, "dtype"),
        ({"costs": (1,)}, "costs"),
        ({"resolutions": ((4,) * 4, (5,) * 4)}, "not supported"),
        ({"out_channels": 0}, "out_channels"),
        ({"layout": "hexagons"}, "unknown layout"),
        ({"layout": ("nodes", "nodes")}, "axes"),
        ({"interpolation": "cubic"}, "unknown interpolation 'cubic'. Choose one of linear, nearest"),
        ({"zero_boundary": ((True, True),) * 2}, "one .* pair per axis"),
    ],
)
def test_bad_settings_are_refused(inputs, change, message):
    settings = {"solve": square, "inputs": inputs, "resolutions": (9, 17), "costs": (1, 2), **change}
    with pytest.raises(TaskError, match=message):
        FunctionTask(**settings)


def test_a_square_is_not_taken_for_channels():
    """Neither reading of (n, N, N) is taken before somebody says which one is meant."""
    candidates = np.random.default_rng(0).standard_normal((4, 17, 17))
    with pytest.raises(TaskError) as refused:
        FunctionTask(square, candidates, (9, 17), (1, 4), name="plate")
    assert str(refused.value) == (
        "plate: inputs of shape (4, 17, 17) may be 17 channels on an interval of 17 points, or one on a square. For a "
        "square write resolutions=((9, 9), (17, 17)), for channels in_channels=17."
    )
    on_square = FunctionTask(square, candidates, ((9, 9), (17, 17)), (1, 4))
    assert (on_square.in_channels, on_square.inputs.shape) == (1, (4, 1, 17, 17))
    channels = FunctionTask(square, candidates, (9, 17), (1, 4), in_channels=17, out_channels=17)
    assert (channels.in_channels, channels.solve(candidates, 1).shape) == (17, (4, 17, 17))


def test_identity_needs_a_version(inputs):
    assert FunctionTask(square, inputs, (17,), (1,)).identity is None
    one, two = (FunctionTask(square, inputs, (17,), (1,), version=v).identity for v in "12")
    other = FunctionTask(square, inputs + 1, (17,), (1,), version="1").identity
    assert len({one, two, other, None}) == 4
