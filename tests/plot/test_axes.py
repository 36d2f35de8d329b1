"""Titles of axes, shapes of maps, and the frames that a slider goes through."""

import numpy as np
import pytest

from mrafno.grids import Grid
from mrafno.plot.axes import Axes, Frame


def test_titles_have_units_and_no_markup():
    axes = Axes(Grid((3, 4, 5), ("cells",) * 3), ("<b>", "t"), ("mm", "", "km"))
    assert axes.labels == ["&lt;b&gt; (mm)", "t", "z (km)"]


@pytest.mark.parametrize(
    ("names", "units", "shape", "ratio"),
    [
        (("x", "y"), (), (8, 4), 1.0),
        (("x", "y"), ("m", "s"), (8, 4), None),  # a length and a time
        (("x", "t"), (), (8, 4), None),
        (("x",), (), (8,), None),
    ],
)
def test_maps_are_drawn_to_scale_where_units_agree(names, units, shape, ratio):
    assert Axes(Grid(shape, ("cells",) * len(shape)), names, units).ratio == ratio


def test_frames_go_through_channels_and_slices():
    axes = Axes(Grid((3, 4, 5), ("nodes",) * 3), (), ("", "", "m"))
    frames, start = axes.frames(2)
    assert len(frames) == 10
    assert frames[6] == Frame("channel 2 of 2, z = 0.25 m", 1, (0.25,))
    assert frames[start] == Frame("channel 2 of 2, z = 0.5 m", 1, (0.5,))
    values = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    np.testing.assert_array_equal(axes.picked(values, frames[6]), values[1, :, :, 1])
    # An input with one channel is the same in all of them; a coarser grid has the nearest slice.
    np.testing.assert_array_equal(axes.picked(values[:1], frames[6]), values[0, :, :, 1])
    coarse = Axes(Grid((3, 4, 3), ("nodes",) * 3))
    np.testing.assert_array_equal(coarse.picked(values[..., :3], Frame("", 0, (0.45,))), values[0, :, :, 1])
    assert axes.frame(1, [2], 2) == frames[start]


def test_there_are_only_so_many_frames():
    frames, start = Axes(Grid((2, 2, 100), ("cells",) * 3)).frames(1)
    assert len(frames) == 24
    assert (frames[0].at, frames[-1].at) == ((0.005,), (0.995,))
    assert frames[start].at == pytest.approx((0.5,), abs=0.03)
    assert Axes(Grid((9,), ("nodes",))).frames(1) == ([Frame("", 0)], 0)


def test_pictures_are_thinned():
    axes = Axes(Grid((300, 100), ("cells",) * 2))
    assert [len(x) for x in axes.shown] == [100, 100]
    assert axes.picked(np.zeros((1, 300, 100)), Frame("", 0)).shape == (100, 100)
