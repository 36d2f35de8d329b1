"""A person's own simulator as a task: a Python function, or an executable called as a process."""

import contextlib
import hashlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrafno.errors import SimulationError, TaskError, raised
from mrafno.grids import Array, Interpolation, Layout, as_shapes
from mrafno.tasks.base import Task, as_numbers


class CandidateTask(Task):
    """A task whose inputs are an array of candidates that somebody already has."""

    def __init__(
        self,
        inputs: ArrayLike,
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
        values = _with_channels(name, as_numbers(inputs, f"{name}: the array of inputs"), shapes, in_channels)
        self.in_channels = values.shape[1]
        super().__init__(shapes, costs)
        self.inputs = self._as_input(values, self.levels - 1)

    def _sample(self, indices: Sequence[int], seed: int) -> Array:
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
        digest = hashlib.sha256(self.inputs.tobytes()).hexdigest()
        return {"version": self.version, "inputs": digest, "layout": self.layout, **more}


def _with_channels(
    name: str, values: NDArray[Any], shapes: tuple[tuple[int, ...], ...], in_channels: int | None
) -> NDArray[Any]:
    """Candidates as ``(n, in_channels, *finest grid)``; :class:`TaskError` if they are not, or may be others."""
    finest, given = shapes[-1], values.shape
    # A single channel may be left out: (n, *grid) means (n, 1, *grid).
    if values.ndim == 1 + len(finest):
        values = values[:, None]
    if values.ndim != 2 + len(finest) or values.shape[2:] != finest or not len(values):
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


class FunctionTask(CandidateTask):
    """A Python function and an array of candidate inputs.

    Args:
        solve: ``solve(f, level)`` with one input ``(in_channels, *level's grid)`` gives its output
            ``(out_channels, *level's grid)`` (the channel axis may be left out where there is one). With ``batched``
            it gets ``(n, in_channels, *grid)`` and gives ``(n, out_channels, *grid)``.
        inputs: candidates on the finest grid, ``(n, in_channels, *finest grid)`` or ``(n, *finest grid)``.
        resolutions: grid shapes, coarse to fine.
        costs: the cost of one solve on each level, in any unit.
        in_channels: how many functions make up an input; only inputs ``(n, N, N)`` on an interval of N points need it,
            because they could be functions on a square.
        out_channels: how many functions make up an output.
        layout: where the grid's points lie, ``"nodes"``, ``"cells"`` or ``"periodic"``, for all axes or per axis.
        interpolation: how inputs go to a coarser grid: ``"linear"`` or ``"nearest"``.
        zero_boundary: per axis, whether outputs vanish at its (start, end).
        version: any text that changes whenever ``solve`` would give other numbers. Without it results are not cached,
            since a function's meaning cannot be read off it.
    """

    def __init__(
        self,
        solve: Callable[[Array, int], ArrayLike],
        inputs: ArrayLike,
        resolutions: Sequence[Sequence[int] | int],
        costs: Sequence[float],
        *,
        name: str = "function",
        in_channels: int | None = None,
        out_channels: int = 1,
        layout: Layout | Sequence[Layout] = "nodes",
        interpolation: Interpolation = "linear",
        zero_boundary: Sequence[tuple[bool, bool]] = (),
        batched: bool = False,
        version: str | None = None,
    ) -> None:
        super().__init__(
            inputs, resolutions, costs, name=name, in_channels=in_channels, out_channels=out_channels,
            layout=layout, interpolation=interpolation, zero_boundary=zero_boundary, version=version,
        )  # fmt: skip
        if not callable(solve):
            raise TaskError(f"{name}: solve must be a function of (input, level), got {type(solve).__name__}.")
        self.function = solve
        self.batched = batched

    @property
    def parameters(self) -> dict[str, Any] | None:
        """The version and a digest of the candidates; None without a version."""
        return self._described()

    def _solve(self, f: Array, level: int) -> Array:
        if self.batched:
            return self._call(f, level)
        return _stack(self, [self._call(one, level) for one in f], level)

    def _call(self, f: Array, level: int) -> Array:
        """What the function gives; copies, because it may work in place, and fill one buffer again and again."""
        try:
            output = self.function(f.copy(), level)
        except TaskError:
            raise
        except Exception as error:
            raise SimulationError(
                f"{self.name}: the simulator, given shape {f.shape} on level {level}, raised {raised(error)}"
            ) from error
        return np.array(self._as_output(output, level))


class CommandTask(CandidateTask):
    """An executable that reads an input from a .npy file and writes its output to another.

    Args:
        command: the command line as one text or a list of words; ``{input}`` and ``{output}`` stand for the two files,
            ``{level}`` for the level and ``{resolution}`` for its grid as ``32x32``. No shell is involved.
        timeout: seconds after which one simulation is ended, with everything it started; None for no limit.
        version: as for :class:`FunctionTask`: without it results are not cached.

    The input file holds ``(in_channels, *level's grid)`` in float64, the output file is to hold
    ``(out_channels, *level's grid)`` (the channel axis may be left out where there is one).
    """

    def __init__(
        self,
        command: str | Sequence[str],
        inputs: ArrayLike,
        resolutions: Sequence[Sequence[int] | int],
        costs: Sequence[float],
        *,
        name: str = "command",
        in_channels: int | None = None,
        out_channels: int = 1,
        layout: Layout | Sequence[Layout] = "nodes",
        interpolation: Interpolation = "linear",
        zero_boundary: Sequence[tuple[bool, bool]] = (),
        timeout: float | None = None,
        version: str | None = None,
    ) -> None:
        super().__init__(
            inputs, resolutions, costs, name=name, in_channels=in_channels, out_channels=out_channels,
            layout=layout, interpolation=interpolation, zero_boundary=zero_boundary, version=version,
        )  # fmt: skip
        self.command = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
        for field in ("{input}", "{output}"):
            if not any(field in word for word in self.command):
                raise TaskError(f"{name}: the command {self.command} does not name {field}. Put {field} where it goes.")
        if timeout is not None and not timeout > 0:
            raise TaskError(f"{name}: the timeout must be a positive number of seconds or None, got {timeout!r}.")
        self.timeout = timeout

    @property
    def parameters(self) -> dict[str, Any] | None:
        """The command, the version and a digest of the candidates; None without a version."""
        return self._described(command=self.command)

    def _solve(self, f: Array, level: int) -> Array:
        return _stack(self, [self._run(one, level) for one in f], level)

    def _run(self, one: Array, level: int) -> Array:
        with tempfile.TemporaryDirectory(prefix="mrafno-") as folder:
            source, target, log = (Path(folder, file) for file in ("input.npy", "output.npy", "log.txt"))
            np.save(source, one, allow_pickle=False)
            fields = {
                "{input}": str(source),
                "{output}": str(target),
                "{level}": str(level),
                "{resolution}": "x".join(map(str, self.resolutions[level])),
            }
            words = [_fill(word, fields) for word in self.command]
            self._call(words, log)
            try:
                return np.asarray(np.load(target, allow_pickle=False))
            except FileNotFoundError:
                raise SimulationError(f"{self.name}: {words[0]} ended well but wrote no output file.") from None
            except (ValueError, OSError, EOFError) as error:
                raise SimulationError(f"{self.name}: the output of {words[0]} is not a .npy array: {error}") from None

    def _call(self, words: list[str], log: Path) -> None:
        # What it says goes to a file: a pipe stays open, and is waited for, while any child that it left behind runs.
        with log.open("wb") as said:
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
                )
            except OSError as error:
                raise SimulationError(f"{self.name}: cannot start {words[0]}: {error.strerror}.") from None
        try:
            process.wait(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            raise SimulationError(
                f"{self.name}: {words[0]} took longer than {self.timeout:g} s and was ended. "
                "Raise timeout if it needs it."
            ) from None
        finally:
            _end(process)
        if process.returncode != 0:
            code = process.returncode
            how = f"was ended by a signal ({signal.strsignal(-code)})" if code < 0 else f"ended with exit code {code}"
            last = _tail(log)
            raise SimulationError(f"{self.name}: {words[0]} {how}. It said: {' | '.join(last) or 'nothing'}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of a process group; its leader may be gone while a child still runs."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(log: Path, lines: int = 3, size: int = 4096) -> list[str]:
    """The last lines of a file that may be large."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - size))
        return file.read().decode(errors="replace").strip().splitlines()[-lines:]


def _fill(word: str, fields: dict[str, str]) -> str:
    for field, value in fields.items():
        word = word.replace(field, value)
    return word


def _stack(task: Task, outputs: list[Any], level: int) -> Array:
    """Outputs of single simulations as one array, with the channel axis put in where it was left out."""
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
