"""One's own earlier simulations as the first examples of a run."""

import io
import json
import os
import shutil
import signal
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from mrafno.data.imports import read_examples
from mrafno.data.pool import PoolSizes, draw
from mrafno.errors import LedgerError, RunError
from mrafno.run import Run
from mrafno.run.state import RunState
from mrafno.storage.ledger import Ledger
from tests import runs

SIZES = PoolSizes(initial=3, pool=12, test=4, test_seed=10_000)


def earlier(task=None, counts=(4, 2), seed=99):
    """Examples of inputs that are no candidates, by name."""
    task, found = task or runs.tiny(), {}
    for level, n in enumerate(counts):
        if n:
            f = task.restrict(runs.fields(n, task.resolutions[-1][0], seed + level)[:, None], level)
            found |= {f"input_{level}": f, f"output_{level}": task.solve(f, level)}
    return found


def file_of(folder, arrays, name="earlier.npz"):
    np.savez(folder / name, **arrays)
    return folder / name


# Reading.


def test_a_file_is_read_with_and_without_an_axis_for_the_channel(tmp_path):
    task, arrays = runs.tiny(), earlier()
    flat = {name: values[:, 0].astype(np.float32 if "input" in name else np.float64) for name, values in arrays.items()}
    for source in (arrays, file_of(tmp_path, arrays), str(file_of(tmp_path, arrays))):
        coarse, fine = read_examples(source, task)
        np.testing.assert_array_equal(coarse.inputs, arrays["input_0"])
        np.testing.assert_array_equal(fine.outputs, arrays["output_1"])
        assert (coarse.costs.tolist(), fine.costs.tolist()) == ([1.0] * 4, [5.0] * 2)
    coarse, _ = read_examples(file_of(tmp_path, flat, "flat.npz"), task)
    np.testing.assert_array_equal(coarse.inputs, arrays["input_0"].astype(np.float32))
    np.testing.assert_array_equal(coarse.outputs, arrays["output_0"])


def test_costs_may_be_given_and_levels_left_out():
    arrays = {**earlier(counts=(0, 2)), "cost_1": [0, 7.5]}
    coarse, fine = read_examples(arrays, runs.tiny())
    assert (coarse.inputs.shape, coarse.outputs.shape, coarse.costs.shape) == ((0, 1, 9), (0, 1, 9), (0,))
    assert fine.costs.tolist() == [0.0, 7.5]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inputs_0": np.ones(3)}, "unknown name 'inputs_0'. Did you mean 'input_0'?"),
        ({"input_2": np.ones(3)}, "input_2 is of no level; the task has levels 0 to 1"),
        ({"input_1": None}, "input_1 is missing. Inputs and outputs come in pairs"),
        ({"output_0": None}, "output_0 is missing"),
        ({"input_1": None, "output_1": None, "cost_1": [1.0]}, "input_1 is missing"),
        ({"input_0": np.ones((4, 1, 8))}, r"level 0: tiny: the input has shape \(4, 1, 8\)"),
        ({"input_0": np.ones((4, 2, 9))}, "the input has 2 channels"),
        ({"output_0": np.ones((4, 1, 8))}, r"returned shape \(4, 1, 8\), expected \(4, 1, 9\)"),
        ({"output_0": np.ones((3, 1, 9))}, "there are 4 inputs but 3 outputs. Pair them"),
        ({"input_0": np.full((4, 1, 9), np.nan)}, "NaN or infinite"),
        ({"output_1": np.full((2, 17), np.inf)}, "NaN or infinite"),
        ({"output_1": np.full((2, 17), "a")}, "output_1 has dtype"),
        ({"cost_0": [1.0, 2.0]}, "cost_0 must have 4 numbers, 0 or more"),
        ({"cost_1": [1.0, -2.0]}, "cost_1 must have 2 numbers, 0 or more"),
    ],
)
def test_what_does_not_fit_is_refused_and_no_run_begins(tmp_path, change, said):
    arrays = {name: values for name, values in {**earlier(), **change}.items() if values is not None}
    with pytest.raises(RunError, match=f"examples.*{said}"):
        runs.create(tmp_path / "run", examples=arrays)
    assert not (tmp_path / "run").exists()


def test_nothing_at_all_is_refused():
    with pytest.raises(RunError, match="there are no examples in it"):
        read_examples({}, runs.tiny())


def test_files_that_are_damaged_or_foreign_are_refused(tmp_path):
    whole = file_of(tmp_path, earlier()).read_bytes()

    def refusal(content):
        path = tmp_path / "wrong.npz"
        path.write_bytes(content)
        with pytest.raises(LedgerError) as caught:
            read_examples(path, runs.tiny())
        assert str(path) in str(caught.value)
        return str(caught.value)

    assert "is no .npz file, or it is damaged" in refusal(b"something else")
    assert "is no .npz file, or it is damaged" in refusal(whole[:-40])
    assert "is no .npz file, or it is damaged" in refusal(whole[:200] + b"\xff" + whole[201:])  # its checksum
    pickled = io.BytesIO()
    np.savez(pickled, input_0=np.array([{}], dtype=object))
    assert "which are no real numbers" in refusal(pickled.getvalue())
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("word/document.xml", "<w/>")
    assert "is no .npy file" in refusal(other.getvalue())
    with pytest.raises(LedgerError, match=r"none\.npz is missing"):
        read_examples(tmp_path / "none.npz", runs.tiny())


# In a run.


def test_given_examples_take_the_place_of_as_many_simulated_ones(tmp_path):
    """With three of each level wanted, four and two given: none is simulated on the coarse mesh and one on the fine."""
    arrays = earlier() | {"cost_1": [0.25, 0.5]}
    with runs.create(tmp_path / "run", examples=file_of(tmp_path, arrays)) as run:
        told = run.state.of_kind("initial", "told")
        assert [(q.id, q.level, q.cost, q.imported) for q in told] == [
            *((f"q00000{i}", 0, 1.0, True) for i in range(4)), ("q000004", 1, 0.25, True), ("q000005", 1, 0.5, True),
        ]  # fmt: skip
        for query, name, row in zip(told, ["0"] * 4 + ["1"] * 2, [0, 1, 2, 3, 0, 1], strict=True):
            f, y = run.recorder.example(query)
            np.testing.assert_array_equal(f, arrays[f"input_{name}"][row])
            np.testing.assert_array_equal(y, arrays[f"output_{name}"][row])
        first = run.ask(1000)
        assert [(q.id, q.kind, q.level) for q in first] == [
            ("q000006", "initial", 1), *((f"q{i:06d}", "test", 1) for i in range(7, 11)),
        ]  # fmt: skip
        runs.answer(run, first)
        assert run.state.counts(2, "told") == [4, 3]
        run.train_and_evaluate_if_due()
        assert run.state.trainings[0].added == tuple(q.id for q in told) + ("q000006",)
        assert run.state.as_json()["initial_cost"] == 4.0 + 0.75 + 5.0
        assert run.state.cost == 0.0
    (tmp_path / "earlier.npz").unlink()
    moved = shutil.move(tmp_path / "run", tmp_path / "elsewhere")  # a run is all in its folder
    with Run.open(moved) as again:
        assert again.state.imported(1)[1].cost == 0.5
        assert len(again.inputs.initial) == 1
        assert [q.kind for q in again.ask(1)] == ["pool"]


def test_a_run_with_enough_examples_simulates_none_at_first(tmp_path):
    with runs.create(tmp_path / "run", examples=earlier(counts=(3, 3)), test=0) as run:
        assert [(q.kind, q.id) for q in run.ask(1)] == [("pool", "q000006")]


@pytest.mark.parametrize("method", ["mra-uhat", "mra-auto", "coreset-mix"])
def test_examples_on_the_coarse_mesh_alone_serve_every_method(tmp_path, method):
    with runs.create(tmp_path / "run", method, examples=earlier(counts=(5, 0))) as run:
        assert run.advance(total_steps=2).reason == "finished 2 steps"
        assert [q.level for q in run.state.of_kind("initial", "told")] == [0] * 5 + [1] * 3
        assert len(run.state.trained_on) == 10


def test_distances_are_from_given_inputs_too(tmp_path):
    """The pool has an input that is nearly a given one; among the others, coreset chooses it last."""
    task = runs.tiny(n=12)
    with runs.create(tmp_path / "one", task=task, test=0) as run:
        pool = run.inputs.pool
    close = task.restrict(pool[:1] + 1e-3, 0)
    examples = {"input_0": np.repeat(close, 3, 0), "output_0": np.repeat(task.solve(close, 0), 3, 0)}
    fine = earlier(task, (0, 3))
    with runs.create(tmp_path / "two", "coreset-low", task=task, test=0, examples=examples | fine) as run:
        np.testing.assert_array_equal(run.inputs.imported[0], examples["input_0"])
        near = int(np.flatnonzero((run.inputs.pool == pool[0]).all(axis=(1, 2)))[0])
        run.train_and_evaluate_if_due()
        chosen = run.chooser.choose(run.surrogate, run.state, len(run.inputs.pool))
        assert chosen[-1][0].candidate == near
        assert chosen[-1][1]["score"] < 0.1 * chosen[0][1]["score"]


# No input has two uses.


@pytest.mark.parametrize("level", [0, 1])
def test_candidates_that_were_simulated_earlier_are_not_used_again(level):
    task, settings = runs.tiny(), SIZES
    known = task.restrict(task.inputs[[3, 7, 20]], level).astype(np.float32).astype(np.float64)
    given = [np.zeros((0, 1, 9)), np.zeros((0, 1, 17))]
    given[level] = known
    for seed in range(4):
        inputs = draw(task, settings, seed, given)
        every = np.concatenate([inputs.initial, inputs.pool, inputs.test])
        assert not any((row == task.inputs[[3, 7, 20]]).all(axis=(1, 2)).any() for row in every)
        assert (len(inputs.initial), len(inputs.pool), len(inputs.test)) == (3, 12, 4)


def test_draws_of_an_endless_task_that_were_simulated_earlier_are_not_used_again(tmp_path, monkeypatch):
    monkeypatch.setenv("MRAFNO_CACHE", str(tmp_path))
    task, settings = runs.tiny_burgers(), SIZES
    given = [task.restrict(task.sample(5, seed=0), 0), task.sample(2, seed=1)]
    inputs = draw(task, settings, 0, given)
    assert (len(inputs.initial), len(inputs.pool)) == (1, 12)
    np.testing.assert_array_equal(np.concatenate([inputs.initial, inputs.pool]), task.sample(18, seed=0)[5:])
    with pytest.raises(RunError, match=r"2 of the test inputs are among the imported .* another test_seed"):
        draw(task, replace(SIZES, test_seed=1), 0, given)


def test_too_few_candidates_that_are_new():
    task = runs.tiny(n=12)
    with pytest.raises(RunError, match=r"7 candidates that are not among the imported examples \(5 are\) are too few"):
        draw(task, SIZES, 0, [task.restrict(task.inputs[:5], 0), np.zeros((0, 1, 17))])


# Kills.


def _begun(folder, examples):
    with runs.create(folder, examples=examples) as run:
        run.advance(total_steps=4)


def test_a_run_that_is_killed_and_resumed_is_as_one_that_was_not(tmp_path):
    """In many file operations: before its examples are recorded it says so, afterwards it goes on."""
    examples = earlier()
    _begun(tmp_path / "reference", examples)
    expected = runs.decisions(RunState.of(Ledger.open(tmp_path / "reference").events))
    interrupted = resumed = 0
    for number in (1, 4, 9, 20, 36, 44, 50, 53, 58, 70, 90, 120):
        folder = tmp_path / f"run-{number}"

        def work(folder=folder, number=number):
            runs.die_in_file_operation(number)
            _begun(folder, examples)

        pid = runs.forked(work)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        if not (folder / "ledger.jsonl").exists():
            continue
        state = RunState.of(Ledger.open(folder).events)
        if not state.imported(0):
            interrupted += 1
            for task in (None, runs.tiny()):
                with pytest.raises(RunError, match="its creation was interrupted before its examples were recorded"):
                    Run.open(folder, task)
            continue
        resumed += 1
        with Run.open(folder, runs.tiny()) as run:
            run.advance(total_steps=4)
            assert runs.decisions(run.state) == expected
        assert runs.saved_weights(folder) == runs.saved_weights(tmp_path / "reference")
    assert interrupted >= 2
    assert resumed >= 4


def test_the_events_of_a_run_without_examples_are_as_they_were(tmp_path):
    with runs.create(tmp_path / "run"):
        pass
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    assert kinds == ["created", "inputs"]
    assert "given" not in Ledger.open(tmp_path / "run").events[0].data
