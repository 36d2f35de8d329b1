"""Executors on this machine."""

import os

import pytest

from mrafno.errors import TaskError
from mrafno.simulation.executors import InProcess, process_pool
from tests.simulators import (
    interrupts,
    who,
)


def test_in_process_runs_at_once_and_lets_ctrl_c_through():
    future = InProcess().submit(who)
    assert future.done()
    assert future.result()[0] == os.getpid()
    with pytest.raises(ZeroDivisionError):
        InProcess().submit(divmod, 1, 0).result()
    with pytest.raises(KeyboardInterrupt):
        InProcess().submit(interrupts, None, 0)


@pytest.mark.parametrize("workers", [0, True, 1.5, None])
def test_a_pool_has_workers(workers):
    with pytest.raises(TaskError, match="whole number of workers"):
        process_pool(workers)
