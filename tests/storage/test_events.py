"""Lines of a ledger: what is encoded is decoded, and nothing else is."""

import json

import pytest

from mrafno.storage.checksum import seal
from mrafno.storage.events import AFTER, ENDING, FIRST, SUM, Event, decode_line, encode_line, split_lines


def line_of(number=0, after=FIRST):
    return encode_line(1, number, "told", {"x": [1, 2.5]}, after)


def test_an_event_comes_back():
    line = line_of(3)
    event, version, fault = decode_line(line[:-1])
    assert event == Event(3, "told", json.loads(line)["t"], {"x": [1, 2.5]})
    assert (version, fault) == (1, "")


def test_the_two_sums_are_where_they_are_looked_for():
    line = line_of(after=b"0123456789abcdef")
    values = json.loads(line)
    assert line[:-1][AFTER] == b"0123456789abcdef" == values["after"].encode()
    assert line[:-1][SUM] == values["sum"].encode() == line[-ENDING:][:16]


def test_every_changed_byte_is_found():
    line = line_of()[:-1]
    for i in range(len(line)):
        assert decode_line(line[:i] + bytes([line[i] ^ 1]) + line[i + 1 :]) == (None, 0, "its checksum does not fit")


@pytest.mark.parametrize("content", [b"{}", b"[1}", b'{"v":1,"n":0,"t":1,"kind":"told","data":{}}'])
def test_a_valid_checksum_does_not_make_an_event(content):
    assert decode_line(seal(content, "sum")) == (None, 0, "it is no event")


def test_lines_and_the_unfinished_rest_are_told_apart():
    one, two = line_of(0), line_of(1)
    assert split_lines(one + two) == ([one[:-1], two[:-1]], b"")
    assert split_lines(b"") == ([], b"")
    for cut in range(1, len(two)):
        assert split_lines(one + two[:cut]) == ([one[:-1]], two[:cut])
    assert split_lines(one + b"\0\0\n") == ([one[:-1]], b"\0\0\n")


def test_a_complete_event_that_lost_its_newline_to_a_later_write_is_not_unfinished():
    one, two = line_of(0), line_of(1)
    joined = one[:-1] + two[:20]
    assert split_lines(joined) == ([joined], b"")
