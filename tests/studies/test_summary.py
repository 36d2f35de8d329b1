"""Means over runs as text, tables and files."""

import json

import numpy as np
import pytest

from mrafno.studies.summary import Spread, as_table, pm, write_json


def test_spread():
    assert Spread.of([1.0, 2.0, 4.0]) == Spread(pytest.approx(7 / 3), pytest.approx(np.std([1, 2, 4], ddof=1)), 3)
    assert Spread.of([2.0]) == Spread(2.0, None, 1)


def test_means_as_text():
    assert pm(Spread(0.12345, 0.01, 3)) == "0.1235 ± 0.0100"
    assert pm(Spread(0.12345, None, 1), ".2f", 10) == "1.23"
    assert pm(Spread(200.0, 10.0, 2), "+.0f") == "+200 ± 10"
    assert pm(None) == "-"


def test_tables_and_files(tmp_path):
    table = as_table("Title", [["method", "n"], ["mra-u", "3"]])
    assert [column.header for column in table.columns] == ["method", "n"]
    assert table.row_count == 1
    path = tmp_path / "new" / "file.json"
    write_json(path, {"spread": Spread(1.0, None, 1)})
    assert json.loads(path.read_text()) == {"spread": {"mean": 1.0, "deviation": None, "n": 1}}
    with pytest.raises(TypeError, match="set is no JSON value"):
        write_json(path, {1})
    assert [p.name for p in path.parent.iterdir()] == ["file.json"]
