"""Functions on grids, and numbers beside them: the words that all rooms share.

:mod:`~mrafno.grids.grid` has grids, resampling and the relative L2 distance, :mod:`~mrafno.grids.parameters` numbers
that belong to an input, :mod:`~mrafno.grids.scattered` functions at points that are on no grid. Imports errors only.
"""

from mrafno.grids.grid import (
    Array,
    Domain,
    Grid,
    Interpolation,
    Layout,
    as_shapes,
    grids_of,
    layout_of,
    relative_l2,
    resample,
)

__all__ = [
    "Array",
    "Domain",
    "Grid",
    "Interpolation",
    "Layout",
    "as_shapes",
    "grids_of",
    "layout_of",
    "relative_l2",
    "resample",
]
