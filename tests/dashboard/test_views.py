"""Content of the page: rows, key figures, figures and queries."""

import pytest

from mrafno.dashboard.views import short_state
from mrafno.report.page import figure_sections
from mrafno.run.reader import RunReader


def test_rows_of_the_list(client, folder):
    content = client.json("/api/runs")
    assert (content["folder"], content["unread"]) == (str(folder), 0)
    rows = {row["name"]: row for row in content["runs"]}
    assert list(rows) == ["damaged", "deep/er/second", "first", "flat", "hollow", "nonsense"]
    state = RunReader(folder / "first").state
    first = rows["first"]
    expected = {
        "problem": None, "task": "made", "method": "mra-uhat", "seed": 0, "state": "finished 4 steps",
        "short_state": "finished 4 steps", "standing": "finished",
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert (first["steps"], first["cost"], first["error"], first["changed"]) == (4, 19.0, 0.1, state.last)
    assert first["curve"] == [[6.0, 0.4], [17.0, 0.2], [19.0, 0.1]]
    assert (first["failed"], first["goal_steps"], first["share"], first["tags"]) == (1, None, None, [])
    # Five fits of 2 s, three measurements of 0.5 s, four simulations of 0.1 s and five choices of 0.25 s.
    assert first["seconds"] == pytest.approx(10 + 1.5 + 0.4 + 1.25)
    second = rows["deep/er/second"]
    assert (second["steps"], second["cost"], second["error"]) == (2, 26.0, None)
    assert (second["state"], second["standing"]) == ("waiting for answers", "waiting")
    assert (rows["damaged"]["standing"], rows["damaged"]["curve"]) == (None, [])


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("finished 4 steps", "finished 4 steps"),
        (
            "run m: 5 simulations failed, 100 % of all, more than 50 %. The last said: heat: the simulator, given "
            "(1, 9) on level 1, raised ValueError (heat.py:17): CFL violated. Everything is kept: mend the simulator.",
            "stopped: ValueError (heat.py:17): CFL violated",
        ),
        (
            "run m: there are too few initial examples to go on. See.",
            "stopped: there are too few initial examples to go on",
        ),
        ("x " * 100, f"stopped: {'x ' * 38}..."),
    ],
)
def test_a_long_state_is_shortened(state, shown):
    assert short_state(state) == shown


def test_key_figures_of_a_run(client):
    run = client.json("/api/run?run=deep%2Fer%2Fsecond")
    assert (run["steps"], run["cost"], run["measured"], run["fits"], run["tests"]) == (2, 26.0, None, 3, 2)
    assert run["levels"] == [
        {"mesh": "5 points", "cost": 1.0, "initial": 2, "chosen": 0},
        {"mesh": "9 points", "cost": 10.0, "initial": 2, "chosen": 2},
    ]
    assert [(q["id"], q["mesh"], q["step"]) for q in run["running"]] == [("q000008", "9 points", 3)]
    assert run["settings"]["evaluate"] == 2


def test_figures_are_those_of_the_report(client, folder):
    cards = client.json("/api/figures?run=first")
    sections = figure_sections(RunReader(folder / "first"))
    assert [(card["heading"], card["text"]) for card in cards] == [(heading, text) for heading, text, _ in sections]
    figures = {card["id"]: card["figure"] for card in cards}
    error = figures["error-against-cost"]["data"][0]
    assert (error["x"], error["y"]) == ([6.0, 17.0, 19.0], [0.4, 0.2, 0.1])
    assert {trace["name"] for trace in figures["meshes"]["data"]} == {"5 points", "9 points"}
    unmeasured = client.json("/api/figures?run=flat")[0]
    assert (unmeasured["text"], unmeasured["figure"]) == ("Nothing has been measured yet.", None)


def test_queries_come_in_pages_the_newest_first(client, monkeypatch):
    monkeypatch.setattr("mrafno.dashboard.views.PAGE", 4)
    first = client.json("/api/queries?run=first")
    assert [q["id"] for q in first["rows"]] == ["q000010", "q000009", "q000008", "q000007"]
    assert (first["total"], first["page"], first["pages"]) == (11, 0, 3)
    assert first["rows"][0]["prequential_error"] == 0.125
    assert [q["id"] for q in client.json("/api/queries?run=first&page=2")["rows"]] == ["q000002", "q000001", "q000000"]
    assert client.json("/api/queries?run=first&page=99")["page"] == 2
    tests = client.json("/api/queries?run=first&kind=test")
    assert [(q["id"], q["mesh"], q["cost"]) for q in tests["rows"]] == [
        ("q000005", "9 points", 1.0), ("q000004", "9 points", 1.0),
    ]  # fmt: skip
    (failed,) = client.json("/api/queries?run=first&status=failed")["rows"]
    assert failed["reason"] == "<script>alert(1)</script> no convergence"
    assert client.send("/api/queries?run=first&page=x").status == 400
    dear = client.json("/api/queries?run=first&order=cost")["rows"]
    assert [q["cost"] for q in dear] == [10.0, 1.0, 1.0, 1.0]
