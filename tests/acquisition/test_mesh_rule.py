"""Which mesh has most to give, by the formulas of the module."""

import numpy as np
import pytest

from mrafno.acquisition import Choice, MultilevelGain
from mrafno.acquisition.mesh_rule import level_errors, level_gains
from mrafno.errors import AcquisitionError
from tests.acquisition.contexts import context_of

bounded = MultilevelGain().bounded

# Gains.


def test_two_levels_by_hand():
    """S = .04 shared by all 20 examples, D = .05 that only the 4 fine ones lower; costs 1 : 4 are .2 and .8."""
    gains = level_gains([0.2, 0.3], [16, 4], [1, 4])
    shared, own = 2 * 0.04 / 21, 0.05 / 5
    np.testing.assert_allclose(gains, [shared / 0.2, (shared + own) / 0.8], rtol=1e-14)


def test_three_levels_by_hand():
    gains = level_gains([0.1, 0.2, 0.5], [10, 6, 3], [1, 2, 5])
    parts = [2 * 0.01 / 20, 0.03 / 10, 0.21 / 4]
    expected = [parts[0] / 0.125, sum(parts[:2]) / 0.25, sum(parts) / 0.625]
    np.testing.assert_allclose(gains, expected, rtol=1e-14)


def test_one_level():
    np.testing.assert_allclose(level_gains([0.3], [8], [7.0]), [2 * 0.09 / 9], rtol=1e-14)


def test_a_finer_level_that_is_no_worse_has_nothing_of_its_own():
    gains = level_gains([0.3, 0.2], [5, 5], [1, 9])
    np.testing.assert_allclose(gains, [2 * 0.09 / 11 / 0.1, 2 * 0.09 / 11 / 0.9], rtol=1e-14)
    # Level 2 is measured against the worst below it, not against level 1.
    gains = level_gains([0.3, 0.2, 0.4], [1, 1, 1], [1, 1, 1])
    np.testing.assert_allclose(gains[2] / 3, 2 * 0.09 / 4 + 0.07 / 2, rtol=1e-14)


def test_the_unit_of_cost_does_not_matter():
    np.testing.assert_allclose(level_gains([0.2, 0.3], [3, 1], [1, 4]), level_gains([0.2, 0.3], [3, 1], [250, 1000]))


def test_the_fine_mesh_comes_back_when_the_coarse_one_has_nothing_left():
    """As coarse examples accumulate their share falls; the mesh's own bias is left, and only the fine one lowers it."""
    costs, counts = [1, 40], [10, 10]
    asked = []
    for _ in range(400):
        bias, shared = 0.1 / counts[1], 1.0 / sum(counts)
        level = int(np.argmax(level_gains([shared**0.5, (shared + bias) ** 0.5], counts, costs)))
        counts[level] += 1
        asked.append(level)
    assert asked[:50] == [0] * 50
    assert 0 < sum(asked[200:]) < 200


def test_more_examples_of_a_level_make_it_less_urgent():
    few, many = level_gains([0.1, 0.3], [9, 2], [1, 3]), level_gains([0.1, 0.3], [9, 20], [1, 3])
    assert few[1] > many[1]
    assert few[0] > many[0]


def test_no_examples_and_no_error_are_numbers_too():
    assert level_gains([0.0, 0.0], [0, 0], [1, 2]) == [0.0, 0.0]
    np.testing.assert_allclose(level_gains([1.0, 1.0], [0, 0], [1, 3]), [8.0, 8 / 3])


# Errors of today, from errors of the past.


def test_the_coarsest_level_has_the_median_of_its_last_few():
    assert level_errors([], 1) == [1.0]
    assert level_errors([(0, 0.5)], 1) == [0.5]
    assert level_errors([(0, 0.5), (0, 0.1), (0, 0.2)], 1) == [0.2]
    few = MultilevelGain().window // 2 + 1
    np.testing.assert_allclose(level_errors([*[(0, 9.0)] * 50, *[(0, 0.2)] * few], 1), [0.2])
    np.testing.assert_allclose(level_errors([*[(0, 9.0)] * 50, *[(0, 0.2)] * (few - 1)], 1), [9.0])


def test_a_finer_level_exceeds_the_coarser_one_as_it_did_when_it_was_measured():
    """Its error was .5 when the coarse one was .4: squares .25 and .16. Today the coarse one is .1."""
    measured = [(0, 0.4), (1, 0.5), *[(0, 0.1)] * 7]
    np.testing.assert_allclose(level_errors(measured, 2), [0.1, (0.01 + 0.09) ** 0.5])


def test_a_finer_level_that_was_no_worse_is_as_good_as_the_coarser_one():
    assert level_errors([(0, 0.4), (1, 0.3)], 2) == [0.4, 0.4]
    assert level_errors([(0, 0.4)], 3) == [0.4] * 3
    assert level_errors([], 2) == [1.0, 1.0]


def test_three_levels_add_up():
    measured = [(0, 0.3), (1, 0.5), (2, 0.6), (1, 0.4)]
    parts = [0.09, (0.16 + 0.07) / 2, 0.36 - 0.25]
    np.testing.assert_allclose(np.square(level_errors(measured, 3)), np.cumsum(parts))


def test_errors_never_fall_from_coarse_to_fine():
    rng = np.random.default_rng(0)
    for _ in range(50):
        measured = [(int(rng.integers(3)), float(rng.exponential())) for _ in range(rng.integers(1, 40))]
        errors = level_errors(measured, 3)
        assert errors == sorted(errors)
        assert len(level_gains(errors, [1, 1, 1], [1, 2, 3])) == 3


# Looking at what nobody has looked at for long.


def test_a_level_waits_for_its_price_and_comes_after_five_of_them():
    """A fine example costs 3: free to be chosen after 3 coarse ones, bound to be after 15."""
    fine = [bounded([1.0, 2.0], [1] + [0] * n, [1, 3])[1] for n in range(17)]
    assert fine == [-np.inf] * 3 + [2.0] * 12 + [np.inf] * 2
    assert bounded([1.0, 2.0], [], [1, 3]) == [1.0, -np.inf]
    assert bounded([1.0, 2.0], [0] * 9 + [1, 0, 0, 0], [1, 3]) == [1.0, 2.0]


def test_a_finer_example_counts_for_a_coarser_level_and_not_the_other_way():
    costs, gains = [1, 2, 4], [1.0, 2.0, 3.0]
    assert bounded(gains, [0, 0], costs) == [1.0, 2.0, -np.inf]
    assert bounded(gains, [0, 0, 2], costs) == [1.0, -np.inf, -np.inf]
    assert bounded(gains, [0, 0, 1], costs) == [1.0, -np.inf, 3.0]
    assert bounded(gains, [1] * 10, costs) == [1.0, -np.inf, np.inf]


@pytest.mark.parametrize(
    ("errors", "counts", "costs"),
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
def test_nonsense_is_refused(errors, counts, costs):
    with pytest.raises(AcquisitionError, match="gains: "):
        level_gains(errors, counts, costs)


def test_costs_are_checked():
    with pytest.raises(AcquisitionError, match="positive cost"):
        level_gains([0.1, 0.2], [1, 2], [0, 2])


# The rule.


def test_the_rule_reads_errors_counts_and_costs_from_the_context():
    """Two initial examples of each level, three coarse ones bought and one running: costs 1 and 3."""
    errors = ((0, 0.4), (0, 0.3), (0, 0.2))
    observed = tuple(Choice(row, 0) for row in range(3))
    context = context_of(range(9), costs=(1.0, 3.0), initial=(2, 2), observed=observed, errors=errors)
    expected = bounded(level_gains(level_errors(errors, 2), [6, 2], (1, 3)), [0, 0, 0, 0], (1, 3))
    assert MultilevelGain().gains(context, [Choice(5, 0)]) == expected
    assert expected[1] > 0


def test_its_constants_are_settings():
    context = context_of(range(9), costs=(1.0, 3.0), initial=(2, 2), observed=(Choice(0, 0),) * 3, errors=((0, 0.3),))
    assert MultilevelGain(max_spacing=1.0).gains(context, [])[1] == np.inf
    assert MultilevelGain(min_spacing=2.0).gains(context, [])[1] == -np.inf
    single, double = (MultilevelGain(shared_power=p).gains(context, []) for p in (1.0, 2.0))
    assert double == [2 * gain for gain in single]
    with pytest.raises(AcquisitionError, match="min_spacing at most max_spacing"):
        MultilevelGain(min_spacing=6.0)
