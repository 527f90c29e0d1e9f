"""The server of a followed run: one page behind a secret, for this machine only, and nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from insitu.verbs.loopback import ADDRESS, LoopbackServer


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A server that answers with fixed texts."""
    found = LoopbackServer(lambda: "<p>the page</p>", lambda after: f"after {after}")
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join(10)


def asked(
    server: LoopbackServer, path: str, *, method: str = "GET", host: str | None = None
) -> tuple[int, str, dict[str, str]]:
    connection = HTTPConnection(ADDRESS, server.server_port, timeout=10)
    headers = {} if host is None else {"Host": host}
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    try:
        return response.status, response.read().decode(), {name.lower(): text for name, text in response.getheaders()}
    finally:
        connection.close()


def test_the_page_and_its_changes_are_below_the_secret(server: LoopbackServer) -> None:
    assert server.address == f"http://127.0.0.1:{server.server_port}/{server.token}/" and len(server.token) >= 43
    status, text, headers = asked(server, f"/{server.token}/")
    assert (status, text) == (200, "<p>the page</p>") and headers["content-type"] == "text/html; charset=utf-8"
    status, text, headers = asked(server, f"/{server.token}/points?after=7")
    assert (status, text) == (200, "after 7") and headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer" and headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/TOKE/", "/TOKEN", "/TOKENx/", "/x/TOKEN/", "/TOKEN/..", "/TOKEN/index.html", "/%/", "//["),
        *("/TOKEN/points", "/TOKEN/points?after=", "/TOKEN/points?after=-1", "/TOKEN/points?after=1e3"),
        *("/TOKEN/points?after=" + "9" * 5000, "/TOKEN/points?after=%C2%B2", "/TOKEN/../TOKEN/", "*", "/%C3%A9/"),
    ],
)
def test_every_other_path_is_not_found(server: LoopbackServer, path: str) -> None:
    target = path.replace("TOKEN", server.token).replace("TOKE/", server.token[:-1] + "/")
    status, text, _ = asked(server, target)
    assert (status, text) == (404, "not found\n")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost:1", "", "127.0.0.1:PORT.evil.example", "[::1]:PORT"]
)
def test_a_request_by_another_name_is_not_found(server: LoopbackServer, host: str) -> None:
    assert asked(server, f"/{server.token}/", host=host.replace("PORT", str(server.server_port)))[0] == 404


def test_the_machine_has_two_names(server: LoopbackServer) -> None:
    assert asked(server, f"/{server.token}/", host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW"])
def test_nothing_but_get_is_answered(server: LoopbackServer, method: str) -> None:
    status, text, _ = asked(server, f"/{server.token}/", method=method)
    assert status == 404 and "page" not in text


@pytest.mark.parametrize(
    "request_text", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\xff\xfe\r\n\r\n", b"GET /x"]
)
def test_a_broken_request_harms_nothing(server: LoopbackServer, request_text: bytes) -> None:
    with socket.create_connection((ADDRESS, server.server_port), timeout=10) as connection:
        connection.sendall(request_text)
        connection.shutdown(socket.SHUT_WR)
        assert b"page" not in connection.recv(1000)
    assert asked(server, f"/{server.token}/")[0] == 200


def test_other_machines_cannot_reach_it(server: LoopbackServer) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_each_server_has_its_own_secret(server: LoopbackServer) -> None:
    other = LoopbackServer(str, str)
    assert other.token != server.token and other.server_port != server.server_port
    other.server_close()


def test_an_error_of_the_page_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    def failed() -> str:
        raise ValueError("secret")

    found = LoopbackServer(failed, str)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    with pytest.raises(OSError):
        asked(found, f"/{found.token}/")
    found.shutdown()
    found.server_close()
    thread.join(10)
    assert capsys.readouterr() == ("", "")
