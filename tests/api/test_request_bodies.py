"""Limits of request bodies: size, content type and time."""

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


def request_status(server: RunningServer, path: str, *headers: str, method: str = "POST", megabytes: int = 0) -> int:
    """Send the head of a request and so many MB of its body. Return the status of the answer; 0 if the connection is
    reset."""
    parts = urlsplit(server.base_url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE) as connection:
        connection.sendall("\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode())
        with contextlib.suppress(OSError):  # the server closes the connection after a timeout
            for _ in range(megabytes):
                connection.sendall(b"%x\r\n%b\r\n" % (MB, b"x" * MB))
        with contextlib.suppress(ConnectionResetError):
            return int(connection.recv(65_536).split()[1])
    return 0


def authorization_header(server: RunningServer) -> str:
    return f"Authorization: {server.http.headers['authorization']}"


async def test_body_is_refused_before_it_is_sent(serve):
    lengths = f"Content-Length: {15 * MB}", "Transfer-Encoding: chunked"
    async with serve(with_worker=False, max_file_mb=20) as server:
        for path, content_type in (("/api/documents", FORM), ("/api/agent/extract", JSON), ("/nowhere", "text/plain")):
            for length in lengths:
                head = (f"Content-Type: {content_type}", length, "Expect: 100-continue")
                assert await asyncio.to_thread(request_status, server, path, *head) == 401
        for path, content_type, status in (
            ("/api/agent/extract", FORM, 413),
            ("/api/agent/extract", JSON, 413),
            ("/api/documents", JSON, 413),
            ("/api/documents", FORM, 100),  # the only route that accepts it
        ):
            head = (authorization_header(server), f"Content-Type: {content_type}", lengths[0], "Expect: 100-continue")
            assert await asyncio.to_thread(request_status, server, path, *head) == status, (path, content_type)
        # Public routes accept no body.
        for length, status in ((1, 413), (0, 200)):
            head = f"Content-Length: {length}"
            assert await asyncio.to_thread(request_status, server, "/healthz", head, method="GET") == status


async def test_refused_bodies_use_no_memory(serve):
    async with serve(with_worker=False, max_file_mb=20) as server:

        def send_at_once(header: str) -> set[int]:
            head = (header, f"Content-Type: {FORM}", "Transfer-Encoding: chunked")
            with ThreadPoolExecutor(10) as threads:
                sending = [
                    threads.submit(request_status, server, "/api/agent/extract", *head, megabytes=20) for _ in range(10)
                ]
                return {one.result() for one in sending}

        await server.get("runs")
        before = psutil.Process().memory_info().rss
        for header, status in (("X-No: token", 401), (authorization_header(server), 413)):
            assert await asyncio.to_thread(send_at_once, header) <= {status, 0}
        assert psutil.Process().memory_info().rss - before < 60 * MB  # of 400 that were sent


async def _read_body(scope: Scope, receive: Receive, request_status: Send) -> None:
    while (await receive()).get("more_body"):
        pass


@pytest.mark.parametrize("pause", [0.01, 60], ids=["slow", "stalled"])
async def test_slow_body_gets_408(pause: float) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": b"", "more_body": True}

    async def request_status(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": [], "query_string": b""}
    await RequestGuard(_read_body, {}, seconds=0.1)(scope, receive, request_status)
    assert sent[0]["status"] == 408
