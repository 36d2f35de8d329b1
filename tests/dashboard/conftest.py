"""Servers on this machine with a client, runs to serve, and a browser."""

import contextlib
import http.client
import json
import threading

import pytest

from mrafno.dashboard import Server
from mrafno.storage.ledger import Ledger
from tests.browser import ARGUMENTS, MISSING, find_chromium
from tests.made_runs import made_run, made_task


@contextlib.contextmanager
def served(folder, **settings):
    with Server(folder, **{"port": 0, **settings}) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch):
    """New runs are looked for at every request."""
    monkeypatch.setattr("mrafno.dashboard.runs._SEARCH_SECONDS", 0.0)
    monkeypatch.setattr("mrafno.dashboard.runs._SEARCH_SHARE", 0.0)


@pytest.fixture
def serve():
    """A function that serves a folder until the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda folder, **settings: stack.enter_context(served(folder, **settings))


@pytest.fixture(scope="module")
def chromium():
    """A browser; while Playwright is there, nothing else in this thread can have an event loop."""
    path = find_chromium()
    if path is None:
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, serve):
    """A function that opens the page of a folder; at the end, it had no errors and sent no request to another host."""
    contexts, wrong = [], []

    def opened(folder, address="", *, control=False, **settings):
        server = serve(folder, control=control)
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # a machine may be busy
        page.on("console", lambda message: wrong.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith((server.url, "data:", f"blob:{server.url}")) else wrong.append(r.url),
        )
        page.goto(server.url + address + (f"#token={server.token}" if control else ""))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


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

    def try_send(self, target):
        """The status; None if there was no answer."""
        try:
            return self.send(target).status
        except (http.client.HTTPException, OSError):
            return None

    def json(self, target):
        answer = self.send(target)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json"), answer.content
        return json.loads(answer.content)

    def rows(self):
        """Rows by name; asks again until all runs were read, as the page does."""
        while (content := self.json("/api/runs"))["unread"]:
            pass
        return {row["name"]: row for row in content["runs"]}


def damage(ledger):
    """Change the second line."""
    content = ledger.read_bytes()
    ledger.write_bytes(content.replace(b'"kind":"inputs"', b'"kind":"Inputs"'))
    assert ledger.read_bytes() != content


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three readable runs, three that cannot be read, and one outside of the folder."""
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
