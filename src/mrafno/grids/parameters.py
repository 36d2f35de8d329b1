"""Parameters of inputs: numbers beside an input's functions, held as constant channels, which are the last ones.

So an input is always one array ``(channels, *grid)``, whatever it is made of.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import MrafnoError, hint
from mrafno.grids.grid import Array
from mrafno.grids.masks import check_unmasked

#: What people give as parameters: ``(n, p)`` or ``(p,)`` in the order of their names, or a mapping by name.
ParameterValues = ArrayLike | Mapping[str, ArrayLike]

#: Largest change of a constant channel over the grid, as a share of its largest value.
_CHANGE = 1e-9
#: Ratio of the largest to the smallest value from which on positive parameters are seen on a logarithmic scale.
_DECADE = 10.0


def join(functions: Array, values: Array) -> Array:
    """Functions ``(n, channels, *grid)``, perhaps no channel, and parameters ``(n, p)`` as one array."""
    shape = functions.shape[2:]
    constants = np.broadcast_to(values.reshape(*values.shape, *[1] * len(shape)), (*values.shape, *shape))
    return np.concatenate([functions, constants], axis=1)


def split(f: Array, count: int) -> tuple[Array, Array]:
    """The inverse of :func:`join`; ``count`` is the number of parameters, p."""
    channels = f.shape[1] - count
    first: Any = (..., *[0] * (f.ndim - 2))
    return f[:, :channels], f[:, channels:][first]


def as_parameters(values: ParameterValues, names: Sequence[str], *, where: str, error: type[MrafnoError]) -> Array:
    """Parameters as ``(n, p)`` in the order of their names; ``error`` if they are not that.

    Args:
        values: ``(n, p)``, or ``(p,)`` for n = 1, or a mapping from every name to one number or to n of them.
    """
    columns = values if isinstance(values, Mapping) else {"parameters": values}
    for name, column in columns.items():
        check_unmasked(column, f"{where}: {name} has", error)
    if isinstance(values, Mapping):
        values = _from_mapping(values, names, where, error)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different length
        array = np.array(None)
    if array.ndim == 1:
        array = array[None]
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != len(names):
        raise error(
            f"{where}: parameters of shape {array.shape} and type {array.dtype} are not numbers (n, {len(names)}). "
            f"Give one column each for {', '.join(names)}."
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise error(f"{where}: parameter {names[column]} of input {row} is {array[row, column]}. Give a finite number.")
    return array


def _from_mapping(values: Mapping[str, ArrayLike], names: Sequence[str], where: str, error: type[MrafnoError]) -> Array:
    for name in values:
        if name not in names:
            raise error(f"{where}: there is no parameter {name!r}. {hint(str(name), names)}")
    missing = [name for name in names if name not in values]
    if missing:
        raise error(f"{where}: the parameter {missing[0]} is missing. Give a value for each of {', '.join(names)}.")
    try:
        columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(values[name], dtype=np.float64)) for name in names))
        return np.stack(columns, axis=1)
    except (TypeError, ValueError):
        raise error(
            f"{where}: the parameters {', '.join(names)} are not numbers, or not equally many. Give one number or n of "
            "each."
        ) from None


def check_constant(f: Array, names: Sequence[str], where: str, error: type[MrafnoError]) -> None:
    """Raise ``error`` unless the last channels of ``(n, channels, *grid)`` are constant over the grid."""
    if not names or not f.size:
        return
    axes = tuple(range(2, f.ndim))
    values = f[:, f.shape[1] - len(names) :]
    change = np.ptp(values, axis=axes)
    bad = np.argwhere(change > _CHANGE * np.abs(values).max(axis=axes))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        raise error(
            f"{where}: {names[column]} of input {row} is a parameter, but changes over the grid by "
            f"{change[row, column]:.3g}. The last {len(names)} channels are parameters: repeat each one's value over "
            "the grid."
        )


def over_decades(values: Array, names: Sequence[str]) -> tuple[str, ...]:
    """Names of the parameters, of ``(n, p)``, that are positive and vary by a factor of ten or more."""
    if not len(values):
        return ()
    low, high = values.min(axis=0), values.max(axis=0)
    return tuple(name for name, a, b in zip(names, low, high, strict=True) if a > 0 and b >= _DECADE * a)


def check_names(names: Sequence[str], logarithmic: Sequence[str], where: str, error: type[MrafnoError]) -> None:
    """Raise ``error`` unless all names of parameters are different texts, of which ``logarithmic`` are some."""
    for name in names:
        if not isinstance(name, str) or not name.strip() or set(name) & set("{}=,\n"):
            raise error(f"{where}: {name!r} is no name of a parameter. Give a text without braces, '=' and commas.")
    if len(set(names)) != len(names):
        raise error(f"{where}: the parameters {', '.join(names)} need different names.")
    for name in logarithmic:
        if name not in names:
            raise error(f"{where}: log_parameters names {name!r}, which is no parameter. {hint(str(name), names)}")
