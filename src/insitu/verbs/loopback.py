"""A web server for one page on this machine: on the loopback address only, read only, behind a secret path.

Programs and pages on this machine and elsewhere must not read what it serves. It listens on 127.0.0.1, so other
machines cannot reach it. Everything is below a path with 256 random bits, so other users and programs cannot guess it.
A request with another Host is refused, so a stranger's page whose name was made to point to 127.0.0.1 reads nothing;
and no answer allows another origin to read it. Anything that is not right is answered with 404, without a reason.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")  # by which the browser may call this machine
SECONDS = 20.0  # that a client may take for its request
MOST_DIGITS = 16  # of a revision
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Answer = tuple[str, str]  # the type and the text


class LoopbackServer(ThreadingHTTPServer):
    """Serves the text of a page and, as `points?after=7`, what has changed in it after a revision."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, page: Callable[[], str], update: Callable[[int], str]) -> None:
        self.page, self.update = page, update
        self.token = secrets.token_urlsafe(32)
        super().__init__((ADDRESS, 0), LoopbackHandler)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    def answer(self, target: str) -> Answer | None:
        """The answer to a request; None if there is nothing to answer."""
        try:
            parts = urlsplit(target)
        except ValueError:
            return None
        begin, token, name, *_ = [*parts.path.split("/", 2), None, None]
        if begin or not token:
            return None
        is_known = hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        if not is_known:
            return None
        if name == "":
            return "text/html; charset=utf-8", self.page()
        if name == "points":
            after = parse_qs(parts.query).get("after", [""])[0]
            if after.isdecimal() and len(after) <= MOST_DIGITS:
                return "text/plain; charset=ascii", self.update(int(after))
        return None

    def is_own_host(self, host: str | None) -> bool:
        """Whether a request was made to this server by its own name."""
        return host in [f"{name}:{self.server_port}" for name in NAMES]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that closes a tab breaks connections."""


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: LoopbackServer
    timeout = SECONDS
    server_version = "insitu"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request for the page or for its changes."""
        answer = None
        if self.server.is_own_host(self.headers.get("Host")):
            answer = self.server.answer(self.path)
        if answer is None:
            self.refuse()
            return
        kind, text = answer
        self.reply(HTTPStatus.OK, kind, text.encode())

    def refuse(self) -> None:
        """Answer that there is nothing here, whatever was asked."""
        self.reply(HTTPStatus.NOT_FOUND, "text/plain; charset=ascii", b"not found\n")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = refuse

    def reply(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request that cannot be parsed as any other."""
        self.command = self.command or "GET"
        self.request_version = "HTTP/1.0"
        self.refuse()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the terminal is the user's."""
