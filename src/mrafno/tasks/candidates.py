"""Tasks whose inputs are given: an array of candidates, in memory or on disk, or a function that draws them."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrafno.errors import SimulationError, TaskError, raised
from mrafno.grids import Array, Interpolation, Layout, as_shapes
from mrafno.grids.parameters import ParameterValues, as_parameters, join, over_decades, split
from mrafno.tasks.axes import as_labels, placed
from mrafno.tasks.base import Costs, Task, as_numbers
from mrafno.tasks.digest import InputDigest, digest_inputs
from mrafno.tasks.rows import ConstantRows, DrawnRows, Hdf5Rows, LazyRows, MappedRows, Rows, as_rows

#: Draws n inputs, ``(n, in_channels, *finest grid)`` or ``(n, *finest grid)``, the same ones for the same (n, seed).
DrawInputs = Callable[[int, int], ArrayLike]
#: Inputs that are looked at, of those that are not in memory, to see over how many decades a parameter ranges.
_LOOKED_AT = 200
#: Numbers of functions and parameters, repeated over the grid, up to which they are kept as one array: 32 MB.
_MOST_NUMBERS = 4_000_000


class CandidateSettings(TypedDict, total=False):
    """What every task with candidates can be given by name; see :class:`CandidateTask`."""

    name: str
    parameters: ParameterValues | None
    parameter_names: Sequence[str]
    log_parameters: Sequence[str] | None
    in_channels: int | None
    out_channels: int
    layout: Layout | Sequence[Layout]
    extent: Sequence[Sequence[float]]
    coordinates: Sequence[Sequence[ArrayLike] | None]
    input_axes: Sequence[int] | None
    axis_names: Sequence[str]
    axis_units: Sequence[str]
    input_name: str
    output_name: str
    interpolation: Interpolation
    zero_boundary: Sequence[tuple[bool, bool]]
    version: str | None
    strict_source: bool


class CandidateTask(Task):
    """A task whose inputs are drawn from given candidates, or by a given function: functions, parameters, or both.

    Args:
        inputs: functions on the finest grid, ``(n, channels, *finest grid)`` or ``(n, *finest grid)``; None if inputs
            are parameters only. What is memory-mapped (``numpy.load(..., mmap_mode="r")``) or an ``h5py.Dataset`` stays
            on disk. Or a function ``inputs(n, seed)`` that draws n of them.
        resolutions: grid shapes, coarse to fine.
        costs: the cost of one solve on each level, in any unit; or ``measured``: the seconds that a run sees it take.
        name: a short name, used in messages and files.
        parameters: numbers that belong to each input, ``(n, p)``, or a mapping from names to n numbers. None if there
            are none, or if ``inputs`` has them already, as constant channels behind the functions.
        parameter_names: names of the parameters; those of the mapping, or ``p0``, ``p1`` and so on.
        log_parameters: parameters that a surrogate sees on a logarithmic scale; by default those that are positive and
            vary by a factor of ten or more.
        in_channels: number of functions in an input; needed only for inputs ``(n, N, N)`` on an interval of N points,
            which could be functions on a square.
        out_channels: number of functions in an output.
        layout: positions of the grid's points, for all axes or per axis: ``nodes``, ``cells``, ``left``, ``periodic``
            or ``periodic-cells``; see :class:`mrafno.grids.grid.Grid`.
        extent: start and end of each axis; [0, 1] by default.
        coordinates: for each axis whose points are not equally far apart, its coordinates on each level, coarse to
            fine; None for other axes.
        input_axes: the axes along which inputs vary, if not all, numbered from 0: ``inputs`` then have these axes only,
            and so has what the simulator is given.
        axis_names, axis_units, input_name, output_name: labels in figures and files.
        interpolation: how inputs are interpolated to a coarser grid: ``"linear"`` or ``"nearest"``.
        zero_boundary: per axis, whether outputs vanish at its (start, end).
        version: any text; change it whenever the simulator would give other numbers. Without it results are not
            cached, because not every change of a simulator can be detected.
        strict_source: refuse to go on with a run whose simulator's source was changed; by default that is a warning.
    """

    #: Which inputs can be simulated on which level, ``(n, levels)``, and which are for tests; None if all, and if any.
    available: NDArray[np.bool_] | None = None
    test_rows: NDArray[np.int64] | None = None

    def __init__(
        self,
        inputs: ArrayLike | Rows | DrawInputs | None,
        resolutions: Sequence[Sequence[int] | int],
        costs: Costs,
        *,
        name: str = "candidates",
        parameters: ParameterValues | None = None,
        parameter_names: Sequence[str] = (),
        log_parameters: Sequence[str] | None = None,
        in_channels: int | None = None,
        out_channels: int = 1,
        layout: Layout | Sequence[Layout] = "nodes",
        extent: Sequence[Sequence[float]] = (),
        coordinates: Sequence[Sequence[ArrayLike] | None] = (),
        input_axes: Sequence[int] | None = None,
        axis_names: Sequence[str] = (),
        axis_units: Sequence[str] = (),
        input_name: str = "input",
        output_name: str = "output",
        interpolation: Interpolation = "linear",
        zero_boundary: Sequence[tuple[bool, bool]] = (),
        version: str | None = None,
        strict_source: bool = False,
    ) -> None:
        shapes = as_shapes(resolutions)
        self.name = name
        self.out_channels = out_channels
        dim = len(shapes[0])
        self.layout, self.extent, self.points = placed(name, layout, extent, coordinates, shapes)
        self.input_axes = None if input_axes is None else tuple(sorted(int(axis) for axis in input_axes))
        self.axis_names = as_labels(name, "axis_names", axis_names, dim) or self.axis_names[:dim]
        self.axis_units = as_labels(name, "axis_units", axis_units, dim)
        self.input_name, self.output_name = input_name, output_name
        self.interpolation = interpolation
        self.zero_boundary = tuple((bool(a), bool(b)) for a, b in zero_boundary)
        if self.zero_boundary and len(self.zero_boundary) != len(shapes[0]):
            raise TaskError(f"{name}: zero_boundary needs one (start, end) pair per axis, got {self.zero_boundary}.")
        self.version = version
        self.strict_source = strict_source
        if len(shapes[0]) > 3:
            raise TaskError(f"{name}: grids of {len(shapes[0])} axes are not supported. Use 1 to 3.")
        if isinstance(out_channels, bool) or not isinstance(out_channels, int) or out_channels < 1:
            raise TaskError(f"{name}: out_channels must be 1 or more, got {out_channels!r}.")
        if inputs is None and parameters is None:
            raise TaskError(f"{name}: there are no candidates. Give inputs=, functions, or parameters=, numbers.")
        self.parameters = _names(name, parameters, parameter_names)
        self.draw_inputs: DrawInputs | None = inputs if callable(inputs) else None
        self._in_channels = in_channels
        values = self._candidates(inputs, parameters, shapes)
        self.in_channels = values.shape[1]
        if len(self.parameters) > self.in_channels:
            raise TaskError(
                f"{name}: {len(self.parameters)} parameter_names are too many for inputs of {self.in_channels} "
                "channels."
            )
        elsewhere = isinstance(values, LazyRows)
        if parameters is None:
            found = split(values[:_LOOKED_AT] if elsewhere else values, len(self.parameters))[1]
        else:
            found = as_parameters(parameters, self.parameters, where=name, error=TaskError)
        chosen = over_decades(found, self.parameters) if log_parameters is None else tuple(log_parameters)
        self.log_parameters = chosen
        super().__init__(shapes, costs)
        for column, parameter in enumerate(self.parameters):
            if parameter in chosen and not (found[:, column] > 0).all():
                raise TaskError(
                    f"{name}: {parameter} is {found[:, column].min():g} in some input, and a logarithmic scale needs "
                    "positive values. Leave it out of log_parameters."
                )
        # What is not in memory is checked when it is read: all of it for its digest when a run begins, else one by one.
        checked = values if elsewhere else self._as_input(values, self.levels - 1)
        self.inputs: Any = None if self.draw_inputs is not None else checked

    def _candidates(self, inputs: Any, parameters: ParameterValues | None, shapes: tuple[tuple[int, ...], ...]) -> Any:
        """Candidates ``(n, in_channels, *finest grid)``, parameters included, in memory or not."""
        name = self.name
        if callable(inputs):
            if parameters is not None:
                raise TaskError(
                    f"{name}: inputs is a function that draws inputs. Let it return parameters as constant channels "
                    "behind the functions, name them with parameter_names, and leave parameters out."
                )
            inputs = _drawn(name, inputs, _LOOKED_AT if self.parameters else 1, 0)
        known: Any = as_rows(inputs)
        if known is None and inputs is not None:
            known = as_numbers(inputs, f"{name}: the array of inputs")
        if parameters is None:
            return self._functions(known, shapes)
        numbers = as_parameters(parameters, self.parameters, where=name, error=TaskError)
        if not len(numbers):
            raise TaskError(
                f"{name}: parameters of shape {numbers.shape} have no candidates. Give (n, p), n at least 1."
            )
        if known is None:
            return ConstantRows(numbers, shapes[-1])
        functions = self._functions(known, shapes)
        if len(functions) != len(numbers):
            raise TaskError(f"{name}: {len(functions)} functions and {len(numbers)} parameters. Pair them.")
        shape = (len(functions), functions.shape[1] + len(self.parameters), *shapes[-1])
        if isinstance(functions, LazyRows) or math.prod(shape) > _MOST_NUMBERS:
            return DrawnRows(lambda rows: join(functions[rows], numbers[rows]), shape)
        return join(functions, numbers)

    @cached_property
    def digest(self) -> InputDigest | None:
        """Digest of the candidates; None if a function draws them."""
        return None if self.inputs is None else digest_inputs(self.inputs, self.name)

    def source_of_inputs(self) -> dict[str, Any] | None:
        """Where candidates are that stay on disk, as JSON values; None if a run has to keep them itself."""
        return self.inputs.description() if isinstance(self.inputs, MappedRows | Hdf5Rows) else None

    def _functions(self, values: Any, shapes: tuple[tuple[int, ...], ...]) -> Any:
        """Functions ``(n, channels, *finest grid)``, repeated along the axes that those given lack."""
        kept = self.input_axes
        if kept is None:
            return _with_channels(self.name, values, shapes, self._in_channels)
        if not kept or not set(kept) <= {*range(len(shapes[0]))}:
            raise TaskError(f"{self.name}: input_axes {kept} are not axes of grids like {shapes[-1]}.")
        reduced = tuple(tuple(shape[axis] for axis in kept) for shape in shapes)
        found, self.resolutions = _with_channels(self.name, values, reduced, self._in_channels), shapes
        if isinstance(found, LazyRows):
            return DrawnRows(lambda rows: self.repeat(found[rows]), (*found.shape[:2], *shapes[-1]))
        return self.repeat(np.asarray(found, dtype=np.float64))

    def _given(self, f: Array) -> tuple[Array, Array]:
        """What a simulator is given of inputs: functions without the axes along which they repeat, and parameters."""
        functions, parameters = self.split(f)
        return self.unrepeat(functions), parameters

    def _sample(self, indices: Sequence[int], seed: int) -> Array:
        if self.draw_inputs is not None:
            n = max(indices, default=-1) + 1
            drawn = as_numbers(_drawn(self.name, self.draw_inputs, n, seed), f"{self.name}: the array of inputs")
            values = self._functions(drawn, self.resolutions)
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


def _names(name: str, parameters: ParameterValues | None, given: Sequence[str]) -> tuple[str, ...]:
    """Names of the parameters: those given, those of a mapping, or p0, p1 and so on."""
    if isinstance(given, str):
        raise TaskError(f"{name}: parameter_names must be a list of texts, got {given!r}.")
    if given or parameters is None:
        return tuple(given)
    if isinstance(parameters, Mapping):
        return tuple(parameters)
    shape = np.shape(as_numbers(parameters, f"{name}: the array of parameters"))
    if len(shape) != 2:
        raise TaskError(f"{name}: parameters of shape {shape} are not (n, p). Give one row per input.")
    return tuple(f"p{i}" for i in range(shape[1]))


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
