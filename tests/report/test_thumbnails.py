"""Small pictures hold what they are given: a PNG is decoded again, a line's points are read off its markup."""

import base64
import re
import struct
import zlib

import numpy as np

from mrafno.grids import Grid
from mrafno.plot.axes import Axes
from mrafno.report.thumbnails import palette, parameter_table, png, thumbnail


def decoded(content):
    """Colour numbers and colours of a PNG, by the letter of its specification."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(content):
        (length,), kind = struct.unpack(">I", content[at : at + 4]), content[at + 4 : at + 8]
        body = content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 3, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:], np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)


def test_a_png_comes_back():
    picture = np.arange(6, dtype=np.uint8).reshape(2, 3)
    found, colours = decoded(png(picture, palette("Viridis")))
    np.testing.assert_array_equal(found, picture)
    np.testing.assert_array_equal(colours[[0, 255]], [[68, 1, 84], [253, 231, 37]])


def axes_of(shape, **more):
    return Axes(Grid(shape, ("cells",) * len(shape)), **more)


def test_a_field_has_its_second_axis_upwards():
    field = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 9.0]])
    markup = thumbnail(axes_of((2, 3)), field[None], 0.0, 4.0, 'a "b" <c>').markup
    pattern = '<img src="data:image/png;base64,([^"]+)" alt="([^"]+)" title="([^"]+)" width="72" height="72">'
    data = re.fullmatch(pattern, markup)
    assert data[2] == data[3] == "a &quot;b&quot; &lt;c&gt;"
    found, _ = decoded(base64.b64decode(data[1]))
    # What is above the scale has its last colour.
    np.testing.assert_array_equal(found, [[128, 255], [64, 255], [0, 191]])


def test_a_large_field_is_thinned():
    markup = thumbnail(axes_of((128, 100)), np.zeros((1, 128, 100)), 0, 1, "x").markup
    found, _ = decoded(base64.b64decode(markup.split(",")[1].split('"')[0]))
    assert found.shape == (50, 64)


def test_the_last_channel_and_the_middle_slice_are_shown():
    values = np.zeros((2, 2, 3, 5))
    values[1, :, :, 2] = 1.0
    markup = thumbnail(axes_of((2, 3, 5)), values, 0, 1, "output").markup
    found, _ = decoded(base64.b64decode(markup.split(",")[1].split('"')[0]))
    np.testing.assert_array_equal(found, np.full((3, 2), 255))
    assert 'alt="output (channel 2 of 2, z = 0.5)"' in markup


def test_a_line_is_drawn_from_left_to_right():
    markup = thumbnail(axes_of((3,)), np.array([[0.0, 1.0, 0.5]]), 0.0, 1.0, "a line").markup
    assert re.search('points="([^"]+)"', markup)[1] == "2.0,70.0 36.0,2.0 70.0,36.0"
    assert "<title>a line</title>" in markup
    # A constant has no height to be drawn at.
    assert "nan" not in thumbnail(axes_of((3,)), np.full((1, 3), 2.0), 2.0, 2.0, "flat").markup


def test_parameters_are_a_table():
    markup = parameter_table({"<nu>": 0.0123456, "b": 2.0}).markup
    assert "<th>&lt;nu&gt;</th><td>0.01235</td>" in markup
    assert "<th>b</th><td>2</td>" in markup
