"""The cache of examples: each is simulated once and found under its own key only."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mrafno.data import cache as examples
from mrafno.data.cache import default_cache, make_inputs, solve_examples
from mrafno.errors import SimulationError, TaskError
from mrafno.tasks import Burgers, Darcy, FunctionTask, NavierStokes


class Counting(Darcy):
    """A Darcy problem that counts the inputs it solves and can be made to fail."""

    def __init__(self, **settings):
        super().__init__(**{"resolutions": ((4, 4), (8, 8)), **settings})
        self.solved = self.sampled = 0
        self.fail_at = None

    def _solve(self, f, level):
        if self.fail_at is not None and self.solved + len(f) > self.fail_at:
            raise KeyboardInterrupt
        self.solved += len(f)
        return super()._solve(f, level)

    def _sample(self, indices, seed):
        self.sampled += len(indices)
        # Fields on so few cells are often equal: a little of its own makes every input another one.
        return super()._sample(indices, seed) + 1e-3 * np.reshape(indices, (-1, 1, 1, 1))


class Failing(Counting):
    """Cannot solve its eleventh input."""

    def _solve(self, f, level):
        if (f == self.sample_at([10])).all(axis=(1, 2, 3)).any():
            raise SimulationError("darcy: the eleventh fails.")
        return super()._solve(f, level)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path / "cache"))


def files(tmp_path):
    return sorted((tmp_path / "cache").rglob("*.npz"))


def quiet(task, f, level=1, **settings):
    return solve_examples(task, f, level, progress=False, **settings)


def test_a_cached_example_is_not_solved_again():
    task = Counting()
    f = task.sample(12)
    first = quiet(task, f)
    assert task.solved == 12
    np.testing.assert_array_equal(quiet(task, f), first)
    np.testing.assert_array_equal(quiet(Counting(), f), first)
    assert task.solved == 12
    np.testing.assert_array_equal(first, task.solve(f, 1))


def test_a_larger_set_reuses_a_smaller_one_in_any_order():
    task = Counting()
    f = task.sample(30)
    quiet(task, f[:8])
    y = quiet(task, f)
    assert task.solved == 30
    np.testing.assert_array_equal(quiet(task, f[::-3]), y[::-3])
    assert task.solved == 30


def test_an_input_that_occurs_twice_is_solved_once():
    task = Counting()
    f = task.sample(3)[[0, 1, 0, 2, 1]]
    np.testing.assert_array_equal(quiet(task, f), task.solve(f, 1))
    assert task.solved == 3 + 5


def test_levels_are_kept_apart():
    task = Counting()
    f = task.sample(5)
    assert quiet(task, f, 0).shape == (5, 1, 4, 4)
    assert quiet(task, f, 1).shape == (5, 1, 8, 8)
    assert task.solved == 10


def test_an_interrupted_call_keeps_its_finished_examples():
    task = Counting()
    f = task.sample(50)
    task.fail_at = 30
    with pytest.raises(KeyboardInterrupt):
        quiet(task, f)
    made = task.solved
    assert 0 < made <= 30
    task.fail_at = None
    quiet(task, f)
    assert task.solved == 50


def test_slow_simulations_are_kept_one_by_one(monkeypatch):
    """A chunk that is interrupted is lost, so it holds no more than seconds of work."""
    monkeypatch.setattr(examples, "_CHUNK_SECONDS", 0.0)
    task = Counting()
    f = task.sample(9)
    task.fail_at = 7
    with pytest.raises(KeyboardInterrupt):
        quiet(task, f)
    task.fail_at = None
    quiet(task, f)
    assert task.solved == 9


def test_the_key_depends_on_every_parameter(tmp_path):
    f = Counting().sample(1)
    changes = (
        {}, {"high": 11.0}, {"low": 3.0}, {"shift": 8.0}, {"power": 2.5}, {"source": 2.0}, {"name": "other"},
        {"resolutions": ((8, 8),)}, {"resolutions": ((2, 2), (8, 8))},
    )  # fmt: skip
    for settings in changes:
        task = Counting(**settings)
        quiet(task, f, task.levels - 1)
        assert task.solved == 1, settings
    quiet(Counting(), f + 1e-12)
    assert len(files(tmp_path)) == len(changes) + 1
    costly = Counting(costs=(1, 2))
    quiet(costly, f)
    assert costly.solved == 0


def test_a_new_revision_of_the_solver_is_solved_again(monkeypatch):
    task = Counting()
    f = task.sample(1)
    quiet(task, f)
    monkeypatch.setattr(Counting, "revision", 2)
    quiet(task, f)
    assert task.solved == 2


def test_damage_anywhere_in_a_file_is_found_and_repaired(tmp_path):
    """Every seventh byte in turn is changed: the numbers are the right ones each time, read or made again."""
    task = Counting()
    f = task.sample(1)
    y = quiet(task, f)
    [path] = files(tmp_path)
    good = path.read_bytes()
    again = 0
    for position in range(0, len(good), 7):
        damaged = bytearray(good)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        before = task.solved
        np.testing.assert_array_equal(quiet(task, f), y)
        again += task.solved - before
    # Changes of the date or of a field that nobody reads do no harm; all 512 bytes of numbers do.
    assert again >= 512 // 7


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04"])
def test_a_file_that_is_something_else_is_made_again(tmp_path, content):
    task = Counting()
    f = task.sample(1)
    y = quiet(task, f)
    [path] = files(tmp_path)
    for spoil in (lambda: path.write_bytes(content), lambda: np.save(path.open("wb"), y)):
        spoil()
        np.testing.assert_array_equal(quiet(task, f), y)
    assert task.solved == 3


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    task = Counting()
    f = task.sample(1)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(TaskError, match=r"cannot be written.*No space left.*MRAFNO_CACHE"):
        quiet(task, f)
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []


def test_a_task_without_version_is_not_cached(tmp_path):
    calls = []

    def double(f, level):
        calls.append(level)
        return 2 * f

    inputs = np.random.default_rng(0).standard_normal((4, 9))
    task = FunctionTask(double, inputs, (9,), (1,))
    for _ in range(2):
        np.testing.assert_array_equal(quiet(task, inputs[:, None], 0), 2 * inputs[:, None])
    assert len(calls) == 8
    assert files(tmp_path) == []
    versioned = FunctionTask(double, inputs, (9,), (1,), version="1")
    for _ in range(2):
        quiet(versioned, inputs[:, None], 0)
    assert len(calls) == 12


def test_inputs_are_cached_by_seed_and_index():
    task = NavierStokes(resolutions=((6, 6), (12, 12)), frames=2, final_time=1.0)
    np.testing.assert_array_equal(make_inputs(task, 5, seed=3, progress=False), task.sample(5, seed=3))
    np.testing.assert_array_equal(make_inputs(task, [7, 2], seed=3, progress=False), task.sample_at([7, 2], seed=3))
    counting = Counting()
    make_inputs(counting, 5, progress=False)
    make_inputs(counting, [1, 6, 4], progress=False)
    make_inputs(counting, 5, seed=1, progress=False)
    assert counting.sampled == 11


def test_a_pool_gives_the_same_numbers(monkeypatch):
    monkeypatch.setattr(examples, "_WORTH_A_POOL", 0.0)
    task = Burgers(resolutions=(17, 33), viscosity=0.05)
    f = task.sample(30)
    np.testing.assert_array_equal(quiet(task, f, workers=2), task.solve(f, 1))


def test_a_failure_in_the_pool_keeps_finished_examples(monkeypatch, tmp_path):
    monkeypatch.setattr(examples, "_WORTH_A_POOL", 0.0)
    monkeypatch.setattr(examples, "_CHUNK_SECONDS", 0.0)
    task = Failing()
    with pytest.raises(SimulationError, match="the eleventh fails"):
        quiet(task, task.sample(16), workers=2)
    assert len(files(tmp_path)) >= 10


def test_a_function_that_cannot_be_pickled_is_solved_in_this_process(monkeypatch):
    monkeypatch.setattr(examples, "_WORTH_A_POOL", 0.0)
    here = os.getpid()
    task = FunctionTask(lambda f, _: f * 0 + os.getpid(), np.zeros((30, 9)), (9,), (1,))
    assert set(np.unique(quiet(task, task.sample(30), 0, workers=2))) == {here}


def test_a_script_needs_no_main_guard(tmp_path):
    """Workers do not run the caller's script again, and a function of the script is solved in the script."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\n"
        "from mrafno.data import cache as examples\n"
        "from mrafno.tasks import Burgers, FunctionTask\n"
        "print('started')\n"
        "examples._WORTH_A_POOL = 0.0\n"
        "task = Burgers(resolutions=(17, 33), viscosity=0.05)\n"
        "f = task.sample(12)\n"
        "assert (examples.solve_examples(task, f, 1, workers=2, progress=False) == task.solve(f, 1)).all()\n"
        "def double(f, level):\n"
        "    return 2 * f\n"
        "own = FunctionTask(double, f[:, 0], (33,), (1,))\n"
        "assert (examples.solve_examples(own, f, 0, workers=2, progress=False) == 2 * f).all()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr


def test_progress_can_be_shown_or_not(capfd):
    task = Counting()
    f = task.sample(3)
    solve_examples(task, f, 1, progress=False)
    assert capfd.readouterr() == ("", "")
    solve_examples(task, f, 0)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "darcy: 4x4" in shown.err
    assert "3/3" in shown.err


def test_bad_input_is_refused_before_any_work():
    task = Counting()
    f = task.sample(3)
    f[2, 0, 0, 0] = np.nan
    with pytest.raises(TaskError, match="NaN"):
        quiet(task, f)
    with pytest.raises(TaskError, match="unknown level"):
        quiet(task, task.sample(1), 2)
    assert task.solved == 0


def test_no_examples():
    assert quiet(Counting(), np.zeros((0, 1, 8, 8))).shape == (0, 1, 8, 8)


def test_where_the_cache_is(tmp_path, monkeypatch):
    assert default_cache() == tmp_path / "cache"
    monkeypatch.delenv("MRAFNO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "mrafno"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "mrafno"
