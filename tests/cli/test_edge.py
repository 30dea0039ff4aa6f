"""`fieldmark serve` against requests without a token and bodies that a route does not take."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from command import Home, Serving, serving

from standing import PATIENCE

pytestmark = pytest.mark.xdist_group("cli-edge")

MB = 1024 * 1024


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Serving]:
    with serving(home, "--no-worker", FIELDMARK_MAX_FILE_MB="20", FIELDMARK_LOG_LEVEL="error") as server:
        yield server


def connected(server: Serving, peer: str = "127.0.0.1") -> socket.socket:
    """A connection; all of 127.0.0.0/8 is this machine, so that it can be several peers."""
    parts = urlsplit(server.url)
    connection = socket.create_connection((parts.hostname, parts.port), PATIENCE, source_address=(peer, 0))
    connection.settimeout(PATIENCE)
    return connection


def head(path: str, *headers: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode()


def answer(connection: socket.socket) -> bytes:
    """All that the server says until it ends the connection."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while came := connection.recv(65_536):
            said += came
    return said


def first_line(connection: socket.socket) -> str:
    """What the server answers, whatever it does with the connection."""
    said = b""
    while b"\r\n" not in said:
        came = connection.recv(65_536)
        assert came, "it was ended without an answer"
        said += came
    return said.split(b"\r\n")[0].decode()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/documents", "multipart/form-data; boundary=x"),
        ("/api/agent/extract", "application/json"),
        ("/api/agent/extract", "multipart/form-data; boundary=x"),
        ("/nowhere", "text/plain"),
    ],
)
def test_without_a_token_nothing_of_a_body_is_waited_for(server: Serving, path: str, kind: str):
    for length in (f"Content-Length: {15 * MB}", "Transfer-Encoding: chunked"):
        with connected(server) as connection:
            connection.sendall(head(path, f"Content-Type: {kind}", length, "Expect: 100-continue"))
            assert first_line(connection) == "HTTP/1.1 401 Unauthorized"


def test_what_a_route_does_not_take_is_refused_before_it_comes(server: Serving):
    token, form = f"Authorization: Bearer {server.token}", "Content-Type: multipart/form-data; boundary=x"
    long = f"Content-Length: {15 * MB}"
    for path, kind, status in (
        ("/api/agent/extract", form, 413),
        ("/api/agent/extract", "Content-Type: application/json", 413),
        ("/api/documents", "Content-Type: application/json", 413),
        ("/api/documents", form, 100),  # the one route that takes it
    ):
        with connected(server) as connection:
            connection.sendall(head(path, token, kind, long, "Expect: 100-continue"))
            assert first_line(connection).split()[1] == str(status), (path, kind)


def test_an_address_that_asks_for_no_token_takes_no_body(server: Serving):
    for length, status in (("Content-Length: 1", 413), ("Content-Length: 0", 200)):
        with connected(server) as connection:
            connection.sendall(head("/healthz", length, method="GET"))
            assert first_line(connection).split()[1] == str(status)


def test_refused_bodies_take_no_memory(server: Serving):
    def send(number: int) -> str:
        token = f"Authorization: Bearer {server.token}" if number % 2 else "X-No: token"
        kind = "Content-Type: multipart/form-data; boundary=x"
        with connected(server) as connection:
            connection.sendall(head("/api/agent/extract", token, kind, "Transfer-Encoding: chunked"))
            piece = b"%x\r\n%b\r\n" % (MB, b"x" * MB)
            with contextlib.suppress(OSError):  # it is ended, once its time is over
                for _ in range(20):
                    connection.sendall(piece)
            return first_line(connection).split()[1]

    process = psutil.Process(server.process.pid)
    httpx.get(f"{server.url}/api/runs", headers=server.headers, timeout=PATIENCE)
    before = process.memory_info().rss
    with ThreadPoolExecutor(10) as senders:
        statuses = []
        for sending in [senders.submit(send, number) for number in range(20)]:
            with contextlib.suppress(ConnectionResetError):
                statuses.append(sending.result())
    assert set(statuses) <= {"401", "413"} and statuses
    assert process.memory_info().rss - before < 40 * MB  # of 400 that were sent
