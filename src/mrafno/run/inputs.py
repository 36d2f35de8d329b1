"""The inputs of a run: kept in its folder or, where they stay in a file of their own, checked and read from there."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mrafno.data.pool import ENDLESS_POOL, RunInputs, check_pool, draw, same_inputs, stacked, unstacked
from mrafno.errors import LedgerError, RunError, TaskError
from mrafno.grids import Array
from mrafno.run.changes import check_simulator
from mrafno.run.recorder import Recorder, imported_inputs, pool_sizes
from mrafno.run.state import RunState
from mrafno.storage.arrays import ArrayFile
from mrafno.storage.large_arrays import map_array, write_blocks
from mrafno.storage.layout import AVAILABLE, CHECKSUMS, INPUTS, candidates_array
from mrafno.storage.ledger import Ledger
from mrafno.tasks.base import Task, as_numbers
from mrafno.tasks.candidates import CandidateTask
from mrafno.tasks.digest import describe_change, digest_inputs
from mrafno.tasks.rows import (
    ConstantRows,
    JoinedRows,
    MappedRows,
    Rows,
    as_rows,
    blocks,
    constant_values,
    reopened,
    unchanged,
)
from mrafno.tasks.stored import ExternalTask

#: Inputs of runs without a digest are the same if they differ by less than this share of their largest value.
_SAME = 1e-9


class InputStore:
    """Draws, keeps and finds the inputs of a run.

    Args:
        recorder: where they are recorded.
        task: the run's task.
    """

    def __init__(self, recorder: Recorder, task: Task) -> None:
        self.recorder, self.task = recorder, task
        self._inputs: RunInputs | None = None

    @property
    def inputs(self) -> RunInputs:
        """All inputs on the finest grid, with the candidates that were added."""
        if self._inputs is None:
            self._inputs = inputs_of(self.recorder.ledger, self.recorder.state, self.task)
        return self._inputs

    def keep(self, inputs: RunInputs | None = None) -> None:
        """Record the inputs of a task that is not built in, which cannot be made again from its name.

        Args:
            inputs: those that were drawn already; None to draw them.
        """
        recorder, state, task = self.recorder, self.recorder.state, self.task
        if state.task["builtin"] or state.inputs is not None or state.source is not None:
            self._inputs = inputs
            return
        found = inputs or self._drawn()
        data: dict[str, Any] = {"pool": len(found.pool)}
        source = task.source_of_inputs() if isinstance(task, CandidateTask) else None
        if source is None:
            lost = state.damaged_inputs
            data["inputs"] = self._write(INPUTS, as_stored(stacked(found), task, lost))
            if lost is not None and lost.sha256 != data["inputs"]["sha256"]:
                raise RunError(
                    f"run {recorder.ledger.folder}: its inputs were damaged, and the task draws others than those. "
                    "Give the task as it was when the run was created."
                )
        else:
            data["source"] = source
        if found.available is not None:
            data["available"] = self._write(AVAILABLE, found.available.astype(np.float64))
        if isinstance(task, CandidateTask) and task.digest is not None:
            data["checksums"] = self._write(CHECKSUMS, task.digest.checksums)
        recorder.record("inputs", **data)
        check_pool(task, recorder.sizes, found)
        self._inputs = found

    def add(self, candidates: ArrayLike) -> int:
        """Add candidates ``(n, in_channels, *finest grid)`` to the pool; they are on disk before this is recorded."""
        task, tests = self.task, self.inputs.test
        if self.inputs.available is not None:
            raise RunError(f"run: {task.name} is a table, which has no output of other inputs. Make a larger table.")
        rows = _with_channel(candidates, task)
        if not len(rows):
            raise RunError("run: add_candidates got no candidates. Give (n, in_channels, *finest grid), n at least 1.")
        for part, values in blocks(rows):
            checked = task.checked_input(values, task.levels - 1)
            known = np.flatnonzero(same_inputs(checked, tests).any(axis=1))
            if len(known):
                raise RunError(
                    f"run: candidate {part.start + int(known[0])} is a test input, which is never trained on. Leave it "
                    "out."
                )
        name = candidates_array(len(self.recorder.state.added))
        self.recorder.record("candidates", inputs=self._write(name, as_stored(rows, task)))
        self._inputs = None
        return len(rows)

    def check(self, *, keep: bool) -> None:
        """Raise :class:`TaskError` unless the task's inputs are those that the run began with.

        Args:
            keep: record them if that was interrupted.
        """
        self._check()
        if not isinstance(self.task, ExternalTask):
            check_simulator(self.recorder, self.task, record=keep)
        if keep:
            self.keep()

    def _check(self) -> None:
        state, task = self.recorder.state, self.task
        recorded = state.task.get("inputs")
        if not isinstance(task, CandidateTask) or isinstance(task, ExternalTask):
            return  # what is not given comes from the run itself
        if recorded is None or task.inputs is None:
            if task.identity is None and state.inputs is not None:
                self._check_drawn()
            return
        source = task.source_of_inputs()
        if source is not None and state.source is not None and unchanged(source, state.source):
            return
        assert task.digest is not None, "there are inputs"
        if task.digest.sha256 != recorded["sha256"]:
            raise _different(task.name, _checksums(self.recorder.ledger, state), task.digest.checksums)

    def _check_drawn(self) -> None:
        """The same for inputs without a digest: draw them again, and compare."""
        state, recorder = self.recorder.state, self.recorder
        assert state.inputs is not None, "there are inputs"
        before = _read(recorder.ledger, state, state.inputs)
        now = self.drawn()
        same = before.shape == now.shape and all(
            np.allclose(now[part], values, rtol=0, atol=_SAME * float(np.abs(values).max()))
            for part, values in blocks(before)
        )
        if not same:
            name = self.task.name
            raise _different(name, digest_inputs(before, name).checksums, digest_inputs(now, name).checksums)

    def drawn(self) -> Rows:
        """All inputs as the task draws them, one after another; see :func:`mrafno.data.pool.stacked`."""
        return stacked(self._drawn())

    def made_again(self, name: str, before: ArrayFile) -> Rows | None:
        """What the run keeps of its inputs, from its task; None where the task does not know it.

        Args:
            name: "inputs", "available" or "checksums".
            before: as which it was stored.
        """
        task = self.task
        if name == "inputs":
            return as_stored(self.drawn(), task, before)
        if name == "checksums":
            if not isinstance(task, CandidateTask) or isinstance(task, ExternalTask) or task.digest is None:
                return None
            return task.digest.checksums
        available = self._drawn().available
        return None if available is None else available.astype(np.float64)

    def _drawn(self) -> RunInputs:
        recorder = self.recorder
        return draw(self.task, recorder.sizes, recorder.state.seed, recorder.imported_inputs())

    def _write(self, name: str, rows: Rows) -> dict[str, Any]:
        if isinstance(rows, np.ndarray):
            return self.recorder.ledger.write_array(name, rows).as_json()
        parts = (values for _, values in blocks(rows))
        return write_blocks(self.recorder.ledger.folder, name, rows.shape, parts).as_json()


def inputs_of(ledger: Ledger, state: RunState, task: Task) -> RunInputs:
    """All inputs of a run on the finest grid, with the candidates that were added."""
    imported, sizes = imported_inputs(ledger, state), pool_sizes(state)
    if state.inputs is None:
        found = draw(task, sizes, state.seed, imported)
    else:
        found = unstacked(_read(ledger, state, state.inputs), task, sizes, imported)
    if state.available is not None:
        found = replace(found, available=ledger.read_array(state.available).astype(bool))
    if not state.added:
        return found
    # Lost candidates keep their places; another one stands there, which is not asked for as one of them.
    first = np.asarray(found.pool[0])
    added: list[Rows] = [
        np.broadcast_to(first, (array.shape[0], *first.shape))
        if number in state.lost_added
        else _read(ledger, state, array)
        for number, array in enumerate(state.added)
    ]
    return replace(found, pool=JoinedRows([found.pool, *added]))


def check_created(state: RunState, path: Path | str) -> None:
    """Raise :class:`RunError` if the creation of a run was interrupted before its examples were recorded."""
    if any(n != len(state.imported(level)) for level, n in enumerate(state.given)):
        raise RunError(
            f"run {path}: its creation was interrupted before its examples were recorded. Remove the folder, and "
            "create it again."
        )


def stored_inputs(ledger: Ledger, state: RunState) -> Rows | None:
    """The inputs of a task that is not built in, as a run found them; None if it has none."""
    if state.inputs is not None:
        return _read(ledger, state, state.inputs)
    if state.source is None:
        return None
    name, recorded = state.task["name"], state.task["inputs"]
    rows = reopened(state.source, name)
    now = rows.description()
    if now is None or not unchanged(now, state.source):
        digest = digest_inputs(rows, name)
        if digest.sha256 != recorded["sha256"]:
            raise _different(f"{name}: {state.source['file']}", _checksums(ledger, state), digest.checksums)
    return rows


def as_stored(rows: Rows, task: Task, before: ArrayFile | None = None) -> Rows:
    """Inputs as they are stored: those that are parameters only as numbers ``(n, p, 1, ...)``.

    Args:
        before: as which they were stored before, by an earlier version perhaps on the whole grid.
    """
    if len(task.parameters) < task.in_channels or (before is not None and before.shape == rows.shape):
        return rows
    numbers: Rows = constant_values(rows, task.parameters, task.name).reshape(
        *rows.shape[:2], *[1] * (len(rows.shape) - 2)
    )
    return numbers


def _read(ledger: Ledger, state: RunState, array: ArrayFile) -> Rows:
    """Inputs ``(n, in_channels, *finest grid)`` that were stored."""
    stored, task = MappedRows(map_array(ledger.folder, array)), state.task
    grid = tuple(task["resolutions"][-1])
    if stored.shape[2:] == grid:
        return stored
    return ConstantRows(constant_values(stored, task["parameter_names"], task["name"]), grid)


def _checksums(ledger: Ledger, state: RunState) -> Array:
    with contextlib.suppress(LedgerError):  # they only help to say what differs
        if state.checksums is not None:
            return ledger.read_array(state.checksums)
    return np.zeros(0)


def own_candidates(state: RunState) -> int:
    """How many candidates a run began with, as its ledger tells."""
    if state.pool is not None:
        return state.pool
    sizes = pool_sizes(state)
    initial = len(sizes.initial_levels(len(state.task["resolutions"])))
    inputs = state.inputs or state.damaged_inputs
    return (sizes.pool or ENDLESS_POOL) if inputs is None else inputs.shape[0] - initial - sizes.test


def number_of_candidates(state: RunState) -> int:
    """The same, with those that were added and are not lost."""
    kept = [array.shape[0] for number, array in enumerate(state.added) if number not in state.lost_added]
    return own_candidates(state) + sum(kept)


def _different(name: str, before: Array, now: Array) -> TaskError:
    return TaskError(
        f"{name}: its inputs are not those that the run began with: {describe_change(before, now)}. Give the same "
        "inputs, or begin a new run."
    )


def _with_channel(candidates: ArrayLike, task: Task) -> Rows:
    """Candidates as rows; the axis of a single channel may be left out."""
    rows: Any = as_rows(candidates)
    if rows is None:
        rows = as_numbers(candidates, f"{task.name}: the array of candidates")
    if task.in_channels != 1 or rows.shape[1:] != task.resolutions[-1]:
        found: Rows = rows
    elif isinstance(rows, np.ndarray):
        found = rows[:, None]
    else:
        found = rows.reshaped((len(rows), 1, *rows.shape[1:]))
    return found
