"""Where a run's inputs come from and stay, and that others are noticed when it goes on."""

import os
import shutil

import h5py
import numpy as np
import pytest

from mrafno.errors import MrafnoWarning, RunError, TaskError
from mrafno.run import Run
from mrafno.run.reader import RunReader
from tests import runs

pytestmark = pytest.mark.usefixtures("quick")


FIELDS = runs.fields(40, 17)


def task_with(inputs, solve=runs.smooth, **more):
    from mrafno.tasks import FunctionTask

    return FunctionTask(solve, inputs, (9, 17), runs.COSTS, **{"name": "tiny", **more})


def saved(folder, values=FIELDS):
    np.save(folder / "fields.npy", values)
    return np.load(folder / "fields.npy", mmap_mode="r")


def dataset(folder):
    with h5py.File(folder / "fields.h5", "w") as file:
        file["fields"] = FIELDS
    return h5py.File(folder / "fields.h5")["fields"]


# Sources.


@pytest.mark.parametrize("source", [saved, dataset])
def test_inputs_on_disk_stay_there_and_make_the_same_run(tmp_path, source):
    with runs.advanced(tmp_path / "memory", 3, task=task_with(FIELDS)) as run:
        expected = runs.choices(run.state)
    with runs.advanced(tmp_path / "disk", 3, task=task_with(source(tmp_path))) as run:
        assert runs.choices(run.state) == expected
    assert not (tmp_path / "disk/arrays/inputs.npy").exists()
    assert (tmp_path / "memory/arrays/inputs.npy").exists()
    # The ledger knows where they are.
    with Run.open(tmp_path / "disk") as run:
        [query] = run.ask(1)
        assert query.f.shape == (1, 9) or query.f.shape == (1, 17)
    assert RunReader(tmp_path / "disk").pool == 12


def test_inputs_on_disk_may_move_with_the_task(tmp_path):
    with runs.create(tmp_path / "run", task=task_with(saved(tmp_path))):
        pass
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "fields.npy", tmp_path / "elsewhere/fields.npy")
    with pytest.raises(TaskError, match=r"its inputs are in .*fields.npy, which cannot be read"):
        Run.open(tmp_path / "run")
    moved = np.load(tmp_path / "elsewhere/fields.npy", mmap_mode="r")
    with Run.open(tmp_path / "run", task_with(moved)) as run:
        assert len(run.ask(2)) == 2


def test_a_file_that_was_changed_in_place_is_noticed(tmp_path):
    with runs.create(tmp_path / "run", task=task_with(saved(tmp_path))):
        pass
    changed = FIELDS.copy()
    changed[31] += 1
    np.save(tmp_path / "fields.npy", changed)
    os.utime(tmp_path / "fields.npy", ns=(1, 1))
    with pytest.raises(TaskError, match="1 of 40 inputs have other numbers, the first is input 31"):
        Run.open(tmp_path / "run")


def drawn(n, seed):
    return runs.fields(n, 17, seed)


def test_inputs_from_a_function_are_kept(tmp_path):
    with runs.advanced(tmp_path / "run", 3, task=task_with(drawn)) as run:
        np.testing.assert_array_equal(run.inputs.initial, drawn(18, 0)[:6, None])
        np.testing.assert_array_equal(run.inputs.pool, drawn(18, 0)[6:, None])
        np.testing.assert_array_equal(run.inputs.test, drawn(4, 10_000)[:, None])
    with Run.open(tmp_path / "run") as run:  # without the function
        assert run.ask(1)
    with Run.open(tmp_path / "run", task_with(drawn)):
        pass
    with pytest.raises(TaskError, match="22 of 22 inputs have other numbers"):
        Run.open(tmp_path / "run", task_with(lambda n, seed: drawn(n, seed) + 1))


def test_a_function_without_a_number_of_candidates_gives_990(tmp_path):
    with runs.create(tmp_path / "run", task=task_with(drawn), pool=None) as run:
        assert len(run.inputs.pool) == 990


@pytest.mark.parametrize(
    ("draw", "told"),
    [
        (lambda n, seed: runs.fields(n + 1, 17), r"inputs\(18, 0\) returned 19 inputs. Return 18"),
        (lambda n, seed: 1 / 0, r"inputs\(1, 0\), which draws 1 inputs, raised ZeroDivisionError"),
        (lambda n, seed: runs.fields(n, 16), "do not match the finest resolution"),
    ],
)
def test_a_function_that_draws_something_else_is_told_so(tmp_path, draw, told):
    with pytest.raises(TaskError, match=told):
        runs.create(tmp_path / "run", task=task_with(draw))


# How many.


def test_all_inputs_that_are_given_are_kept_by_default(tmp_path, recwarn):
    with runs.create(tmp_path / "all", task=runs.tiny(n=1500), pool=None) as run:
        assert len(run.inputs.pool) == 1500 - 6 - 4
        assert RunReader(tmp_path / "all").pool == 1490
    assert not recwarn.list
    told = "of 30 inputs 6 are initial and 4 test examples; of the other 20 the setting pool=12 keeps 12"
    with pytest.warns(MrafnoWarning, match=told), runs.create(tmp_path / "some", task=runs.tiny(n=30), pool=12) as run:
        assert len(run.inputs.pool) == 12


# Candidates that are added.


def test_added_candidates_can_be_chosen_and_stay(tmp_path):
    more = runs.fields(5, 17, seed=9)
    with runs.ready(tmp_path / "run", "random-mix") as run:
        before = runs.ledger_bytes(run)
        assert run.add_candidates(more) == 5
        assert runs.ledger_bytes(run).startswith(before)
        assert len(run.inputs.pool) == 17
        runs.answer(run, run.ask(10))
    with Run.open(tmp_path / "run", runs.tiny()) as run:
        np.testing.assert_array_equal(run.inputs.pool[12:], more[:, None])
        run.add_candidates(saved(tmp_path, runs.fields(2, 17, seed=10)))
        assert RunReader(tmp_path / "run").pool == 19
        assert run.advance(total_steps=30).reason == "asked for the whole pool"
        rows = {q.row for q in run.state.of_kind("pool")}
        assert rows == set(range(19))
        for query in run.state.of_kind("pool"):
            f = run.task.restrict(run.inputs.pool[[query.row]], query.level)[0]
            np.testing.assert_array_equal(run.ledger.read_array(query.input), f)


def test_resuming_after_adding_makes_the_same_choices(tmp_path):
    found = []
    for name in ("straight", "stopped"):
        with runs.ready(tmp_path / name, members=4) as run:
            run.advance(total_steps=2)
            run.add_candidates(runs.fields(6, 17, seed=9))
            if name == "straight":
                run.advance(total_steps=5)
        if name == "stopped":
            with Run.open(tmp_path / name, runs.tiny()) as run:
                run.advance(total_steps=5)
        with Run.open(tmp_path / name, runs.tiny(), write=False) as run:
            found.append(runs.decisions(run.state)["queries"])
    assert found[0] == found[1]


def test_a_built_in_task_takes_more_candidates_too(tmp_path, monkeypatch):
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path / "cache"))
    with runs.create(tmp_path / "run", "random-low", task=runs.tiny_burgers()) as run:
        run.add_candidates(run.task.sample(3, seed=5))
        assert len(run.inputs.pool) == 15
    assert RunReader(tmp_path / "run").pool == 15


def test_candidates_that_cannot_be_added(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        before = runs.ledger_bytes(run)
        with pytest.raises(RunError, match="candidate 1 is a test input"):
            run.add_candidates(np.concatenate([runs.fields(1, 17, 9), run.inputs.test[2]]))
        with pytest.raises(TaskError, match=r"shape \(2, 9\)|shape \(2, 1, 9\)|takes"):
            run.add_candidates(runs.fields(2, 9))
        with pytest.raises(TaskError, match="NaN"):
            run.add_candidates(np.full((1, 17), np.nan))
        with pytest.raises(RunError, match="no candidates"):
            run.add_candidates(np.zeros((0, 1, 17)))
        assert runs.ledger_bytes(run) == before


# A changed task is noticed.


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f: np.concatenate([f, f[:2] + 1]), "42 inputs instead of 40: the first 40 are the same, the others"),
        (lambda f: f[:39], "39 inputs instead of 40: the first 39 are the same, the last ones are missing"),
        (lambda f: f[::-1], "the same 40 inputs in another order, from input 0 on"),
        (lambda f: f * 1.01, "40 of 40 inputs have other numbers"),
    ],
)
def test_other_inputs_are_refused_on_resume_without_a_version(tmp_path, change, told):
    with runs.ready(tmp_path / "run"):
        pass
    with pytest.raises(TaskError, match=f"its inputs are not those that the run began with: {told}"):
        Run.open(tmp_path / "run", task_with(change(FIELDS)))
    with Run.open(tmp_path / "run", task_with(FIELDS.copy())) as run:
        assert run.ask(1)
