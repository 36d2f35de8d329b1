"""Responses by address: caching, unknown runs and files."""

import json
from urllib.parse import quote

import pytest

from mrafno.run.reader import RunReader
from mrafno.storage.ledger import Ledger
from tests.dashboard.conftest import Client
from tests.made_runs import made_run

OUTSIDE = [
    "../outside", "first/../../outside", "./first", "first/", "/first", "first/.", "deep/../first", "link", "deep",
    "first\0", "", ".", "..", "notes.txt", "first/arrays", "FIRST",
]  # fmt: skip


def test_unchanged_responses_are_304(tmp_path, serve):
    made_run(tmp_path / "run", levels=(0,))
    client = Client(serve(tmp_path))
    query = RunReader(tmp_path / "run").state.of_kind("test")[0].id
    addresses = [
        "/api/runs", "/api/run?run=run", "/api/figures?run=run", "/api/queries?run=run",
        f"/api/example?run=run&query={query}", "/", "/static/page.js", "/api/overlay?run=run",
    ]  # fmt: skip
    tags = {address: client.send(address).headers["ETag"] for address in addresses}
    for address, tag in tags.items():
        answer = client.send(address, If_None_Match=tag)
        assert (answer.status, answer.content, answer.headers["ETag"]) == (304, b"", tag), address
    with Ledger.open(tmp_path / "run", write=True) as ledger:
        ledger.append("stopped", reason="because")
    fresh = [address for address, tag in tags.items() if client.send(address, If_None_Match=tag).status == 200]
    assert fresh == ["/api/runs", "/api/run?run=run", "/api/figures?run=run", "/api/overlay?run=run"]
    assert client.rows()["run"]["state"] == "because"


def test_a_list_counts_runs_that_were_not_read_in_time(tmp_path, serve, monkeypatch):
    for name in ("a", "b"):
        made_run(tmp_path / name)
    monkeypatch.setattr("mrafno.dashboard.site._READ_SECONDS", -1.0)
    client = Client(serve(tmp_path))
    content = client.json("/api/runs")
    assert content["unread"] == 2
    assert [(row["name"], row["task"], row["problem"]) for row in content["runs"]] == [
        ("a", None, None), ("b", None, None),
    ]  # fmt: skip
    monkeypatch.setattr("mrafno.dashboard.site._READ_SECONDS", 10.0)
    assert client.json("/api/runs")["unread"] == 0


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("what", ["run", "figures", "queries", "example"])
def test_only_listed_runs_are_shown(client, what, name):
    for coded in (quote(name, safe=""), quote(name).replace(".", "%2e"), quote(quote(name, safe=""))):
        assert client.send(f"/api/{what}?run={coded}&query=q000000").status == 404, coded


def test_absolute_paths_are_unknown_runs(client, folder):
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
def test_other_files_are_not_served(client, target):
    answer = client.send(target)
    assert answer.status == 404
    assert "problem" in json.loads(answer.content)


def test_several_runs_on_one_axis(client):
    data = client.json("/api/overlay?run=first&run=flat&run=damaged&run=none&run=first")["figure"]["data"]
    assert [(trace["name"], trace["x"], trace["y"]) for trace in data] == [
        ("first", [6.0, 17.0, 19.0], [0.4, 0.2, 0.1])
    ]
    assert client.json("/api/overlay?run=flat")["figure"] is None
    assert client.json("/api/overlay")["figure"] is None
