"""The base class of tasks: input functions, meshes, costs and a solver, and the checks that all tasks share."""

import abc
import hashlib
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrafno.errors import SimulationError, TaskError, raised
from mrafno.grids import Array, Domain, Grid, Interpolation, Layout, as_shapes, resample
from mrafno.grids.masks import check_unmasked
from mrafno.grids.parameters import ParameterValues, as_parameters, check_constant, check_names, join, split
from mrafno.tasks.source import source_of

#: Largest change of an input along an axis along which it is repeated, as a share of its largest value.
_CHANGE = 1e-9
#: Largest output, and bound of costs: squares and quotients of them must not overflow.
LARGEST = 1e100


#: Costs of a simulation on each level, or ``measured``: the seconds that it takes.
Costs = Sequence[float] | Literal["measured"]


class Task(abc.ABC):
    """A map from input functions to output functions that can be simulated on several meshes.

    A subclass implements ``_sample``, ``_solve`` and ``configuration``, and ``_check`` if not every function is an
    input. The public methods check inputs and outputs, and are the same for every task.

    Attributes:
        name: a short name, used in messages and files.
        resolutions: grid shapes, coarse to fine.
        costs: the cost of one solve on each level, in any unit.
        in_channels: number of functions and parameters in an input.
        parameters: names of the parameters, numbers that belong to an input beside its functions. Each is a channel
            that is constant over the grid; they are the last channels.
        log_parameters: those of them that are positive and that a surrogate sees on a logarithmic scale.
        out_channels: number of functions in an output.
        layout: positions of the grid's points, per axis; see :class:`mrafno.grids.grid.Grid`.
        extent: start and end of each axis; () for [0, 1] everywhere.
        points: for each level and each axis with the layout ``points`` its coordinates, and () for other axes; () if
            there are no such axes.
        input_axes: the axes of the grid along which inputs vary, if not all: along the others they are repeated, so
            that input and output live on one grid; see :meth:`repeat`.
        interpolation: how inputs are interpolated to a coarser grid.
        zero_boundary: for each axis, whether outputs vanish at its (start, end), so that a surrogate may enforce it.
        input_name: label of inputs in tables and figures.
        output_name: label of outputs.
        axis_names: labels of the axes.
        axis_units: their units.
    """

    name: str
    input_name: str = "input"
    output_name: str = "output"
    axis_names: tuple[str, ...] = ("x", "y", "z")
    axis_units: tuple[str, ...] = ()
    in_channels: int = 1
    parameters: tuple[str, ...] = ()
    log_parameters: tuple[str, ...] = ()
    out_channels: int = 1
    layout: tuple[Layout, ...]
    extent: tuple[tuple[float, float], ...] = ()
    points: tuple[tuple[tuple[float, ...], ...], ...] = ()
    input_axes: tuple[int, ...] | None = None
    interpolation: Interpolation = "linear"
    zero_boundary: tuple[tuple[bool, bool], ...] = ()

    #: Increased whenever a change to the solver changes its numbers; part of :attr:`identity`, the key of caches.
    revision: ClassVar[int] = 1

    #: Whether costs are the seconds that simulations take, which a run learns; then ``costs`` are a first guess.
    measured_costs: bool = False

    def __init__(self, resolutions: Sequence[Sequence[int] | int], costs: Costs) -> None:
        if missing := [name for name in ("name", "layout") if not hasattr(self, name)]:
            raise TaskError(
                f"{type(self).__name__}: it has no {' and no '.join(missing)}. Set name, a text, and layout, the "
                'positions of the points on each axis such as ("nodes",), in the class or before super().__init__().'
            )
        if not isinstance(self.name, str) or not self.name.isprintable() or not self.name:
            raise TaskError(f"{type(self).__name__}: its name must be a text of printable characters: {self.name!r}.")
        self.resolutions = as_shapes(resolutions)
        if len(self.resolutions[0]) != len(self.layout):
            raise TaskError(
                f"{self.name}: grid shapes {self.resolutions} have {len(self.resolutions[0])} axes, the problem has "
                f"{len(self.layout)}."
            )
        if self.interpolation not in get_args(Interpolation):
            known = ", ".join(get_args(Interpolation))
            raise TaskError(f"{self.name}: unknown interpolation {self.interpolation!r}. Choose one of {known}.")
        if isinstance(costs, str) and costs == "measured":
            self.measured_costs = True
            sizes = [float(np.prod(shape)) for shape in self.resolutions]
            costs = [n / sizes[0] for n in sizes]
        try:
            self.costs = tuple(float(c) for c in costs)
        except (TypeError, ValueError):
            raise TaskError(
                f'{self.name}: costs {costs!r} are not numbers. Give one per resolution, or "measured".'
            ) from None
        if len(self.costs) != len(self.resolutions) or not all(c > 0 and np.isfinite(c) for c in self.costs):
            raise TaskError(
                f"{self.name}: costs {self.costs} do not fit {len(self.resolutions)} resolutions. "
                "Give one positive number per resolution."
            )
        if not all(1 / LARGEST <= c <= LARGEST for c in self.costs):
            raise TaskError(
                f"{self.name}: costs {self.costs} are not between {1 / LARGEST:g} and {LARGEST:g}, and quotients of "
                "them would overflow. Give them in another unit."
            )
        check_names(self.parameters, self.log_parameters, self.name, TaskError)
        if len(self.parameters) > self.in_channels:
            raise TaskError(
                f"{self.name}: {len(self.parameters)} parameters are more than in_channels={self.in_channels}, which "
                "counts functions and parameters."
            )
        self.zero_boundary = self.zero_boundary or ((False, False),) * len(self.layout)
        if self.points and len(self.points) != len(self.resolutions):
            raise TaskError(f"{self.name}: {len(self.points)} sets of points for {len(self.resolutions)} resolutions.")
        points = self.points or ((),) * len(self.resolutions)
        self.grids = tuple(
            Grid(shape, self.layout, self.extent, axes) for shape, axes in zip(self.resolutions, points, strict=True)
        )
        axes = range(len(self.layout))
        if self.input_axes is not None and not (self.input_axes and set(self.input_axes) <= {*axes}):
            raise TaskError(f"{self.name}: input_axes {self.input_axes} are not some of {', '.join(map(str, axes))}.")

    # What a subclass implements.

    @abc.abstractmethod
    def _sample(self, indices: Sequence[int], seed: int) -> Array:
        """Inputs ``(len(indices), in_channels, *finest grid)``; each depends on its index and the seed only."""

    @abc.abstractmethod
    def _solve(self, f: Array, level: int) -> Array:
        """Outputs ``(n, out_channels, *grid)`` for inputs that have passed the checks."""

    def _check(self, f: Array) -> None:
        """Raise :class:`TaskError` for inputs outside the task's domain; ``f`` has the right shape and is finite."""
        del f

    @property
    @abc.abstractmethod
    def configuration(self) -> dict[str, Any] | None:
        """Everything but the meshes that determines the outputs, as JSON values; None if that is unknown."""

    #: Whether a run must not go on with a simulator whose source was changed.
    strict_source: bool = False

    def describe_simulator(self) -> str | None:
        """The simulator's source, in which a change is looked for; None for a built-in task, which has a revision."""
        own = type(self).__module__.partition(".")[0] != "mrafno"
        return source_of(type(self)) if own else None

    # Public methods.

    @property
    def levels(self) -> int:
        """Number of resolutions."""
        return len(self.resolutions)

    @property
    def domain(self) -> Domain:
        """Channels, grids and boundaries: all that a surrogate needs to know."""
        return Domain(
            self.in_channels, self.out_channels, self.grids, self.zero_boundary, self.parameters, self.log_parameters
        )

    @property
    def identity(self) -> str | None:
        """SHA-256 of everything that determines the outputs; None if that is unknown."""
        if self.configuration is None:
            return None
        description = {
            "name": self.name,
            "revision": self.revision,
            "resolutions": self.resolutions,
            "parameters": self.configuration,
        }
        return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()

    def sample(self, n: int, seed: int = 0) -> Array:
        """Draw ``n`` input functions on the finest grid, ``(n, in_channels, *finest grid)``, float64.

        The same seed gives the same functions for every ``n``: the first 10 of 100 are the 10 of 10.
        """
        return self.sample_at(range(_count(self.name, n)), seed)

    def sample_at(self, indices: Sequence[int], seed: int = 0) -> Array:
        """The functions with these indices in the infinite sequence whose beginning :meth:`sample` returns."""
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise TaskError(f"{self.name}: the seed must be a whole number, 0 or more, got {seed!r}.")
        if any(not isinstance(i, int | np.integer) or i < 0 for i in indices):
            raise TaskError(f"{self.name}: indices must be whole numbers, 0 or more, got {list(indices)}.")
        return self._sample([int(i) for i in indices], int(seed))

    def restrict(self, f: ArrayLike, level: int) -> Array:
        """Functions ``(n, in_channels, *finest grid)``, interpolated to a level's grid."""
        self._check_level(level)
        functions, parameters = self.split(self._as_input(f, self.levels - 1))
        return join(resample(functions, self.grids[-1], self.grids[level], self.interpolation), parameters)

    def repeat(self, f: Array, level: int = -1) -> Array:
        """Functions ``(n, channels, *input_axes of a level)``, repeated along its other axes to ``(..., *grid)``."""
        shape = self.resolutions[level]
        kept = self.input_axes if self.input_axes is not None else range(len(shape))
        ones = [n if axis in kept else 1 for axis, n in enumerate(shape)]
        return np.broadcast_to(f.reshape(*f.shape[:2], *ones), (*f.shape[:2], *shape)).copy()

    def unrepeat(self, f: Array) -> Array:
        """The inverse of :meth:`repeat` for ``(n, channels, *grid)``."""
        if self.input_axes is None:
            return f
        place: Any = (..., *[slice(None) if axis in self.input_axes else 0 for axis in range(len(self.layout))])
        return np.asarray(f[place])

    def split(self, f: Array) -> tuple[Array, Array]:
        """The functions ``(n, channels, *grid)`` and parameters ``(n, p)`` in inputs ``(n, in_channels, *grid)``."""
        return split(f, len(self.parameters))

    def join(self, functions: ArrayLike | None, parameters: ParameterValues, level: int = -1) -> Array:
        """Inputs ``(n, in_channels, *grid)``: the inverse of :meth:`split`.

        Args:
            functions: ``(n, channels, *level's grid)``; None if inputs have parameters only.
            parameters: ``(n, p)``, or a mapping from names to n numbers.
            level: the finest by default.
        """
        values = as_parameters(parameters, self.parameters, where=self.name, error=TaskError)
        level = self.levels - 1 if level == -1 else level
        self._check_level(level)
        if functions is None:
            functions = np.zeros((len(values), 0, *self.resolutions[level]))
        array = as_numbers(functions, f"{self.name}: the functions")
        if array.ndim != 2 + len(self.layout) or len(array) != len(values):
            raise TaskError(f"{self.name}: functions of shape {array.shape} do not fit {len(values)} inputs.")
        return self._as_input(join(np.asarray(array, dtype=np.float64), values), level)

    def solve(self, f: ArrayLike, level: int) -> Array:
        """Outputs ``(n, out_channels, *level's grid)`` of inputs ``(n, in_channels, *level's grid)``."""
        self._check_level(level)
        values = self._as_input(f, level)
        return self.checked_output(self._solve(values, level), level, len(values))

    def checked_input(self, f: ArrayLike, level: int) -> Array:
        """``f`` as float64 if it is a valid input ``(n, in_channels, *level's grid)``; else :class:`TaskError`."""
        self._check_level(level)
        return self._as_input(f, level)

    def checked_output(self, y: ArrayLike, level: int, n: int) -> Array:
        """``y`` as float64 if it is a valid output for ``n`` inputs; else :class:`SimulationError`."""
        self._check_level(level)
        expected = (n, self.out_channels, *self.resolutions[level])
        values = self._as_output(y, level)
        if values.shape != expected:
            raise SimulationError(
                f"{self.name}: the simulation on level {level} returned shape {values.shape}, expected {expected} "
                "(examples, out_channels, grid)."
            )
        _check_finite(values, f"{self.name}: the simulation on level {level} returned", SimulationError)
        if values.size and (largest := float(np.abs(values).max())) > LARGEST:
            raise SimulationError(
                f"{self.name}: the simulation on level {level} returned {largest:.3g}, more than {LARGEST:g}. Did it "
                "diverge? If not, give its outputs in other units."
            )
        return values

    def _as_output(self, y: ArrayLike | None, level: int) -> Array:
        """``y`` as float64 of any shape; :class:`SimulationError` if it is not an array of real numbers."""
        if y is None:
            raise SimulationError(f"{self.name}: the simulation on level {level} returned None: is a `return` missing?")
        check_unmasked(y, f"{self.name}: the simulation on level {level} returned", SimulationError)
        try:
            values = np.asarray(y)
            if values.dtype.kind in "fiu":
                return np.asarray(values, dtype=np.float64)
            found = f"an array of {values.dtype}" if values.ndim else f"a {type(y).__name__}"
        except Exception as error:  # a tensor of torch that has a gradient raises, for example
            ragged = isinstance(y, list | tuple) and isinstance(error, ValueError)
            why = "whose rows differ in length" if ragged else f"of which NumPy makes no array ({raised(error)})"
            found = f"a {type(y).__name__} {why}"
        raise SimulationError(
            f"{self.name}: the simulation on level {level} returned {found}. Return an array of real numbers of shape "
            f"{(self.out_channels, *self.resolutions[level])} (out_channels, grid) for each input."
        )

    def _check_level(self, level: int) -> None:
        if isinstance(level, bool) or not isinstance(level, int | np.integer) or not 0 <= level < self.levels:
            shapes = ", ".join(f"{i}: {'x'.join(map(str, s))}" for i, s in enumerate(self.resolutions))
            raise TaskError(f"{self.name}: unknown level {level!r}. The levels are {shapes}.")

    def _as_input(self, f: ArrayLike, level: int) -> Array:
        shape = self.resolutions[level]
        expected = f"(n, {self.in_channels}, {', '.join(map(str, shape))})"
        values = as_numbers(f, f"{self.name}: the input")
        if values.ndim != 2 + len(shape) or values.shape[2:] != shape:
            raise TaskError(
                f"{self.name}: the input has shape {values.shape}, level {level} takes {expected}. "
                f"Use task.restrict(f, {level}) to bring functions from the finest grid to this one."
            )
        if values.shape[1] != self.in_channels:
            raise TaskError(f"{self.name}: the input has {values.shape[1]} channels, expected {expected}.")
        values = np.ascontiguousarray(values, dtype=np.float64)
        _check_finite(values, f"{self.name}: the input has", TaskError)
        check_constant(values, self.parameters, self.name, TaskError)
        self._check_repeated(values)
        self._check(values)
        return values

    def _check_repeated(self, f: Array) -> None:
        """Raise unless inputs are constant along the axes along which they are repeated."""
        others = [axis for axis in range(len(self.layout)) if axis not in (self.input_axes or range(len(self.layout)))]
        axes = tuple(range(1, f.ndim))
        for axis in others:
            first = np.take(f, [0], axis=2 + axis)
            change = np.abs(f - first).max(axis=axes, initial=0.0)
            bad = np.flatnonzero(change > _CHANGE * np.abs(f).max(axis=axes, initial=0.0))
            if len(bad):
                name = self.axis_names[axis] if axis < len(self.axis_names) else f"axis {axis}"
                raise TaskError(
                    f"{self.name}: inputs must be constant along {name}, but input {bad[0]} changes by "
                    f"{change[bad[0]]:g}. Repeat functions of the other axes along it: task.repeat(f)."
                )

    def __repr__(self) -> str:
        shapes = ", ".join("x".join(map(str, s)) for s in self.resolutions)
        return f"<{type(self).__name__} {self.name}: {shapes}>"


def as_numbers(values: ArrayLike, what: str) -> NDArray[Any]:
    """``values`` as an array of real numbers, without a copy if it is one; else :class:`TaskError`."""
    check_unmasked(values, f"{what} has", TaskError)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise TaskError(f"{what} is not an array: its rows differ in length. Give real numbers.") from None
    if array.dtype.kind not in "fiu":
        raise TaskError(f"{what} has dtype {array.dtype}. Give real numbers.")
    return array


def power_law_costs(resolutions: Sequence[Sequence[int]], exponent: float) -> tuple[float, ...]:
    """Costs that grow like a power of the points per axis, the coarsest being 1.

    Used if the meshes were changed and no costs were given; each task's exponent follows from its published cost ratio.
    """
    sizes = [float(np.prod(shape)) ** (1 / len(shape)) for shape in resolutions]
    return tuple((size / sizes[0]) ** exponent for size in sizes)


def generators(indices: Sequence[int], seed: int) -> list[np.random.Generator]:
    """One generator per example, seeded with (seed, index), so that no example depends on how many are drawn."""
    return [np.random.default_rng([seed, index]) for index in indices]


def _count(name: str, n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise TaskError(f"{name}: cannot draw {n!r} inputs. Give a whole number, 0 or more.")
    return int(n)


def _check_finite(values: Array, what: str, error: type[TaskError]) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise error(f"{what} {int(bad.sum())} values that are NaN or infinite, the first at index {where}.")
