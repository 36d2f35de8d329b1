"""What is masked is no number, wherever functions and numbers come in."""

import numpy as np
import pytest

from mrafno import from_points
from mrafno.errors import SurrogateError, TaskError
from mrafno.grids import Domain, Grid, resample
from mrafno.grids.masks import check_unmasked
from mrafno.grids.parameters import as_parameters
from mrafno.surrogate.shapes import as_functions

HOLE = np.ma.masked_equal([1.0, -9999.0, 3.0], -9999.0)
GRID = Grid((3,), ("nodes",))


@pytest.mark.parametrize("call", [
    lambda: from_points([0.0, 0.5, 1.0], HOLE, GRID),
    lambda: from_points(HOLE, [0.0, 0.5, 1.0], GRID),
    lambda: resample(HOLE, GRID, Grid((5,), ("nodes",))),
    lambda: as_parameters(HOLE, ("a", "b", "c"), where="here", error=TaskError),
    lambda: as_parameters(HOLE[:, None], ("a",), where="here", error=TaskError),
    lambda: as_parameters({"a": HOLE, "b": 1.0}, ("a", "b"), where="here", error=TaskError),
    lambda: as_functions(HOLE, Domain(1, 1, (GRID,), ((False, False),)), 1),
])  # fmt: skip
def test_masked_values_are_refused_where_numbers_come_in(call):
    with pytest.raises((TaskError, SurrogateError), match=r"1 values that are masked, the first at index \(1,( 0)?\)?"):
        call()


@pytest.mark.parametrize("values", [np.ma.array([1.0, 2.0]), [np.ma.array([1.0])], 3.0, [1, 2], None, np.zeros(0)])
def test_what_has_no_mask_is_accepted(values):
    check_unmasked(values, "they have", TaskError)
