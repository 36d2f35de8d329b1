"""Whatever a simulator changes in its process is put back when it ends, also when it fails."""

# ruff: noqa: NPY002 - the global generator is what simulators use

import io
import os
import random
import signal
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from mrafno.run import Run
from mrafno.simulation.attempt import attempt
from mrafno.simulation.surroundings import restored
from tests import runs
from tests.simulators import query_of, task_of


def surroundings():
    return {
        "folder": Path.cwd(),
        "environment": dict(os.environ),
        "signals": [signal.getsignal(number) for number in signal.valid_signals()],
        "warnings": (id(warnings.filters), list(warnings.filters), warnings.showwarning),
        "numpy": (np.geterr(), np.geterrcall()),
        "torch": (torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()),
        "permissions": umask(),
        "output": (sys.stdin, sys.stdout, sys.stderr),
        "alarms": [signal.getitimer(timer) for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF)],
        "recursion": sys.getrecursionlimit(),
        "random": (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()),
    }


def umask():
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def vandal(f, level):
    os.chdir("/")
    os.umask(0o777)
    sys.stdin = sys.stdout = sys.stderr = io.StringIO()
    sys.setrecursionlimit(sys.getrecursionlimit() + 100)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.alarm(100)
    signal.setitimer(signal.ITIMER_PROF, 100)
    torch.set_grad_enabled(False)
    os.environ.pop("HOME", None)
    os.environ.update(PATH="/nowhere", NEW="1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: None)
    warnings.simplefilter("error")
    warnings.showwarning = print
    np.seterr(all="raise")
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(torch.get_num_threads() + 1)
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    if f[0, 0] < 0:
        raise ValueError("and it fails")
    return 2 * f


def drifts(f, level):
    """Changes its folder, and draws from the global generator."""
    os.chdir("/")
    return f + np.random.normal()


@pytest.mark.parametrize("level", [1, -100])
def test_everything_is_put_back(level):
    before = surroundings()
    found = attempt(task_of(vandal), query_of(level))
    after = surroundings()
    assert {name for name in before if before[name] != after[name]} == set()
    assert (found.reason is None) == (level == 1)


def test_filters_of_warnings_work_as_before():
    attempt(task_of(vandal), query_of())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("heard", stacklevel=1)
    assert [str(one.message) for one in seen] == ["heard"]


def test_an_alarm_of_the_caller_stays():
    """One that the simulator leaves would end the process, as its handler is gone."""
    signal.setitimer(signal.ITIMER_REAL, 500)
    try:
        attempt(task_of(lambda f, level: 2 * f), query_of())
        assert 400 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_run_learns_and_is_readable_after_a_simulator_without_gradients_and_permissions(tmp_path):
    def solve(f, level):
        os.umask(0o777)
        torch.set_grad_enabled(False)
        return runs.smooth(f, level)

    with runs.create(tmp_path / "run", task=runs.tiny(solve)) as run:
        assert run.advance(steps=1).reason == "finished 1 step"
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert {name for name, mode in modes.items() if not mode & 0o400} == set()


def test_a_folder_that_is_gone_and_another_thread_do_no_harm(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert attempt(task_of(drifts), query_of()).reason is None
    monkeypatch.chdir(tmp_path)
    inside, leave = threading.Event(), threading.Event()

    def other():
        with restored():
            os.chdir("/")
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with restored():
        thread.start()
        assert inside.wait(10)
    assert Path.cwd() == Path("/")  # the other one is not done
    leave.set()
    thread.join()
    assert Path.cwd() == tmp_path


def test_a_simulator_that_draws_has_a_stream_of_its_own_that_goes_on():
    """The caller's numbers are what they were; two simulations do not have the same noise; a seed counts."""
    task = task_of(drifts)
    np.random.seed(3)
    expected = np.random.RandomState(3).normal(size=5)
    noise = [attempt(task, query_of()).output[0, 0] for _ in range(2)]
    assert np.random.normal() == expected[0]
    assert noise[1] - noise[0] == pytest.approx(expected[1] - expected[0])
    np.random.seed(4)
    expected = np.random.RandomState(4).normal(size=5)
    again = [attempt(task, query_of()).output[0, 0] for _ in range(2)]
    assert again[1] - again[0] == pytest.approx(expected[1] - expected[0])


def test_a_run_in_a_relative_folder_is_whole_after_a_simulator_that_changes_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Run.create("run", runs.tiny(drifts), **runs.SETTINGS) as run:
        run.advance(steps=1)
        assert Path.cwd() == tmp_path
    with Run.open("run", runs.tiny(drifts)) as run:
        assert run.advance(steps=1).reason == "finished 2 steps"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
