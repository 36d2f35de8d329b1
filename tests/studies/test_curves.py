"""Comparisons of known curves."""

import math

import pytest

from mrafno.analysis.curves import Curve
from mrafno.errors import MrafnoError
from mrafno.studies.curves import area_costs, compare, pair, saving
from mrafno.studies.curves_report import end_cells, pair_cells, reach_cells


def test_a_pair_is_compared_over_the_last_two_thirds_of_what_both_have():
    """Straight lines of log error that cross at 60; of the costs from 30 to 90 the second half is ours."""
    ours = Curve((0.0, 120.0), (math.exp(1.2), math.exp(-1.2)))
    other = Curve((0.0, 90.0), (1.0, 1.0))
    found = pair("a", "b", ours, other)
    assert (found.first, found.last) == (30.0, 90.0)
    assert found.share == pytest.approx(0.5, abs=1e-3)
    assert found.gain == pytest.approx(1.0)
    assert pair("a", "b", ours, Curve((0.0,), (1.0,))) is None


def test_saving_is_the_part_of_the_reference_cost():
    reference = Curve((0.0, 100.0), (1.0, 0.1))
    assert saving(Curve((0.0, 40.0), (1.0, 0.01)), reference) == pytest.approx(0.2)
    assert saving(Curve((0.0, 40.0), (1.0, 0.2)), reference) is None


def test_areas_reach_what_all_half_and_two_have():
    curves = [Curve((0.0, end), (1.0, 0.5)) for end in (10.0, 30.0, 20.0, 90.0, 80.0)]
    assert area_costs(curves) == (10.0, 30.0, 80.0)
    assert area_costs(curves[:1]) == (10.0,)


def test_comparison_of_known_curves(made):
    found = compare(made, errors=[0.3, 0.1, 0.5])
    assert found.errors == (0.5, 0.3, 0.1)
    row = found.rows[0]
    assert (row.n, row.steps, row.counts) == (2, (3, 3), (2.0, 1.0))
    assert found.means["mra-uhat"].curve.errors == pytest.approx((0.8, 0.3, 0.1))
    assert found.means["mra-uhat"].lowest.errors == pytest.approx((0.8, 0.2, 0.1))
    (only,) = found.pairs
    assert (only.share, only.last) == (1.0, 50.0)
    (ours,) = found.savings
    # The first seed: from .8 to .2 over 20, .4 is half of the way of the logarithm; the second has .4 at 20.
    assert ours.seeds == pytest.approx((0.1, 0.2))
    assert [reach.cost is None for reach in found.rows[1].reached] == [False, True, True]
    assert reach_cells(found)[2] == ["random-high", "72 ± 0", "-", "-"]
    assert end_cells(found, ["9", "17"])[1] == ["mra-uhat", "2", "3", "0.1000 ± 0.0000", "50 ± 0", "2", "1"]
    assert pair_cells(found, short=True)[1][1].startswith("100 % (")


def test_nothing_to_compare():
    with pytest.raises(MrafnoError, match="nothing to compare"):
        compare({})
