"""The study of queries."""

import json

from mrafno.studies.queries import queries_study, stage_bounds, stage_cells, stage_counts
from tests.studies.tiny import made_result, tiny_study


def test_stages():
    assert stage_bounds(500, 5) == [(1, 100), (101, 200), (201, 300), (301, 400), (401, 500)]
    assert stage_bounds(7, 3) == [(1, 2), (3, 5), (6, 7)]
    assert stage_bounds(2, 5) == [(1, 1), (2, 2)]
    some = [made_result(seed=s, levels=levels) for s, levels in enumerate([(0, 0, 1, 1), (1, 0, 1, 1)])]
    first, second = stage_counts(some, 2, 4)
    assert [count.mean for count in first.counts] == [1.5, 0.5]
    assert [count.mean for count in second.counts] == [0.0, 2.0]
    cells = stage_cells({"random-mix": [first, second]}, ["9", "17"], short=True)
    assert cells == [
        ["method", "mesh", "1 to 2", "3 to 4", "in all"],
        ["random-mix", "9", "1.5", "0.0", "1.5"],
        ["", "17", "0.5", "2.0", "2.5"],
    ]


def test_queries(out, capsys):
    queries_study(tiny_study("queries", out), "mra-uhat,random-high", stages=2)
    assert "1 to 2" in capsys.readouterr().out
    told = json.loads((out / "queries.json").read_text())
    assert [[count["mean"] for count in stage["counts"]] for stage in told["stages"]["random-high"]] == [[0, 2], [0, 2]]
    assert "Stage by stage" in (out / "queries.html").read_text(encoding="utf-8")
