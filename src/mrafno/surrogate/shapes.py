"""Shapes of input functions: one or several, with or without an axis for a single channel."""

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import SurrogateError
from mrafno.grids import Array, Domain


def as_functions(f: ArrayLike, domain: Domain) -> Array:
    """Inputs on any grid as ``(n, in_channels, *grid)``.

    Args:
        f: ``(n, in_channels, *grid)``, or one function ``(in_channels, *grid)``, or ``(*grid)`` if there is one
            channel.
    """
    try:
        values = np.asarray(f)
    except ValueError:  # rows of different length
        values = np.array(None)
    if values.dtype.kind not in "fiu":
        raise SurrogateError(f"surrogate: the inputs are {values.dtype}. Give an array of real numbers.")
    values, given = np.asarray(values, dtype=np.float64), values.shape
    channels, dim = domain.in_channels, domain.dim
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
