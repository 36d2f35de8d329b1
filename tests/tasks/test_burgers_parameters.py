"""Burgers' equation with parameters against the one without."""

import numpy as np
import pytest

from mrafno.errors import TaskError
from mrafno.tasks import Burgers, BurgersParameters


def test_every_input_is_solved_with_its_own_viscosity_and_amplitude():
    task = BurgersParameters(resolutions=(17, 33))
    f = task.sample(4, seed=2)
    functions, values = task.split(f)
    found = task.solve(f, 1)
    for row, (viscosity, amplitude) in enumerate(values):
        alone = Burgers(resolutions=(33,), viscosity=viscosity)
        np.testing.assert_array_equal(found[row : row + 1], alone.solve(amplitude * functions[row : row + 1], 0))


def test_profiles_are_those_of_burgers():
    functions, _ = BurgersParameters().split(BurgersParameters().sample(5, seed=3))
    np.testing.assert_array_equal(functions, Burgers().sample(5, seed=3))


def test_parameters_are_log_uniform_in_their_ranges():
    task = BurgersParameters(resolutions=(5, 9), viscosities=(0.01, 1.0), amplitudes=(0.1, 10.0))
    values = np.log10(task.split(task.sample(2000))[1])
    np.testing.assert_allclose(
        np.quantile(values, [0, 0.25, 0.5, 0.75, 1], axis=0)[:, 0], [-2, -1.5, -1, -0.5, 0], atol=0.1
    )
    np.testing.assert_allclose(np.quantile(values, [0, 0.5, 1], axis=0)[:, 1], [-1, 0, 1], atol=0.1)
    assert abs(np.corrcoef(values.T)[0, 1]) < 0.1


def test_the_default_ranges_can_be_solved_on_both_meshes():
    """At the corner that makes the steepest fronts too."""
    task = BurgersParameters()
    functions, values = task.split(task.sample(20, seed=9))
    values[:, 0], values[:, 1] = task.viscosities[0], task.amplitudes[1]
    f = task.join(functions, values)
    for level in (0, 1):
        assert np.isfinite(task.solve(task.restrict(f, level), level)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"viscosities": (0.1, 0.01)}, "viscosities must be two positive numbers, the smaller first"),
        ({"amplitudes": (0.0, 1.0)}, "amplitudes must be two positive"),
        ({"amplitudes": (1.0,)}, "amplitudes must be two positive"),
        ({"final_time": 0.0}, "final_time must be a positive number"),
        ({"resolutions": (4, 9)}, "needs 5 nodes or more"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(TaskError, match=message):
        BurgersParameters(**settings)


def test_parameters_that_are_not_positive_are_refused():
    task = BurgersParameters(resolutions=(5, 9))
    f = task.sample(2)
    f[1, 1] = 0.0
    with pytest.raises(TaskError, match="viscosity of input 1 is 0, not > 0"):
        task.solve(f, 1)
