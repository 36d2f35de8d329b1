"""Masked arrays, as netCDF readers return them: what is masked is no number."""

from typing import Any

import numpy as np

from mrafno.errors import MrafnoError


def check_unmasked(values: Any, what: str, error: type[MrafnoError]) -> None:
    """Raise for masked values, whose numbers (-9999, often) mean nothing; ``numpy.asarray`` would drop the mask.

    Args:
        what: the beginning of the message, "the inputs have" for example.
    """
    parts = [((i,), part) for i, part in enumerate(values)] if isinstance(values, list | tuple) else [((), values)]
    masks = [(place, np.ma.getmaskarray(part)) for place, part in parts if isinstance(part, np.ma.MaskedArray)]
    count = sum(int(mask.sum()) for _, mask in masks)
    if count:
        place, mask = next((place, mask) for place, mask in masks if mask.any())
        where = (*place, *(int(i) for i in np.argwhere(mask)[0]))
        raise error(f"{what} {count} values that are masked, the first at index {where}. Give numbers in their place.")
