"""What a page may change: only with control, by the token, from the server's own page."""

import json

import pytest

from mrafno.run import Run, RunReader
from mrafno.run.control import pending_request
from mrafno.run.notes import Notes, read_notes
from tests.dashboard.conftest import Client
from tests.made_runs import made_run


@pytest.fixture
def runs(tmp_path):
    made_run(tmp_path / "runs" / "first", levels=(0,))
    made_run(tmp_path / "outside", levels=(0,))
    return tmp_path / "runs"


@pytest.fixture
def server(runs, serve):
    return serve(runs, control=True)


@pytest.fixture
def post(server):
    """A function that sends a POST as the page does, with some headers changed."""

    def posted(what, values, **headers):
        host = f"127.0.0.1:{server.server_port}"
        body = values if isinstance(values, bytes) else json.dumps(values).encode()
        usual = {
            "Host": host, "Origin": f"http://{host}", "X_Mrafno_Token": server.token,
            "Content_Type": "application/json", "Content_Length": str(len(body)),
        }  # fmt: skip
        answer = Client(server).send(f"/api/{what}", "POST", body=body, **{**usual, **headers})
        return answer.status, json.loads(answer.content)

    return posted


NOTES = {"run": "first", "note": "<b>why</b>", "tags": ["a", "b"]}


def test_notes_are_written_and_shown(post, server, runs):
    assert post("notes", NOTES) == (200, {})
    assert read_notes(runs / "first") == Notes("<b>why</b>", ("a", "b"))
    row = Client(server).rows()["first"]
    assert (row["note"], row["tags"]) == ("<b>why</b>", ["a", "b"])
    status, said = post("notes", {**NOTES, "tags": ["x" * 50]})
    assert (status, "at most 40 characters" in said["problem"]) == (409, True)


def test_a_driver_is_paused_and_stopped(post, runs):
    status, said = post("control", {"run": "first", "request": "pause"})
    assert (status, "no process advances it" in said["problem"]) == (409, True)
    with Run.open(runs / "first"):
        assert post("control", {"run": "first", "request": "pause"})[0] == 200
        assert pending_request(runs / "first") == "pause"
        assert post("control", {"run": "first", "request": "resume"})[0] == 200
        assert pending_request(runs / "first") is None
        assert post("control", {"run": "first", "request": "stop"})[0] == 200
        assert pending_request(runs / "first") == "stop"
        assert post("control", {"run": "first", "request": "delete"})[0] == 409


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X_Mrafno_Token": None}, 403),
        ({"X_Mrafno_Token": "wrong"}, 403),
        ({"X_Mrafno_Token": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Content_Type": "text/plain"}, 400),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 400),
        ({"Content_Length": "99999"}, 413),
        ({"Content_Length": "-1"}, 413),
        ({"Content_Length": None}, 413),
    ],
)
def test_requests_from_elsewhere_change_nothing(post, runs, headers, status):
    assert post("notes", NOTES, **headers)[0] == status
    assert read_notes(runs / "first") == Notes()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"3", b"[" * 10_000, b"{}", b'{"run": "first"}', b"\xff"])
def test_a_body_that_makes_no_sense(post, body):
    assert post("notes", body)[0] in (400, 404)


@pytest.mark.parametrize("name", ["../outside", "/etc", "first/", "", "none"])
def test_only_listed_runs_are_changed(post, runs, name):
    assert post("notes", {**NOTES, "run": name})[0] == 404
    assert post("control", {"run": name, "request": "stop"})[0] == 404
    assert read_notes(runs.parent / "outside") == Notes()


def test_a_file_that_is_a_link_is_replaced_and_not_followed(post, runs):
    (runs.parent / "victim").write_text("precious")
    (runs / "first" / "notes.json").symlink_to(runs.parent / "victim")
    assert post("notes", NOTES)[0] == 200
    assert (runs.parent / "victim").read_text() == "precious"
    assert read_notes(runs / "first").note == "<b>why</b>"


def test_without_control_nothing_can_be_changed(runs, serve):
    server = serve(runs)
    assert (server.token, server.page) == ("", server.url)
    host = f"127.0.0.1:{server.server_port}"
    answer = Client(server).send(
        "/api/notes", "POST", body=b"{}", Host=host, Origin=f"http://{host}", X_Mrafno_Token="", Content_Length="2"
    )
    assert answer.status == 405
    assert Client(server).json("/api/runs")["control"] is False


def test_the_token_is_in_the_part_of_the_address_that_is_not_sent(server, runs):
    assert server.page == f"{server.url}#token={server.token}"
    assert len(server.token) >= 32
    client = Client(server)
    for address in ("/", "/api/runs", "/api/run?run=first", "/static/page.js"):
        assert server.token.encode() not in client.send(address).content


def test_a_goal_and_what_the_driver_does_are_shown(server, runs):
    status = {
        "pid": 1, "host": "here", "started": 0.0, "updated": 10.0, "goals": {"steps": 4, "budget": 28.0},
        "count": "total", "phase": "training", "since": 0.0, "done": 0.5, "note": "fit 3", "samples": [],
    }  # fmt: skip
    (runs / "first" / "status.json").write_text(json.dumps(status))
    client = Client(server)
    row = client.rows()["first"]
    assert (row["goal_steps"], row["budget"], row["share"], row["standing"]) == (4.0, 28.0, 0.25, "waiting")
    assert client.json("/api/run?run=first")["now"] is None
    with Run.open(runs / "first"):
        run = client.json("/api/run?run=first")
    assert (run["standing"], run["now"]["phase"], run["now"]["note"]) == ("running", "training", "fit 3")
    assert RunReader(runs / "first").progress(None, 0.0).share is None
