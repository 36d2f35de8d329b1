"""Honest batches: every member sees every example in its own order, and none that it leaves out."""

import numpy as np
import pytest
import torch

from mrafno.data.dataset import Dataset
from mrafno.errors import SurrogateError
from mrafno.grids import Domain, Grid
from mrafno.surrogate.operator.spectral import Mesh
from mrafno.surrogate.training.batches import domain_mesh, folds, stride_of, taught_levels
from tests.told_examples import SEEDS, batches_of, data_of, domain_of


def rows_of(f):
    return np.floor(f[..., 0, 0].numpy() + 1e-9).astype(int)


def test_every_member_sees_every_example_once_an_epoch_in_its_own_order():
    data = data_of(domain_of((8,)), (12,))
    batches = batches_of(data, batch=4)
    orders = []
    for _ in range(3):
        seen = np.concatenate([rows_of(f) for _ in range(3) for _, _, f, _ in batches.draw()], axis=1)
        assert seen.shape == (3, 12)
        np.testing.assert_array_equal(np.sort(seen, axis=1), np.tile(np.arange(12), (3, 1)))
        orders += [tuple(row) for row in seen]
    assert len(set(orders)) == 9


def test_an_epoch_need_not_be_a_whole_number_of_batches():
    batches = batches_of(data_of(domain_of((8,)), (7,)), batch=3)
    seen = np.concatenate([rows_of(f) for _ in range(7) for _, _, f, _ in batches.draw()], axis=1)
    for row in seen:
        np.testing.assert_array_equal(np.bincount(row), np.full(7, 3))
        np.testing.assert_array_equal(np.sort(row[:7]), np.arange(7))


def test_inputs_and_outputs_stay_together_with_their_level_and_mesh():
    domain = domain_of((8,), (20,))
    batches = batches_of(data_of(domain, (5, 6)), batch=6)
    drawn = list(batches.draw())
    assert [level for level, *_ in drawn] == [0, 1]
    for level, mesh, f, y in drawn:
        assert mesh == domain_mesh(domain, level)
        assert f.shape[2:] == (1, *mesh.shape)
        assert torch.equal(f, -y)


def test_a_member_draws_the_same_whatever_the_others():
    data = data_of(domain_of((8,)), (9,))
    three, two = batches_of(data, batch=4), batches_of(data, batch=4, seeds=[SEEDS[0], [5, 5]])
    for _ in range(5):
        ((_, _, f, _),), ((_, _, g, _),) = three.draw(), two.draw()
        assert torch.equal(f[0], g[0])


def test_out_of_fold_rows_never_appear():
    data = data_of(domain_of((8,), (12,)), (20, 10))
    out_of_fold = folds(data.sizes, 0.2, 3, seed=4)
    batches = batches_of(data, batch=9, out_of_fold=out_of_fold)
    seen = [[set() for _ in range(2)] for _ in range(3)]
    for _ in range(30):
        for level, _, f, _ in batches.draw():
            for member, row in enumerate(rows_of(f)):
                seen[member][level] |= set(row.tolist())
    for member in range(3):
        for level, n in enumerate(data.sizes):
            assert seen[member][level] == set(range(n)) - set(out_of_fold[member][level].tolist())


@pytest.mark.parametrize(
    ("sizes", "batch", "expected"),
    [
        ((200, 200), 40, (20, 20)),
        ((300, 100), 40, (30, 10)),
        ((1, 399), 40, (1, 40)),  # none is forgotten
        ((3, 2), 40, (3, 2)),
        ((0, 9), 4, (4,)),
    ],
)
def test_a_batch_is_shared_in_proportion(sizes, batch, expected):
    batches = batches_of(data_of(domain_of((4,), (6,)), sizes), batch=batch)
    drawn = {level: f.shape[1] for level, _, f, _ in batches.draw()}
    assert tuple(drawn.values()) == expected
    assert all(sizes[level] for level in drawn)


@pytest.mark.parametrize(("shape", "layout"), [((24,), "cells"), ((13, 17), "nodes"), ((12, 18), "periodic")])
def test_strided_subsets_are_the_right_points(shape, layout):
    """Values encode their point, so each must be at its place in the mesh; all offsets occur."""
    domain = domain_of(shape, layout=layout)
    batches = batches_of(data_of(domain, (5,)), batch=3, points=4)
    stride = batches.strides[0]
    assert stride == min(shape) // 4
    seen = set()
    for _ in range(60):
        ((_, mesh, f, y),) = batches.draw()
        assert min(mesh.shape) >= 4
        assert f.shape[3:] == mesh.shape
        assert torch.equal(f, -y)
        index = np.rint((f[0, 0, 0].numpy() % 1) * 10000).astype(int)
        where = np.stack(np.unravel_index(index, shape))
        for axis, points in enumerate(domain.grids[0].axes):
            expected = np.reshape(mesh.axes[axis], [-1 if i == axis else 1 for i in range(len(shape))])
            np.testing.assert_array_equal(points[where[axis]], np.broadcast_to(expected, mesh.shape))
        seen.add(tuple(where[(slice(None), *[0] * len(shape))].tolist()))
    assert len(seen) == stride ** len(shape)


def test_early_steps_see_their_own_number_of_points():
    domain = domain_of((32, 32), (128, 64))
    batches = batches_of(data_of(domain, (3, 3)), points=32, early_points=16, early_share=0.5)
    assert [mesh.shape for _, mesh, _, _ in batches.draw(early=True)] == [(16, 16), (32, 16)]
    assert [mesh.shape for _, mesh, _, _ in batches.draw()] == [(32, 32), (64, 32)]


@pytest.mark.parametrize(
    ("shape", "points", "stride"),
    [
        ((128, 128), 32, 4),
        ((129,), 32, 4),
        ((63,), 32, 1),
        ((64,), 32, 2),
        ((128,), 0, 1),
        ((32, 128), 32, 1),
        ((8,), 32, 1),
    ],
)
def test_stride(shape, points, stride):
    assert stride_of(shape, points) == stride


def test_no_examples_is_an_error():
    with pytest.raises(SurrogateError, match="no examples"):
        batches_of(Dataset.of(domain_of((4,)), [None]))


# Folds.


def test_folds_are_disjoint_and_of_the_right_size():
    out_of_fold = folds((200, 40, 2), 0.05, 5, seed=0)
    for level, n in enumerate((200, 40, 2)):
        together = np.concatenate([member[level] for member in out_of_fold])
        assert len(set(together.tolist())) == len(together)
        # The first two are left to all, of the finest level one.
        assert all((1 if level == 2 else 2) <= r < n for r in together)
        # One of every 20 each, but for those.
        assert 5 * n // 20 - 2 <= len(together) <= 5 * n // 20 or level == 2
    assert [len(member[0]) for member in folds((20,), 0.0, 3, seed=0)] == [0, 0, 0]


def test_of_the_first_rows_of_the_finest_level_each_is_in_one_fold():
    """So the error there is known from few examples; later rows are in folds of the usual size."""
    assert all(len(member[1]) == 0 for n in (1, 2) for member in folds((100, n), 0.05, 5, seed=3))
    for n in (3, 5, 20):
        together = np.concatenate([member[1] for member in folds((100, n), 0.05, 5, seed=3)])
        assert sorted(together.tolist()) == list(range(1, n))
    # Of the next 40, two of each 20 per member.
    assert sum(len(member[1]) for member in folds((100, 60), 0.05, 5, seed=3)) == 19 + 2 * 5


def test_one_example_of_a_level_is_learnt_as_one_of_the_level_below():
    assert taught_levels((8, 1)) == [0, 0]
    assert taught_levels((8, 2)) == [0, 1]
    assert taught_levels((8, 1, 3)) == [0, 0, 2]
    assert taught_levels((8, 0, 1)) == [0, 0, 0]
    assert taught_levels((1, 1)) == [0, 0]
    assert taught_levels((0, 1)) == [0, 1]
    assert taught_levels((0, 1, 1)) == [0, 1, 1]


def test_every_member_has_examples_to_train_on():
    for n in range(1, 30):
        assert all(len(member[0]) < n for member in folds((n,), 0.5, 5, seed=0))


def test_rows_added_later_change_nothing_for_those_before():
    for n in range(3, 90):
        for before, after in zip(folds((n,), 0.1, 5, seed=3), folds((n + 1,), 0.1, 5, seed=3), strict=True):
            assert set(after[0].tolist()) - set(before[0].tolist()) <= {n}
            assert set(before[0].tolist()) <= set(after[0].tolist())


def test_periods_are_longer_where_a_domain_is_not_periodic():
    domain = Domain(1, 1, (Grid((8, 9), ("periodic", "nodes")),), ((False, False), (True, True)))
    assert domain_mesh(domain, 0) == Mesh.of(domain.grids[0].axes, (1.0, 1.5))
    assert domain_mesh(domain, 0, padding=1.25) == Mesh.of(domain.grids[0].axes, (1.0, 1.25))
