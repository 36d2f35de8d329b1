"""A simulation in this process: every exception but Ctrl-C is a reason."""

import re

import numpy as np
import pytest

from mrafno.simulation.attempt import attempt, failure_reason
from mrafno.simulation.query import Query
from tests.simulators import (
    INPUTS,
    OwnTask,
    double,
    interrupts,
    query_of,
    task_of,
)


def assert_failed(observation, pattern):
    assert observation.id == "q000001"
    assert observation.output is None
    assert re.search(pattern, observation.reason), observation.reason
    assert "\n" not in observation.reason
    assert observation.seconds >= 0


def test_only_keyboard_interrupt_is_raised():
    with pytest.raises(KeyboardInterrupt):
        attempt(task_of(interrupts), query_of())


def test_the_query_is_not_changed_by_a_solver_that_works_in_place():
    task = OwnTask(resolutions=(9, 17))
    query = Query("q000001", "initial", 1, np.ones((1, 17)))
    np.testing.assert_array_equal(attempt(task, query).output, 2 * np.ones((1, 17)))
    np.testing.assert_array_equal(query.f, np.ones((1, 17)))


def test_a_long_reason_is_cut():
    error = ValueError("x" * 100_000)
    assert len(failure_reason(error, "mine")) < 1000


def test_an_input_that_the_task_refuses_is_a_failed_query():
    bad = Query("q000001", "pool", 7, INPUTS[:1])
    assert_failed(attempt(task_of(double), bad), "unknown level 7")


def test_a_reason_does_not_command_a_terminal():
    found = failure_reason(ValueError("no \x1b[2J root\x07"), "double")
    assert found == r"double: the simulator raised ValueError: no \x1b[2J root\x07"
