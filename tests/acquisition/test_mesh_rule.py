"""Which mesh has most to give, by the formulas of the module."""

import numpy as np
import pytest

from mrafno.acquisition import Choice, MultilevelGain
from mrafno.acquisition.level_errors import LevelErrors, Share, shares_from_recent
from mrafno.acquisition.mesh_rule import level_gains
from mrafno.errors import AcquisitionError
from tests.acquisition.contexts import context_of


def errors_of(counts, errors):
    return LevelErrors(tuple(counts), tuple(Share(error, 0.0, 5) for error in errors))


# Gains.


def test_two_levels_by_hand():
    """D_0 = .04 is lowered by all 20 examples, D_1 = .05 by the 4 fine ones; costs 1 : 4 are .2 and .8."""
    gains = level_gains([0.04, 0.05], [16, 4], [1, 4])
    shared, own = 0.04 / 21, 0.05 / 5
    np.testing.assert_allclose(gains, [shared / 0.2, (shared + own) / 0.8], rtol=1e-14)


def test_three_levels_by_hand():
    gains = level_gains([0.01, 0.03, 0.21], [10, 6, 3], [1, 2, 5])
    parts = [0.01 / 20, 0.03 / 10, 0.21 / 4]
    expected = [parts[0] / 0.125, sum(parts[:2]) / 0.25, sum(parts) / 0.625]
    np.testing.assert_allclose(gains, expected, rtol=1e-14)


def test_one_level():
    np.testing.assert_allclose(level_gains([0.09], [8], [7.0]), [0.09 / 9], rtol=1e-14)


def test_the_unit_of_cost_does_not_matter():
    first, second = (level_gains([0.2, 0.3], [3, 1], costs) for costs in ([1, 4], [250, 1000]))
    np.testing.assert_allclose(first, second)


def test_the_fine_mesh_comes_back_when_the_coarse_one_has_nothing_left():
    """As coarse examples accumulate their share falls; the mesh's own bias is left, and only the fine one lowers it."""
    costs, counts = [1, 40], [10, 10]
    asked = []
    for _ in range(400):
        shares = [1.0 / sum(counts), 0.1 / counts[1]]
        level = int(np.argmax(level_gains(shares, counts, costs)))
        counts[level] += 1
        asked.append(level)
    assert asked[:50] == [0] * 50
    assert 0 < sum(asked[200:]) < 200


def test_costs_are_split_as_multilevel_monte_carlo_splits_them():
    """Shares V_j / n_j with power 1: in the limit n_j is proportional to sqrt(V_j / C_j) (Giles, 2008)."""
    variances, costs, counts = [1.0, 0.01], [1.0, 10.0], [1, 1]
    for _ in range(4000):
        shares = [variances[0] / sum(counts), variances[1] / counts[1]]
        counts[int(np.argmax(level_gains(shares, counts, costs)))] += 1
    # A fine example is one of the coarse ones, too, so what only it teaches costs what it costs more.
    expected = np.sqrt(variances[0] / costs[0]) / np.sqrt(variances[1] / (costs[1] - costs[0]))
    np.testing.assert_allclose(sum(counts) / counts[1], expected, rtol=0.05)


def test_a_level_that_differs_from_the_coarser_one_by_nothing_is_never_asked():
    """A middle mesh as wrong as the coarse one, at three quarters of the finest one's cost."""
    counts = [10, 2, 2]
    for _ in range(300):
        shares = [1.0 / sum(counts), 0.0, 0.05 / counts[2]]
        counts[int(np.argmax(level_gains(shares, counts, [1, 30, 40])))] += 1
    assert counts[1] == 2
    assert counts[2] > 2


def test_no_examples_and_no_error_are_numbers_too():
    assert level_gains([0.0, 0.0], [0, 0], [1, 2]) == [0.0, 0.0]
    np.testing.assert_allclose(level_gains([1.0, 0.0], [0, 0], [1, 3]), [4.0, 4 / 3])


@pytest.mark.parametrize(
    ("shares", "counts", "costs"),
    [
        ([0.1], [1, 2], [1, 2]),
        ([0.1, 0.2], [1], [1, 2]),
        ([0.1, 0.2, 0.3], [1, 2, 3], [1, 2]),
        ([0.1, np.nan], [1, 2], [1, 2]),
        ([0.1, np.inf], [1, 2], [1, 2]),
        ([-0.1, 0.2], [1, 2], [1, 2]),
        ([0.1, 0.2], [1, -2], [1, 2]),
    ],
)
def test_nonsense_is_refused(shares, counts, costs):
    with pytest.raises(AcquisitionError, match="gains: "):
        level_gains(shares, counts, costs)


def test_costs_are_checked():
    with pytest.raises(AcquisitionError, match="positive cost"):
        level_gains([0.1, 0.2], [1, 2], [0, 2])


# The rule.


def test_the_rule_reads_shares_counts_and_costs_from_the_context():
    """Two initial examples of each level, three chosen and one running: costs 1 and 3. The last fit counts."""
    observed = tuple(Choice(row, 0) for row in range(3))
    history = (errors_of((2, 2), (0.9, 0.9)), errors_of((4, 2), (0.2, 0.1)))
    context = context_of(range(9), costs=(1.0, 3.0), initial=(2, 2), observed=observed, level_errors=history)
    expected = level_gains([0.04, 0.01], [6, 2], (1, 3))
    np.testing.assert_allclose(MultilevelGain().gains(context, [Choice(5, 0)]), expected)


def test_an_uncertain_share_counts_for_more():
    certain, uncertain = (
        MultilevelGain().gains(
            context_of(range(9), costs=(1.0, 3.0), initial=(4, 2), level_errors=(LevelErrors((4, 2), shares),)), []
        )
        for shares in (
            (Share(0.2, 0.1, 5), Share(0.1, 0.1, 5)),
            (Share(0.2, 0.1, 5), Share(0.1, 1.0, 0)),
        )
    )
    assert certain[0] == uncertain[0]
    assert uncertain[1] > 2 * certain[1]


def test_a_single_network_goes_by_the_errors_before_training():
    errors = ((0, 0.4), (0, 0.2), (1, 0.5))
    context = context_of(range(9), costs=(1.0, 3.0), initial=(2, 2), observed=(Choice(0, 0),) * 3, errors=errors)
    shares = [share.expected for share in shares_from_recent(errors, 2)]
    np.testing.assert_allclose(MultilevelGain().gains(context, []), level_gains(shares, [5, 2], (1, 3)))
