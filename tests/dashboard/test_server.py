"""What the server answers, to whom, and what it cannot be made to answer."""

import gzip
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from urllib.parse import quote

import numpy as np
import pytest

from mrafno.dashboard import Server
from mrafno.dashboard.views import brief
from mrafno.errors import MrafnoError
from mrafno.grids import Grid
from mrafno.plot.panels import panels
from mrafno.report.page import figure_sections
from mrafno.run.reader import RunReader
from mrafno.storage.ledger import Ledger
from tests.made_runs import made_run, made_task, real_run


class Client:
    """Sends addresses as they are, which browsers and libraries would tidy up."""

    def __init__(self, server):
        self.port = server.server_port

    def send(self, target, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        headers = {"Host": f"127.0.0.1:{self.port}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        answer.content = answer.read()
        connection.close()
        return answer

    def json(self, target):
        answer = self.send(target)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json"), answer.content
        return json.loads(answer.content)

    def rows(self):
        return {row["name"]: row for row in self.json("/api/runs")["runs"]}


def damage(ledger):
    """Change the second line."""
    content = ledger.read_bytes()
    ledger.write_bytes(content.replace(b'"kind":"inputs"', b'"kind":"Inputs"'))
    assert ledger.read_bytes() != content


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three runs that are fine, three that are not, and one next door that is nobody's business."""
    top = tmp_path_factory.mktemp("dashboard")
    runs = top / "runs"
    failures = ["<script>alert(1)</script> no convergence"]
    made_run(runs / "first", levels=(0, 1, 0, 0), errors=(0.4, 0.2, 0.1), failures=failures, stopped="finished 4 steps")
    made_run(runs / "deep" / "er" / "second", levels=(1, 1), running=True, method="mra-auto", seed=7)
    made_run(runs / "flat", levels=(0,), task=made_task(dim=2))
    made_run(runs / "damaged", levels=(0,))
    damage(runs / "damaged" / "ledger.jsonl")
    (runs / "hollow").mkdir()
    (runs / "hollow" / "ledger.jsonl").write_text("")
    with Ledger.create(runs / "nonsense", task=3, method=[], seed="x", settings={}):
        pass
    made_run(top / "outside", levels=(0, 1))
    (runs / "link").symlink_to(top / "outside")
    (runs / "notes.txt").write_text("not a run")
    return runs


@pytest.fixture
def client(serve, folder):
    return Client(serve(folder))


# What there is.


def test_runs_are_listed_with_what_they_are(client, folder):
    content = client.json("/api/runs")
    assert (content["folder"], content["unread"]) == (str(folder), 0)
    rows = {row["name"]: row for row in content["runs"]}
    assert list(rows) == ["damaged", "deep/er/second", "first", "flat", "hollow", "nonsense"]
    state = RunReader(folder / "first").state
    assert rows["first"] == {
        "name": "first", "problem": None, "task": "made", "method": "mra-uhat", "seed": 0, "state": "finished 4 steps",
        "brief": "finished 4 steps",
        "steps": 4, "cost": 13.0, "error": 0.1, "changed": state.last,
    }  # fmt: skip
    second = rows["deep/er/second"]
    assert (second["steps"], second["cost"], second["error"]) == (2, 20.0, None)
    assert second["state"] == "waiting for answers"


def test_a_driver_comes_and_is_killed(tmp_path, serve):
    """Neither writes anything into the ledger."""
    made_run(tmp_path / "run", levels=(0,), running=True)
    client = Client(serve(tmp_path))

    def seen():
        about = client.json("/api/run?run=run")
        assert about["state"] == client.rows()["run"]["state"]
        return about["state"], about["driven"]

    assert seen() == ("waiting for answers", False)
    script = (
        "import sys, time; from mrafno.storage.ledger import Ledger; l = Ledger.open(sys.argv[1], write=True); print(1)"
    )
    command = [sys.executable, "-u", "-c", f"{script}; time.sleep(60)", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
        try:
            driver.stdout.readline()
            assert seen() == ("running", True)
        finally:
            driver.kill()
    assert seen() == ("interrupted", False)


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
def test_a_long_state_is_told_briefly(state, shown):
    assert brief(state) == shown


def test_runs_that_cannot_be_read_are_listed_with_their_problem(client):
    rows = client.rows()
    assert "line 2 is damaged" in rows["damaged"]["problem"]
    assert "no whole line" in rows["hollow"]["problem"]
    assert "makes no sense" in rows["nonsense"]["problem"]
    assert rows["first"]["problem"] is None
    assert client.json("/api/run?run=damaged")["problem"] == rows["damaged"]["problem"]
    assert client.send("/api/figures?run=damaged").status == 503
    assert "makes no sense" in client.json("/api/run?run=nonsense")["problem"]
    assert client.send("/api/figures?run=nonsense").status == 503


def test_a_run_of_a_newer_format_is_listed_with_its_problem(tmp_path, serve, monkeypatch):
    monkeypatch.setattr(Ledger, "VERSION", 2)
    made_run(tmp_path / "newer")
    monkeypatch.undo()
    assert "format 2" in Client(serve(tmp_path)).rows()["newer"]["problem"]


def test_the_folder_may_be_a_run_itself(client, folder, serve):
    own = Client(serve(folder / "first"))
    assert list(own.rows()) == ["."]
    assert own.json("/api/run?run=.")["steps"] == 4


def test_key_figures_of_a_run(client):
    run = client.json("/api/run?run=deep%2Fer%2Fsecond")
    assert (run["steps"], run["cost"], run["measured"], run["fits"], run["tests"]) == (2, 20.0, None, 3, 2)
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
    assert (error["x"], error["y"]) == ([0.0, 11.0, 13.0], [0.4, 0.2, 0.1])
    assert [trace["name"] for trace in figures["queries-per-resolution"]["data"]] == ["5 points", "9 points"]
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


# Examples.


def values(trace, key):
    """Numbers of a figure, however plotly packed them."""
    found = trace[key]
    if isinstance(found, dict):
        import base64

        shape = [int(n) for n in str(found.get("shape", "-1")).split(",")]
        return np.frombuffer(base64.b64decode(found["bdata"]), np.dtype(found["dtype"])).reshape(shape)
    return np.array(found)


def test_an_example_without_a_checkpoint_has_input_and_truth(client, folder):
    example = client.json("/api/example?run=first&query=q000004")
    reader = RunReader(folder / "first")
    query = reader.state.queries["q000004"]
    assert [panel["heading"] for panel in example["panels"]] == ["input", "output: truth"]
    source, output = (panel["figure"]["data"][0] for panel in example["panels"])
    np.testing.assert_allclose(values(source, "y"), reader.input(query)[0], rtol=1e-6)
    np.testing.assert_allclose(values(output, "y"), reader.output(query)[0], rtol=1e-6)
    assert (example["before"], example["after"]) == (None, "q000005")
    assert "no checkpoint" in example["text"]


def test_an_example_in_two_dimensions_and_one_that_is_running(client, folder):
    reader = RunReader(folder / "flat")
    example = client.json("/api/example?run=flat&query=q000006")
    assert [panel["heading"] for panel in example["panels"]] == ["input", "truth"]
    field = values(example["panels"][1]["figure"]["data"][0], "z")
    # A picture's rows are the second axis.
    np.testing.assert_allclose(field.T, reader.output(reader.state.queries["q000006"])[0], rtol=1e-6)
    running = client.json("/api/example?run=deep%2Fer%2Fsecond&query=q000008")
    assert [panel["heading"] for panel in running["panels"]] == ["input"]
    assert running["status"] == "not answered"
    failed = client.json("/api/example?run=first&query=q000006")
    assert failed["reason"] == "<script>alert(1)</script> no convergence"


def test_an_example_has_mean_and_spread_of_the_checkpoint(tmp_path, tmp_path_factory, serve, monkeypatch):
    shutil.copytree(real_run(tmp_path_factory), tmp_path / "real")
    client, reader = Client(serve(tmp_path)), RunReader(tmp_path / "real")
    query = reader.state.of_kind("test")[1]
    prediction = reader.predict(reader.input(query)[None], query.level)
    calls = []
    predict = RunReader.predict
    monkeypatch.setattr(RunReader, "predict", lambda *args: calls.append(args) or predict(*args))
    address = f"/api/example?run=real&query={query.id}"
    example = client.json(address)
    panels = {panel["heading"]: panel["figure"]["data"][0] for panel in example["panels"]}
    assert list(panels) == ["input", "truth", "mean", "spread: standard deviation", "mean minus truth"]
    np.testing.assert_allclose(values(panels["mean"], "z").T, prediction.mean[0, 0], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(values(panels["spread: standard deviation"], "z").T, prediction.std[0, 0], rtol=1e-5)
    truth = reader.output(query)
    error = np.linalg.norm(prediction.mean[0] - truth) / np.linalg.norm(truth)
    assert f"Relative L2 error {error:.4g}." in example["text"]
    # Once for a checkpoint, and again when there is another one.
    assert client.json(address) == example
    assert len(calls) == 1
    os.utime(tmp_path / "real" / "surrogate" / "surrogate.json")
    assert client.json(address) == example
    assert len(calls) == 2


def test_of_several_channels_any_can_be_seen_and_else_the_last(client, monkeypatch):
    monkeypatch.setattr(RunReader, "input", lambda self, query: np.outer([1.0, 2.0, 3.0], np.arange(9.0)))
    for asked, shown in {"": 2, "&channel=0": 0, "&channel=1": 1, "&channel=7": 2, "&channel=x": 2}.items():
        example = client.json(f"/api/example?run=first&query=q000005{asked}")
        assert (example["channel"], example["channels"]) == (shown, 3)
        np.testing.assert_array_equal(
            values(example["panels"][0]["figure"]["data"][0], "y"), (shown + 1) * np.arange(9)
        )


def test_names_of_axes_are_text():
    (_, figure), *rest = panels(Grid((3,), ("nodes",)), np.arange(3.0), None, None, None, ["<b>x</b>"])
    assert rest == []
    assert figure.layout.xaxis.title.text == "&lt;b&gt;x&lt;/b&gt;"


def test_an_unknown_query_is_not_found(client):
    assert client.send("/api/example?run=first&query=q999999").status == 404
    assert client.send("/api/example?run=first&query=../../x").status == 404
    assert client.send("/api/example?run=first").status == 404


# While runs advance.


def test_nothing_new_is_304_until_there_is(tmp_path, serve):
    made_run(tmp_path / "run", levels=(0,))
    client = Client(serve(tmp_path))
    query = RunReader(tmp_path / "run").state.of_kind("test")[0].id
    addresses = [
        "/api/runs", "/api/run?run=run", "/api/figures?run=run", "/api/queries?run=run",
        f"/api/example?run=run&query={query}", "/", "/static/dashboard.js",
    ]  # fmt: skip
    tags = {address: client.send(address).headers["ETag"] for address in addresses}
    for address, tag in tags.items():
        answer = client.send(address, If_None_Match=tag)
        assert (answer.status, answer.content, answer.headers["ETag"]) == (304, b"", tag), address
    with Ledger.open(tmp_path / "run", write=True) as ledger:
        ledger.append("stopped", reason="because")
    fresh = [address for address, tag in tags.items() if client.send(address, If_None_Match=tag).status == 200]
    assert fresh == ["/api/runs", "/api/run?run=run", "/api/figures?run=run"]
    assert client.rows()["run"]["state"] == "because"


def test_a_ledger_is_not_read_again_from_its_beginning(tmp_path, serve, monkeypatch):
    made_run(tmp_path / "run", levels=(0,))
    client = Client(serve(tmp_path))
    client.rows()
    opened = []
    monkeypatch.setattr(Ledger, "open", lambda *args, **how: opened.append(args))
    client.rows()
    client.json("/api/run?run=run")
    assert opened == []


def test_runs_come_and_go(tmp_path, serve):
    client = Client(serve(tmp_path))
    assert client.rows() == {}
    made_run(tmp_path / "group" / "new", levels=(0,))
    assert client.rows()["group/new"]["steps"] == 1
    shutil.rmtree(tmp_path / "group")
    assert client.rows() == {}
    assert client.send("/api/run?run=group%2Fnew").status == 404


def test_a_run_that_is_mended_is_read_again(tmp_path, serve):
    ledger = made_run(tmp_path / "run", levels=(0,)) / "ledger.jsonl"
    whole = ledger.read_bytes()
    damage(ledger)
    client = Client(serve(tmp_path))
    assert client.rows()["run"]["problem"]
    ledger.write_bytes(whole)
    assert (client.rows()["run"]["problem"], client.rows()["run"]["steps"]) == (None, 1)


def test_a_line_that_is_being_written_is_no_problem(tmp_path, serve):
    ledger = made_run(tmp_path / "run", levels=(0,)) / "ledger.jsonl"
    with ledger.open("ab") as file:
        file.write(b'{"v":1,"n":')
    row = Client(serve(tmp_path)).rows()["run"]
    assert (row["problem"], row["steps"]) == (None, 1)


def test_nobody_waits_for_a_prediction_or_for_a_run_that_is_read(folder, serve):
    """What takes long is held up here, and everything else is answered all the same."""
    server = serve(folder)
    client = Client(server)
    client.rows()
    run = server.site.runs.get("first")
    with run.predicting:
        example = threading.Thread(target=client.send, args=("/api/example?run=first&query=q000004",))
        example.start()
        assert client.json("/api/run?run=first")["steps"] == 4
        assert client.send("/api/figures?run=first").status == 200
        assert client.rows()["first"]["steps"] == 4
        assert example.is_alive()
    example.join()
    with run.reading():
        os.utime(folder / "first" / "ledger.jsonl")
        content = client.json("/api/runs")
        assert content["unread"] == 1
        assert {row["name"]: row["steps"] for row in content["runs"]}["first"] == 4
    assert client.json("/api/runs")["unread"] == 0


def test_a_list_says_what_it_had_no_time_for(tmp_path, serve, monkeypatch):
    for name in ("a", "b"):
        made_run(tmp_path / name)
    monkeypatch.setattr("mrafno.dashboard.site._READING", -1.0)
    client = Client(serve(tmp_path))
    content = client.json("/api/runs")
    assert content["unread"] == 2
    assert [(row["name"], row["task"], row["problem"]) for row in content["runs"]] == [
        ("a", None, None), ("b", None, None),
    ]  # fmt: skip
    monkeypatch.setattr("mrafno.dashboard.site._READING", 10.0)
    assert client.json("/api/runs")["unread"] == 0


# What it cannot be made to do.

OUTSIDE = [
    "../outside", "first/../../outside", "./first", "first/", "/first", "first/.", "deep/../first", "link", "deep",
    "first\0", "", ".", "..", "notes.txt", "first/arrays", "FIRST",
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("what", ["run", "figures", "queries", "example"])
def test_only_listed_runs_are_shown(client, what, name):
    for coded in (quote(name, safe=""), quote(name).replace(".", "%2e"), quote(quote(name, safe=""))):
        assert client.send(f"/api/{what}?run={coded}&query=q000000").status == 404, coded


def test_paths_of_the_machine_are_no_names(client, folder):
    for path in (folder / "first", folder.parent / "outside", "/etc/passwd", "file:///etc/passwd"):
        assert client.send(f"/api/run?run={quote(str(path))}").status == 404


@pytest.mark.parametrize(
    "target",
    [
        "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "//etc/passwd", "/..%2f..%2fetc/passwd",
        "/static/../site.py", "/static/%2e%2e/site.py", "/static/..%2fsite.py", "/static/..%5csite.py", "/static/",
        "/static//etc/passwd", "/static/index.html%00", "/static/site.py", "/static", "/notes.txt",
        "/first/ledger.jsonl", "/api", "/api/", "/api/run/first", "/api/../api/none", "http://other.example/etc/passwd",
        "http://127.0.0.1/etc/passwd", "*", "/favicon.ico",
    ],
)  # fmt: skip
def test_no_other_file_is_sent(client, target):
    answer = client.send(target)
    assert answer.status == 404
    assert "problem" in json.loads(answer.content)


def test_links_are_not_followed(tmp_path, folder, tmp_path_factory, serve):
    """Whether they stand for a run, its ledger, its arrays or its checkpoint."""
    outside = folder.parent / "outside"
    runs = tmp_path / "runs"
    made_run(runs / "arrays", levels=(0,))
    shutil.move(runs / "arrays" / "arrays", tmp_path / "elsewhere")
    (runs / "arrays" / "arrays").symlink_to(tmp_path / "elsewhere")
    (runs / "ledger").mkdir()
    (runs / "ledger" / "ledger.jsonl").symlink_to(outside / "ledger.jsonl")
    real = real_run(tmp_path_factory)
    shutil.copytree(real, runs / "whole")
    shutil.copytree(real, runs / "inside")
    shutil.rmtree(runs / "whole" / "surrogate")
    (runs / "whole" / "surrogate").symlink_to(real / "surrogate")
    for file in (runs / "inside" / "surrogate").iterdir():
        file.unlink()
        file.symlink_to(real / "surrogate" / file.name)
    client = Client(serve(runs))
    assert "symbolic link" in client.rows()["ledger"]["problem"]
    assert client.rows()["ledger"]["task"] is None
    answer = client.send("/api/example?run=arrays&query=q000000")
    assert (answer.status, "symbolic link" in json.loads(answer.content)["problem"]) == (503, True)
    for name in ("whole", "inside"):
        example = client.json(f"/api/example?run={name}&query=q000000")
        assert [panel["heading"] for panel in example["panels"]] == ["input", "truth"]
        assert "symbolic links" in example["text"]


def test_a_run_that_became_a_link_is_gone(tmp_path, folder, serve, monkeypatch):
    made_run(tmp_path / "run", levels=(0,))
    monkeypatch.setattr("mrafno.dashboard.runs._PAUSE", 1000.0)
    client = Client(serve(tmp_path))
    assert client.json("/api/run?run=run")["steps"] == 1
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").symlink_to(folder.parent / "outside")
    assert client.send("/api/run?run=run").status == 404
    assert client.rows()["run"]["steps"] is None


def test_a_pipe_in_the_place_of_a_ledger_keeps_nobody_waiting(tmp_path, serve):
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / "ledger.jsonl")
    assert "no regular file" in Client(serve(tmp_path)).rows()["run"]["problem"]


def test_runs_are_not_looked_for_in_hidden_or_very_deep_folders_nor_inside_runs(tmp_path, serve):
    made_run(tmp_path / "a" / "b" / "c" / "d" / "e")
    shutil.copytree(tmp_path / "a" / "b" / "c" / "d" / "e", tmp_path / "1" / "2" / "3" / "4" / "5" / "6")
    shutil.copytree(tmp_path / "a" / "b" / "c" / "d" / "e", tmp_path / ".hidden")
    shutil.copytree(tmp_path / ".hidden", tmp_path / "a" / "b" / "c" / "d" / "e" / "spool" / "inside")
    assert list(Client(serve(tmp_path)).rows()) == ["a/b/c/d/e"]


def test_names_of_any_bytes_are_listed_and_found(tmp_path, serve):
    made_run(tmp_path / "run", levels=(0,))
    names = ["späce & <b>?#%2e", "back\\slash"]
    for name in names:
        shutil.copytree(tmp_path / "run", tmp_path / name)
    shutil.copytree(tmp_path / "run", tmp_path / os.fsdecode(b"\xff"))
    client = Client(serve(tmp_path))
    assert set(client.rows()) == {"run", "\\xff", *names}
    for name in client.rows():
        assert client.json(f"/api/run?run={quote(name, safe='')}")["steps"] == 1


def test_nothing_is_written(tmp_path, serve, tmp_path_factory):
    shutil.copytree(real_run(tmp_path_factory), tmp_path / "real")

    def everything():
        return {p: (p.lstat().st_mtime_ns, p.lstat().st_size) for p in [tmp_path, *tmp_path.rglob("*")]}

    before, client = everything(), Client(serve(tmp_path))
    client.rows()
    for what in ("run", "figures", "queries", "example"):
        assert client.send(f"/api/{what}?run=real&query=q000000").status == 200
    assert everything() == before


# Who may ask, and how.


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1", "127.0.0.1:9999", "[::1]:8765", "127.0.0.2"])
def test_its_own_names_are_answered(client, host):
    assert client.send("/api/runs", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.0.7", "",
        None, "127.0.0.1@evil.example", "[::2]", "0.0.0.0",
    ],
)  # fmt: skip
def test_other_names_are_refused(client, host):
    """A page of another site may have its own name point here."""
    answer = client.send("/api/runs", Host=host)
    assert answer.status == 403
    assert b"first" not in answer.content


def test_whoever_listens_to_others_answers_to_addresses_and_its_own_name(folder, serve):
    server = serve(folder, host="0.0.0.0")
    assert not server.local
    assert server.url == f"http://127.0.0.1:{server.server_port}/"
    assert all(map(server.answers_to, ["192.168.0.7:80", "[fe80::1]", socket.gethostname(), "localhost"]))
    assert not any(map(server.answers_to, ["evil.example", "", "1.2.3.4.evil.example"]))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_only_get_and_head(client, method):
    answer = client.send("/api/runs", method, body=b"x" * 10, Content_Length="10")
    assert (answer.status, answer.headers["Allow"], answer.headers["Connection"]) == (405, "GET, HEAD", "close")


def test_a_body_is_refused(client):
    assert client.send("/api/runs", body=b"x" * 10, Content_Length="10").status == 400
    assert client.send("/api/runs", Transfer_Encoding="chunked", body=b"0\r\n\r\n").status == 400


def test_head_is_get_without_a_body(client):
    get, head = client.send("/api/runs"), client.send("/api/runs", "HEAD")
    assert (head.status, head.content) == (200, b"")
    assert head.headers["Content-Length"] == get.headers["Content-Length"] == str(len(get.content))


def test_what_is_no_request_is_refused(client):
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert connection.recv(1000) == b'{"problem":"Bad request syntax (\'nonsense\')"}'
    assert client.send("/" + "x" * 70000).status == 414
    assert client.send("http://[/").status == 400
    assert client.send("/api/run?" + "&".join(f"a{i}=1" for i in range(50))).status == 400
    assert client.send("/api/runs").status == 200


@pytest.mark.parametrize("target", ["/", "/api/runs", "/static/dashboard.js", "/none", "/api/run?run=first"])
def test_browsers_are_told_to_load_nothing_from_elsewhere(client, target):
    headers = client.send(target).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert {word for part in policy.values() for word in part.split()} <= {
        "'none'",
        "'self'",
        "'unsafe-inline'",
        "data:",
    }
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Python" not in headers["Server"]


def test_the_page_and_its_files_name_no_other_host(client):
    for target in ("/", "/static/dashboard.js", "/static/dashboard.css"):
        answer = client.send(target)
        assert answer.status == 200
        assert not re.findall(rb"(?:https?:|[\"'(])//", answer.content)


def test_plotly_is_the_installed_one_kept_and_compressed(client):
    from plotly.offline import get_plotlyjs

    answer = client.send("/static/plotly.js", Accept_Encoding="gzip, br")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Cache-Control"] == "max-age=86400"
    assert gzip.decompress(answer.content) == get_plotlyjs().encode()
    plain = client.send("/api/figures?run=first")
    assert plain.headers["Content-Encoding"] is None
    small = client.send("/api/figures?run=first", Accept_Encoding="gzip")
    assert gzip.decompress(small.content) == plain.content
    assert len(small.content) < len(plain.content) / 3


def test_a_mistake_of_ours_ends_one_answer_and_not_the_server(client, monkeypatch, capsys):
    def broken(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("mrafno.dashboard.site.Site._list", broken)
    answer = client.send("/api/runs")
    assert (answer.status, b"secret" in answer.content) == (500, False)
    assert "ZeroDivisionError: secret" in capsys.readouterr().err
    assert client.send("/api/run?run=first").status == 200


def test_what_cannot_be_served_is_said(tmp_path, folder, serve):
    with pytest.raises(MrafnoError, match="is no folder"):
        Server(tmp_path / "none")
    taken = serve(folder).server_port
    with pytest.raises(MrafnoError, match=f"port {taken}.*--port"):
        Server(folder, port=taken)


def test_many_ask_at_once(client):
    """Threads that ask for everything, all at the same time, and all get the same."""
    addresses = ["/api/runs", "/api/run?run=first", "/api/figures?run=first", "/api/queries?run=first"]
    got = {address: [] for address in addresses}

    def ask(address):
        got[address].append(client.send(address).content)

    threads = [threading.Thread(target=ask, args=(address,)) for address in addresses * 5]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for address, bodies in got.items():
        # A list may have come while somebody else was reading a run.
        assert len(bodies) == 5
        if address != "/api/runs":
            assert len(set(bodies)) == 1, address
