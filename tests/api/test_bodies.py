"""Bodies that are refused before they come, or because they come too slowly."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psutil
import pytest
from starlette.types import Message, Receive, Scope, Send

from fieldmark.api.request_guard import RequestGuard
from running_server import PATIENCE, RunningServer

pytestmark = pytest.mark.anyio

MB = 1024 * 1024
FORM, JSON = "multipart/form-data; boundary=x", "application/json"


def send(server: RunningServer, path: str, *headers: str, method: str = "POST", pieces: int = 0) -> int:
    """The status of the answer to a request of which only the head is sent, and so many MB behind it."""
    parts = urlsplit(server.base_url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE) as connection:
        connection.sendall("\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode())
        with contextlib.suppress(OSError):  # the connection is ended, once its time is over
            for _ in range(pieces):
                connection.sendall(b"%x\r\n%b\r\n" % (MB, b"x" * MB))
        with contextlib.suppress(ConnectionResetError):
            return int(connection.recv(65_536).split()[1])
    return 0


def bearer(server: RunningServer) -> str:
    return f"Authorization: {server.http.headers['authorization']}"


async def test_a_body_is_refused_by_its_head_alone(serve):
    announced = f"Content-Length: {15 * MB}", "Transfer-Encoding: chunked"
    async with serve(with_worker=False, max_file_mb=20) as server:
        for path, kind in (("/api/documents", FORM), ("/api/agent/extract", JSON), ("/nowhere", "text/plain")):
            for length in announced:
                head = (f"Content-Type: {kind}", length, "Expect: 100-continue")
                assert await asyncio.to_thread(send, server, path, *head) == 401
        for path, kind, status in (
            ("/api/agent/extract", FORM, 413),
            ("/api/agent/extract", JSON, 413),
            ("/api/documents", JSON, 413),
            ("/api/documents", FORM, 100),  # the one route that takes it
        ):
            head = (bearer(server), f"Content-Type: {kind}", announced[0], "Expect: 100-continue")
            assert await asyncio.to_thread(send, server, path, *head) == status, (path, kind)
        # An address that asks for no token takes no body.
        for length, status in ((1, 413), (0, 200)):
            head = f"Content-Length: {length}"
            assert await asyncio.to_thread(send, server, "/healthz", head, method="GET") == status


async def test_refused_bodies_take_no_memory(serve):
    async with serve(with_worker=False, max_file_mb=20) as server:

        def senders(first: str) -> set[int]:
            head = (first, f"Content-Type: {FORM}", "Transfer-Encoding: chunked")
            with ThreadPoolExecutor(10) as threads:
                sending = [threads.submit(send, server, "/api/agent/extract", *head, pieces=20) for _ in range(10)]
                return {one.result() for one in sending}

        await server.get("runs")
        before = psutil.Process().memory_info().rss
        for first, status in (("X-No: token", 401), (bearer(server), 413)):
            assert await asyncio.to_thread(senders, first) <= {status, 0}
        assert psutil.Process().memory_info().rss - before < 60 * MB  # of 400 that were sent


async def _read_body(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass


@pytest.mark.parametrize("pause", [0.01, 60], ids=["in drops", "not at all"])
async def test_a_body_that_comes_too_slowly_gets_408(pause: float) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": b"", "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": [], "query_string": b""}
    await RequestGuard(_read_body, {}, seconds=0.1)(scope, receive, send)
    assert sent[0]["status"] == 408
