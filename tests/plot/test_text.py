"""Numbers as text."""

import pytest

from mrafno.plot.text import counted, duration, listed, mesh_name


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.0123, "0.012 s"), (8.46, "8.5 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min"),
        (200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min"), (86399, "23 h 59 min"),
        (4 * 86400 + 3 * 3600, "4 d 3 h"),
    ],
)  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_counts_and_lists():
    assert [counted(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert counted(2, "query", "queries") == "2 queries"
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert [mesh_name(shape) for shape in ((129,), (64, 32))] == ["129", "64x32"]
