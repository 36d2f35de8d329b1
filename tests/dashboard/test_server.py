"""HTTP: access checks, methods, headers and concurrent clients."""

import contextlib
import gzip
import re
import socket
import threading
import time

import pytest

from mrafno.dashboard import Server
from mrafno.dashboard.site import STATIC
from mrafno.errors import MrafnoError
from mrafno.plot.bundle import plotly_js
from mrafno.storage.checksum import seal
from tests.dashboard.conftest import Client
from tests.made_runs import made_run


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1", "127.0.0.1:9999", "[::1]:8765", "127.0.0.2"])
def test_own_host_names_are_accepted(client, host):
    assert client.send("/api/runs", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.0.7", "",
        None, "127.0.0.1@evil.example", "[::2]", "0.0.0.0",
    ],
)  # fmt: skip
def test_other_host_names_are_refused(client, host):
    """A page of another site may have its own name point here."""
    answer = client.send("/api/runs", Host=host)
    assert answer.status == 403
    assert b"first" not in answer.content


def test_a_public_server_accepts_addresses_and_the_machine_name(folder, serve):
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


def test_invalid_requests_are_refused(client):
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert connection.recv(1000) == b'{"problem":"Bad request syntax (\'nonsense\')"}'
    assert client.send("/" + "x" * 70000).status == 414
    assert client.send("http://[/").status == 400
    assert client.send("/api/run?" + "&".join(f"a{i}=1" for i in range(50))).status == 400
    assert client.send("/api/runs").status == 200


@pytest.mark.parametrize("target", ["/", "/api/runs", "/static/page.js", "/none", "/api/run?run=first"])
def test_security_headers(client, target):
    headers = client.send(target).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert {word for part in policy.values() for word in part.split()} <= {
        "'none'",
        "'self'",
        "'unsafe-inline'",
        "data:",
        "blob:",
    }
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Python" not in headers["Server"]


def test_the_page_and_its_files_name_no_other_host(client):
    for target in ("/", *(f"/static/{name}" for name in STATIC if name != "plotly.js")):
        answer = client.send(target)
        assert answer.status == 200
        # The namespace of SVG is a name, and nothing is loaded from it.
        content = answer.content.replace(b"http://www.w3.org/2000/svg", b"")
        assert not re.findall(rb"(?:https?:|[\"'(])//", content)


def test_plotly_is_cached_and_compressed(client):
    answer = client.send("/static/plotly.js", Accept_Encoding="gzip, br")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Cache-Control"] == "max-age=86400"
    assert gzip.decompress(answer.content) == plotly_js()
    plain = client.send("/api/figures?run=first")
    assert plain.headers["Content-Encoding"] is None
    small = client.send("/api/figures?run=first", Accept_Encoding="gzip")
    assert gzip.decompress(small.content) == plain.content
    assert len(small.content) < len(plain.content) / 3


def test_an_unexpected_error_is_500(client, monkeypatch, capsys):
    def broken(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("mrafno.dashboard.site.Site._list", broken)
    answer = client.send("/api/runs")
    assert (answer.status, b"secret" in answer.content) == (500, False)
    assert "ZeroDivisionError: secret" in capsys.readouterr().err
    assert client.send("/api/run?run=first").status == 200


def test_invalid_folders_and_ports(tmp_path, folder, serve):
    with pytest.raises(MrafnoError, match="is not a folder"):
        Server(tmp_path / "none")
    taken = serve(folder).server_port
    with pytest.raises(MrafnoError, match=f"port {taken}.*--port"):
        Server(folder, port=taken)


def test_connections_are_capped(folder, serve, monkeypatch):
    monkeypatch.setattr("mrafno.dashboard.server._CONNECTIONS", 3)
    server = serve(folder)
    request = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port))) for _ in range(3)]
        for connection in held:
            connection.sendall(request)
            assert connection.recv(12) == b"HTTP/1.1 200"
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as late:
            assert late.recv(100).startswith(b"HTTP/1.1 503 Too many connections")
    for _ in range(100):
        if Client(server).try_send("/api/runs") == 200:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("closed connections were not given back")


def test_concurrent_requests(client):
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
        # A list may have been sent while another thread was reading a run.
        assert len(bodies) == 5
        if address != "/api/runs":
            assert len(set(bodies)) == 1, address


@pytest.mark.parametrize("cost", [b"NaN", b"1e999", b"-1.0"])
def test_a_cost_that_is_no_number_is_a_damaged_run_and_no_error_of_the_server(tmp_path, serve, cost):
    """Every checksum is right: the ledger is of somebody else's making."""
    ledger = made_run(tmp_path / "run", levels=(0, 0)) / "ledger.jsonl"
    lines, after = [], b"0" * 16
    for line in ledger.read_bytes().splitlines():
        text = line[: line.index(b',"sum":')].replace(b'"cost":1.0', b'"cost":' + cost)
        lines.append(seal(text[:-17] + after + b'"}', "sum", separators=(",", ":")))
        after = lines[-1][-18:-2]
    ledger.write_bytes(b"\n".join(lines) + b"\n")
    client = Client(serve(tmp_path))
    assert "ledger" in client.rows()["run"]["problem"]
    for view in ("run", "figures", "queries"):
        answer = client.send(f"/api/{view}?run=run")
        assert answer.status in (200, 503)
        assert b"ledger" in answer.content
