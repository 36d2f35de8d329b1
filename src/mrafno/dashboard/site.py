"""Responses by address; only runs that were found and the files of the page are served.

==============================  =====================================================================
``/``                           the page
``/static/NAME``                its files, and those that draw figures
``/api/runs``                   the list
``/api/overlay?run=A&run=B``    a figure of the errors of several runs
``/api/run?run=NAME``           key figures of a run, running queries, settings
``/api/figures?run=NAME``       the report's figures
``/api/queries?run=NAME``       a page of its queries; also ``kind``, ``status``, ``order`` and ``page``
``/api/map?run=NAME``           the map of its inputs
``/api/example?run=NAME``       one input, ``query=ID`` or ``input=ROW``; also ``channel`` and ``at``
``/api/control``  (POST)        a request to a run's driver: ``run``, and ``request``
``/api/notes``    (POST)        a person's note of a run: ``run``, ``note``, ``tags``
==============================  =====================================================================

POST is for a dashboard that was started with control, and for whoever has its token; see :mod:`.server`.
"""

import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from gzip import compress
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mrafno.dashboard.examples import Examples
from mrafno.dashboard.maps import Maps
from mrafno.dashboard.runs import Runs, Version, WatchedRun
from mrafno.dashboard.views import blank_row, figures, overlay, overview, queries
from mrafno.errors import MrafnoError
from mrafno.plot.bundle import figures_js, plotly_js
from mrafno.run.control import ask_driver
from mrafno.run.notes import write_notes
from mrafno.run.reader import RunReader

#: Seconds that a request of the list spends on reading new events; the rest is read by the next one.
_READ_SECONDS = 0.05
#: Most runs on one axis.
_OVERLAID = 20
#: Runs whose figures are cached.
_FIGURES_KEPT = 16
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
}
#: Clients revalidate a cached response by its ETag.
_REVALIDATE = "no-cache"


@dataclass(frozen=True)
class Answer:
    """A response.

    Attributes:
        tag: the ETag, which changes with the body; without one the response is not cached.
    """

    status: int
    kind: str
    body: bytes
    tag: str | None = None
    keep: str = _REVALIDATE

    @cached_property
    def compressed(self) -> bytes:
        """The body, compressed with gzip."""
        return compress(self.body, 5, mtime=0)


class Site:
    """All responses of the dashboard.

    Args:
        folder: where the runs are.
        control: whether runs can be paused and stopped, and notes written.
    """

    def __init__(self, folder: Path, *, control: bool = False) -> None:
        self.runs, self.control = Runs(folder), control
        self._examples, self._maps = Examples(), Maps()
        # The tags of another server for the same files must differ, since its responses may.
        self._salt = secrets.token_hex(4)
        self._figures: dict[str, tuple[Version, bytes]] = {}

    def answer(self, target: str, known: str | None = None) -> Answer:
        """The response for an address.

        Args:
            target: path and query of the request.
            known: the tag of the client's cached response; if it is current the response is 304, without a body.
        """
        try:
            parts = urlsplit(target)
            given = parse_qs(parts.query, max_num_fields=2 * _OVERLAID)
        except ValueError:
            return _problem(400, "Invalid address.")
        path = parts.path if not (parts.scheme or parts.netloc) else ""
        try:
            return self._answer(path, given, known)
        except MrafnoError as error:
            return _problem(503, str(error))

    def _answer(self, path: str, given: dict[str, list[str]], known: str | None) -> Answer:
        asked = {key: values[-1] for key, values in given.items()}
        if path == "/":
            return _known(page_file("index.html"), known)
        if path.startswith("/static/"):
            name = unquote(path.removeprefix("/static/"))
            found = page_file(name) if name in STATIC else None
            return _known(found, known) if found else _problem(404, "Unknown file.")
        if path == "/api/runs":
            return self._list(known)
        if path == "/api/overlay":
            return self._overlay(given.get("run", []), known)
        view = self._views.get(path)
        if view is None:
            return _problem(404, "Unknown address.")
        run = self.runs.get(asked.get("run", ""))
        if run is None:
            return _problem(404, "Unknown run.")
        return view(run, asked, known)

    @property
    def _views(self) -> dict[str, Callable[[WatchedRun, dict[str, str], str | None], Answer]]:
        return {
            "/api/run": self._run,
            "/api/figures": self._figures_view,
            "/api/queries": self._queries,
            "/api/example": self._example,
            "/api/map": self._map,
        }

    def _list(self, known: str | None) -> Answer:
        until = time.monotonic() + _READ_SECONDS
        rows = [run.row(read=time.monotonic() < until) for run in self.runs.all()]
        content = {
            "folder": str(self.runs.folder),
            "runs": [row for row, _ in rows],
            "unread": sum(not current for _, current in rows),
            "control": self.control,
        }
        body = _encoded(content)
        return _known(Answer(200, "json", body, self._tag(body)), known)

    def _run(self, run: WatchedRun, asked: dict[str, str], known: str | None) -> Answer:
        del asked
        tag = self._tag("run", run.standpoint)
        if tag == known:
            return Answer(304, "json", b"", tag)
        try:
            with run.reading() as reader:
                content = overview(run.name, reader)
        except MrafnoError as error:
            content = {**blank_row(run.name, str(error))}
        return Answer(200, "json", _encoded({**content, "control": self.control}), tag)

    def _overlay(self, names: list[str], known: str | None) -> Answer:
        found = [run for name in dict.fromkeys(names[:_OVERLAID]) if (run := self.runs.get(name)) is not None]
        tag = self._tag("overlay", [(run.name, run.version) for run in found])
        if tag == known:
            return Answer(304, "json", b"", tag)
        with contextlib.ExitStack() as stack:
            # Always in the same order, so that two requests cannot wait for each other.
            readers = {run.name: _readable(run, stack) for run in sorted(found, key=lambda run: run.name)}
            shown = {run.name: reader for run in found if (reader := readers[run.name]) is not None}
            figure = overlay(shown)
        return Answer(200, "json", _encoded({"figure": figure}), tag)

    def act(self, target: str, body: bytes) -> Answer:
        """The response to a POST from whoever may control the runs."""
        try:
            values = json.loads(body)
            run = self.runs.get(str(values["run"]))
            if run is None:
                return _problem(404, "Unknown run.")
            if target == "/api/control":
                ask_driver(run.folder, str(values["request"]))
            elif target == "/api/notes":
                write_notes(run.folder, values["note"], values["tags"])
            else:
                return _problem(404, "Unknown address.")
        except MrafnoError as error:
            return _problem(409, str(error))
        except (ValueError, KeyError, TypeError, RecursionError):
            return _problem(400, "The request makes no sense.")
        except OSError as error:
            return _problem(503, f"The run's folder cannot be written to ({error.strerror}).")
        return Answer(200, "json", b"{}")

    def _figures_view(self, run: WatchedRun, asked: dict[str, str], known: str | None) -> Answer:
        del asked
        version = run.version
        tag = self._tag("figures", version)
        if tag == known:
            return Answer(304, "json", b"", tag)
        with run.reading() as reader:
            # Another thread may have drawn them while this one waited.
            kept = self._figures.pop(run.name, None)
            if kept is None or kept[0] != version:
                kept = version, _encoded(figures(reader))
            self._figures[run.name] = kept
        while len(self._figures) > _FIGURES_KEPT:
            self._figures.pop(next(iter(self._figures)), None)
        return Answer(200, "json", kept[1], tag)

    def _queries(self, run: WatchedRun, asked: dict[str, str], known: str | None) -> Answer:
        page = asked.get("page", "0")
        if not (page.isascii() and page.isdigit() and len(page) < 10):
            return _problem(400, "page must be a number.")
        with run.reading() as reader:
            chosen = {name: asked.get(name, "") for name in ("kind", "status", "order")}
            content = queries(reader, **chosen, page=int(page))
        body = _encoded(content)
        return _known(Answer(200, "json", body, self._tag(body)), known)

    def _example(self, run: WatchedRun, asked: dict[str, str], known: str | None) -> Answer:
        number, at = _whole(asked.get("channel", "")), [_whole(place) for place in asked.get("at", "").split(",")[:8]]
        of: str | int = _whole(asked["input"]) if "input" in asked else asked.get("query", "")
        tag = self._tag("example", of, number, at, self._examples.version(run, of))
        if tag == known:
            return Answer(304, "json", b"", tag)
        content = self._examples.get(run, of, number, at)
        if content is None:
            return _problem(404, "Unknown input." if "input" in asked else "Unknown query.")
        return Answer(200, "json", _encoded(content), tag)

    def _map(self, run: WatchedRun, asked: dict[str, str], known: str | None) -> Answer:
        del asked
        tag = self._tag("map", self._maps.version(run))
        if tag == known:
            return Answer(304, "json", b"", tag)
        return Answer(200, "json", _encoded({"card": self._maps.get(run)}), tag)

    def _tag(self, *parts: object) -> str:
        return f'"{hashlib.sha256(repr((self._salt, parts)).encode()).hexdigest()[:20]}"'


#: Files of the page.
STATIC = ("dashboard.css", "page.js", "list.js", "run.js", "input.js", "start.js", "figures.js", "plotly.js")


@cache
def page_file(name: str) -> Answer:
    """A file of the page."""
    drawing = {"plotly.js": plotly_js, "figures.js": figures_js}
    # Plotly.js is large, and changes with the installed package only.
    keep = "max-age=86400" if name == "plotly.js" else _REVALIDATE
    body = drawing[name]() if name in drawing else (files("mrafno.dashboard") / "static" / name).read_bytes()
    return Answer(200, name.rpartition(".")[2], body, f'"{hashlib.sha256(body).hexdigest()[:20]}"', keep)


def content_type(kind: str) -> str:
    """The Content-Type header of a kind of file."""
    return _TYPES[kind]


def _readable(run: WatchedRun, stack: contextlib.ExitStack) -> RunReader | None:
    """The run's reader until the stack is left; None if it cannot be read."""
    try:
        return stack.enter_context(run.reading())
    except MrafnoError:
        return None


def _known(answer: Answer, known: str | None) -> Answer:
    return Answer(304, answer.kind, b"", answer.tag, answer.keep) if answer.tag == known else answer


def _problem(status: int, text: str) -> Answer:
    return Answer(status, "json", _encoded({"problem": text}))


def _whole(text: str) -> int:
    """A whole number of an address; -1 for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1


def _encoded(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
