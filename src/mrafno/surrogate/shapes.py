"""Shapes of inputs: one or several, with or without an axis for a single channel, parameters in them or beside them."""

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import SurrogateError
from mrafno.grids import Array, Domain
from mrafno.grids.masks import check_unmasked
from mrafno.grids.parameters import ParameterValues, as_parameters, check_constant, join, split


def as_inputs(
    f: ArrayLike | None, domain: Domain, parameters: ParameterValues | None = None, shape: tuple[int, ...] | None = None
) -> Array:
    """Functions and parameters on any grid as one array ``(n, in_channels, *grid)``.

    Args:
        f: functions as :func:`as_functions` takes them; with their parameters as constant channels behind them, or
            without, if ``parameters`` has those; None if inputs are parameters only.
        parameters: ``(n, p)``, or ``(p,)`` for all inputs, or a mapping from names to one number or n numbers. One
            function may have n of them.
        shape: of the grid, where there are no functions; by default the finest one.
    """
    names = domain.parameters
    if parameters is not None and not names:
        raise SurrogateError("surrogate: its inputs have no parameters. Leave them out.")
    if parameters is None:
        if f is None:
            form = f"parameters= ({', '.join(names)})" if names else "f, an array of functions"
            raise SurrogateError(f"surrogate: there are no inputs. Give {form}.")
        values = as_functions(f, domain, domain.in_channels)
        check_constant(values, names, "surrogate", SurrogateError)
    else:
        numbers = as_parameters(parameters, names, where="surrogate", error=SurrogateError)
        if f is None or not domain.function_channels:
            if domain.function_channels:
                raise SurrogateError("surrogate: inputs have functions and parameters. Give both.")
            if f is not None and np.size(f):
                raise SurrogateError("surrogate: inputs are parameters only. Leave f out.")
            functions = np.zeros((len(numbers), 0, *(shape or domain.grids[-1].shape)))
        else:
            functions = as_functions(f, domain, domain.function_channels)
        if len(numbers) == 1:
            numbers = np.repeat(numbers, len(functions), axis=0)
        if len(functions) == 1:
            functions = np.repeat(functions, len(numbers), axis=0)
        if len(numbers) != len(functions):
            raise SurrogateError(f"surrogate: {len(functions)} functions and {len(numbers)} parameters. Pair them.")
        values = join(functions, numbers)
    for name, column in zip(names, split(values, len(names))[1].T, strict=True):
        if name in domain.log_parameters and (column <= 0).any():
            raise SurrogateError(f"surrogate: {name} is {column.min():g}, but it is positive in all training inputs.")
    return values


def as_functions(f: ArrayLike, domain: Domain, channels: int) -> Array:
    """Functions on any grid as ``(n, channels, *grid)``.

    Args:
        f: ``(n, channels, *grid)``, or one function ``(channels, *grid)``, or ``(*grid)`` if there is one channel.
    """
    check_unmasked(f, "surrogate: the inputs have", SurrogateError)
    try:
        values = np.asarray(f)
    except ValueError:  # rows of different length
        values = np.array(None)
    if values.dtype.kind not in "fiu":
        raise SurrogateError(f"surrogate: the inputs are {values.dtype}. Give an array of real numbers.")
    values, given = np.asarray(values, dtype=np.float64), values.shape
    dim = domain.dim
    if channels == 1 and values.ndim == dim:
        values = values[None]
    if values.ndim == dim + 1:
        values = values[None]
    if values.ndim != 2 + dim or values.shape[1] != channels or not len(values):
        forms = f"(n, {channels}, grid of {dim} {'axes' if dim > 1 else 'axis'}), nor one function without n"
        # Only the caller knows whether these are several functions or several channels.
        several = channels == 1 and len(given) == dim + 1 and given[0] > 1
        hint = f" If they are {given[0]} functions, add an axis for the channel: f[:, None]." if several else ""
        raise SurrogateError(f"surrogate: inputs of shape {given} are not {forms}.{hint}")
    if min(values.shape[2:]) < 2:
        raise SurrogateError(f"surrogate: an axis needs at least 2 points, got inputs of shape {given}.")
    if not np.isfinite(values).all():
        raise SurrogateError("surrogate: the inputs have NaN or infinite values.")
    return values
