"""Servers on this machine, and a browser."""

import contextlib
import threading

import pytest

from mrafno.dashboard import Server
from tests.browser import ARGUMENTS, MISSING, find_chromium


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
    monkeypatch.setattr("mrafno.dashboard.runs._PAUSE", 0.0)
    monkeypatch.setattr("mrafno.dashboard.runs._SHARE", 0.0)


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
