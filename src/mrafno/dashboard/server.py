"""HTTP for the dashboard, on the standard library's server: access checks, headers, compression.

Only GET and HEAD are allowed, unless the server was made with control. Then a POST must have the server's token, which
is in the address that it prints, and come from its own page: Origin and Host must be the same. Against DNS rebinding,
where another site's name resolves to 127.0.0.1, the Host header must be a name of this server. The
Content-Security-Policy allows the page to load nothing from other hosts. Connections are capped.
"""

import contextlib
import ipaddress
import secrets
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

from mrafno._version import __version__
from mrafno.dashboard.site import Answer, Site, content_type
from mrafno.errors import MrafnoError

_HEADERS = {
    # Nothing from other hosts, and no inline scripts. Inline styles are needed by plotly.js.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
#: Shorter bodies are not compressed.
_COMPRESS = 1000
#: Connections at a time, and the longest body of a POST.
_CONNECTIONS, _LONGEST = 64, 50_000
#: Name of the header with the token.
_TOKEN = "X-Mrafno-Token"


class Server(ThreadingHTTPServer):
    """Serves the page of a folder's runs, one thread per connection.

    Args:
        folder: where the runs are, at any depth.
        host: the address to listen on; one that other machines can reach gives them access without a password.
        port: 0 for any free one.
        control: allow whoever has the token to pause and stop runs, and to write notes.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 8765, *, control: bool = False) -> None:
        self.site = Site(folder, control=control)
        self.token = secrets.token_urlsafe(24) if control else ""
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        self.host = host
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise MrafnoError(
                f"dashboard: cannot listen on {host}, port {port} ({error}). Choose another with --port, or 0 for any "
                "free one."
            ) from error

    def server_bind(self) -> None:
        """Bind without the reverse DNS lookup of the standard library."""
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.host, int(self.server_address[1])

    @property
    def url(self) -> str:
        """The address of the page."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "") else "::1" if self.host == "::" else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    @property
    def page(self) -> str:
        """The address for a browser; with control it has the token, in the part that browsers do not send."""
        return f"{self.url}#token={self.token}" if self.token else self.url

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return _is_loopback(str(self.server_address[0]))

    def answers_to(self, host: str) -> bool:
        """Whether a Host header names this server; the port is ignored, since tunnels change it."""
        name = _host_name(host)
        if name == "localhost" or _is_loopback(name) or name == self.host.lower():
            return True
        # A public server is addressed by IP or machine name, which no other site can use as its own name.
        return not self.local and (_is_address(name) or name in _machine_names())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a connection; one too many is closed with a short answer."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.settimeout(1)
            request.sendall(b"HTTP/1.1 503 Too many connections\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, in its own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def warm_up(self) -> None:
        """Import plotly and torch in the background, which takes seconds."""

        def load() -> None:
            for module in ("mrafno.report.page", "mrafno.surrogate"):
                import_module(module)

        threading.Thread(target=load, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect; print other errors on one line."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"dashboard: {type(error).__name__}: {error}", file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = f"mrafno/{__version__}"
    sys_version = ""
    timeout = 30
    #: Buffer headers and body into one packet, and do not delay small packets.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Respond to a request."""
        if not self.server.answers_to(self.headers.get("Host", "")):
            self._refuse(403, "Unknown host name. Use the address that the server printed.")
        elif self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self._refuse(400, "A request must not have a body.")
        else:
            try:
                answer = self.server.site.answer(self.path, self.headers.get("If-None-Match"))
            except Exception as error:
                print(f"dashboard: {self.path!r}: {type(error).__name__}: {error}", file=sys.stderr)
                answer = Answer(500, "json", b'{"problem":"Internal error; see the output of the server."}')
            self._send(answer)

    def do_POST(self) -> None:
        """Act for whoever has the token, if the server was made with control."""
        host, length = self.headers.get("Host", ""), self.headers.get("Content-Length", "")
        token = self.headers.get(_TOKEN, "").encode()
        if not self.server.token:
            self._refuse(405, "Only GET and HEAD are allowed.")
        elif not self.server.answers_to(host) or self.headers.get("Origin", "") != f"http://{host}":
            self._refuse(403, "Requests must come from the page of this server.")
        elif not secrets.compare_digest(token, self.server.token.encode()):
            self._refuse(403, "Open the page by the address that the server printed, which has a token.")
        elif self.headers.get("Content-Type", "") != "application/json":
            self._refuse(400, "The request must be JSON.")
        elif not (length.isascii() and length.isdigit() and len(length) < 8 and int(length) <= _LONGEST):
            self._refuse(413, "The request is too long.")
        else:
            self._send(self.server.site.act(self.path, self.rfile.read(int(length))))

    def do_HEAD(self) -> None:
        """Respond without the body."""
        self.do_GET()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return lambda: self._refuse(405, "Only GET and HEAD are allowed.")
        raise AttributeError(name)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors of the standard library's parser, as JSON."""
        del explain
        self._refuse(int(code), message or "Invalid request.")

    def log_message(self, format: str, *args: Any) -> None:
        """No log: the page sends a request every two seconds."""

    def _refuse(self, status: int, text: str) -> None:
        # The rest of the request is not read.
        self.close_connection = True
        body = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "?" for c in text)
        self._send(Answer(status, "json", f'{{"problem":"{body}"}}'.encode()))

    def _send(self, answer: Answer) -> None:
        body = answer.body
        squeezed = len(body) > _COMPRESS and "gzip" in self.headers.get("Accept-Encoding", "").lower()
        if squeezed:
            body = answer.compressed
        self.send_response(answer.status)
        if answer.status != 304:
            self.send_header("Content-Type", content_type(answer.kind))
            self.send_header("Content-Length", str(len(body)))
            if squeezed:
                self.send_header("Content-Encoding", "gzip")
        self.send_header("Vary", "Accept-Encoding")
        self.send_header("Cache-Control", answer.keep if answer.tag else "no-store")
        if answer.tag:
            self.send_header("ETag", answer.tag)
        if answer.status == 405:
            self.send_header("Allow", "GET, HEAD")
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


def _is_address(name: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name) is not None
    return False


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)


def _machine_names() -> set[str]:
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0], f"{name.partition('.')[0]}.local"}
