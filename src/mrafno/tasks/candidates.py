"""Tasks whose inputs are given: an array of candidates, in memory or on disk, or a function that draws them."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import SimulationError, TaskError, raised
from mrafno.grids import Array, Interpolation, Layout, as_shapes
from mrafno.tasks.base import Task, as_numbers
from mrafno.tasks.digest import InputDigest, digest_inputs
from mrafno.tasks.rows import Hdf5Rows, MappedRows, Rows, as_rows

#: Draws n inputs, ``(n, in_channels, *finest grid)`` or ``(n, *finest grid)``, the same ones for the same (n, seed).
DrawInputs = Callable[[int, int], ArrayLike]


class CandidateTask(Task):
    """A task whose inputs are drawn from given candidates, or by a given function.

    Attributes:
        inputs: the candidates ``(n, in_channels, *finest grid)``: an array, or rows that stay on disk; None if a
            function draws them.
        draw_inputs: that function; None if there are candidates.
    """

    def __init__(
        self,
        inputs: ArrayLike | Rows | DrawInputs,
        resolutions: Sequence[Sequence[int] | int],
        costs: Sequence[float],
        *,
        name: str,
        in_channels: int | None,
        out_channels: int,
        layout: Layout | Sequence[Layout],
        interpolation: Interpolation,
        zero_boundary: Sequence[tuple[bool, bool]],
        version: str | None,
    ) -> None:
        shapes = as_shapes(resolutions)
        self.name = name
        self.out_channels = out_channels
        self.layout = (layout,) * len(shapes[0]) if isinstance(layout, str) else tuple(layout)
        self.interpolation = interpolation
        self.zero_boundary = tuple((bool(a), bool(b)) for a, b in zero_boundary)
        if self.zero_boundary and len(self.zero_boundary) != len(shapes[0]):
            raise TaskError(f"{name}: zero_boundary needs one (start, end) pair per axis, got {self.zero_boundary}.")
        self.version = version
        if len(shapes[0]) > 2:
            raise TaskError(f"{name}: grids of {len(shapes[0])} axes are not supported. Use 1 or 2.")
        if isinstance(out_channels, bool) or not isinstance(out_channels, int) or out_channels < 1:
            raise TaskError(f"{name}: out_channels must be 1 or more, got {out_channels!r}.")
        self.draw_inputs: DrawInputs | None = inputs if callable(inputs) else None
        self._in_channels = in_channels
        rows: Any = as_rows(inputs)
        if rows is None:
            given: Any = _drawn(name, inputs, 1, 0) if callable(inputs) else inputs
            rows = as_numbers(given, f"{name}: the array of inputs")
        rows = _with_channels(name, rows, shapes, in_channels)
        self.in_channels = rows.shape[1]
        super().__init__(shapes, costs)
        # What is on disk is checked when it is read: by its digest when a run begins, else input by input.
        checked = rows if as_rows(rows) is not None else self._as_input(rows, self.levels - 1)
        self.inputs: Any = None if self.draw_inputs is not None else checked

    @cached_property
    def digest(self) -> InputDigest | None:
        """Digest of the candidates; None if a function draws them."""
        return None if self.inputs is None else digest_inputs(self.inputs, self.name)

    def source_of_inputs(self) -> dict[str, Any] | None:
        """Where candidates are that stay on disk, as JSON values; None if a run has to keep them itself."""
        return self.inputs.description() if isinstance(self.inputs, MappedRows | Hdf5Rows) else None

    def _sample(self, indices: Sequence[int], seed: int) -> Array:
        if self.draw_inputs is not None:
            n = max(indices, default=-1) + 1
            drawn = as_numbers(_drawn(self.name, self.draw_inputs, n, seed), f"{self.name}: the array of inputs")
            values = _with_channels(self.name, drawn, self.resolutions, self._in_channels)
            if len(values) != n:
                raise TaskError(f"{self.name}: inputs({n}, {seed}) returned {len(values)} inputs. Return {n}.")
            return self._as_input(values[list(indices)], self.levels - 1)
        if any(i >= len(self.inputs) for i in indices):
            raise TaskError(
                f"{self.name}: {max(indices) + 1} inputs asked for, but only {len(self.inputs)} candidates were given. "
                "Ask for fewer, or give the task more inputs."
            )
        order = np.random.default_rng(seed).permutation(len(self.inputs))
        return np.asarray(self.inputs[order[list(indices)]])

    def _described(self, **more: Any) -> dict[str, Any] | None:
        if self.version is None:
            return None
        digest = "drawn" if self.digest is None else self.digest.sha256
        return {"version": self.version, "inputs": digest, "layout": self.layout, **more}


def _drawn(name: str, draw: DrawInputs, n: int, seed: int) -> ArrayLike:
    try:
        return draw(n, seed)
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(f"{name}: inputs({n}, {seed}), which draws {n} inputs, raised {raised(error)}") from error


def _with_channels(name: str, values: Any, shapes: tuple[tuple[int, ...], ...], in_channels: int | None) -> Any:
    """Candidates as ``(n, in_channels, *finest grid)``; :class:`TaskError` if their shape is wrong or ambiguous."""
    finest, given = shapes[-1], values.shape
    # The axis of a single channel may be left out: (n, *grid) means (n, 1, *grid).
    if len(given) == 1 + len(finest):
        one = (given[0], 1, *given[1:])
        values = values.reshaped(one) if as_rows(values) is not None else values[:, None]
    if len(values.shape) != 2 + len(finest) or values.shape[2:] != finest or not len(values):
        raise TaskError(
            f"{name}: inputs of shape {given} do not match the finest resolution {finest}. Give (n, channels, *finest "
            "grid), n at least 1, or correct the resolutions."
        )
    if in_channels is None and given[1:] == finest * 2:
        points = finest[0]
        squares = ", ".join(f"({n}, {n})" for (n,) in shapes)
        raise TaskError(
            f"{name}: inputs of shape {given} may be {points} channels on an interval of {points} points, or one on a "
            f"square. For a square write resolutions=({squares}{',' * (len(shapes) == 1)}), for channels "
            f"in_channels={points}."
        )
    if in_channels not in (None, values.shape[1]):
        raise TaskError(f"{name}: inputs of shape {given} have {values.shape[1]} channels, in_channels={in_channels}.")
    return values


def stack_outputs(task: Task, outputs: list[Any], level: int) -> Array:
    """Outputs of single simulations as ``(n, out_channels, *grid)``; the axis of a single channel may be left out."""
    shape = task.resolutions[level]
    if task.out_channels == 1:
        outputs = [y[None] if y.shape == shape else y for y in outputs]
    wrong = {y.shape for y in outputs} - {(task.out_channels, *shape)}
    if wrong:
        found = min(wrong)
        hint = f" If it has {found[0]} outputs, say out_channels={found[0]}." if found[1:] == shape else ""
        raise SimulationError(
            f"{task.name}: a simulation on level {level} returned shape {found}, expected "
            f"{(task.out_channels, *shape)} (out_channels, grid).{hint}"
        )
    return np.stack(outputs) if outputs else np.zeros((0, task.out_channels, *shape))
