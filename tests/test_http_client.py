"""Requests to other services: proxies of the environment, redirects and limits, the same for all clients."""

from __future__ import annotations

import gzip
import socket
import socketserver
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from uuid import UUID

import httpx
import pytest

from fieldmark.cli.client import open_client
from fieldmark.cli.target import Target
from fieldmark.embedding.endpoint import EndpointEmbedder
from fieldmark.errors import Misconfigured, Unavailable
from fieldmark.files.supabase import SupabaseFiles
from fieldmark.http_client import ResponseTooLarge, http_client
from fieldmark.identity.tokens import published_keys
from fieldmark.settings import Settings
from http_stub import http_stub

pytestmark = pytest.mark.anyio

ELSEWHERE = "http://service.invalid"  # a name that does not resolve: only a proxy can reach it
CLOSED = "http://127.0.0.2:9"  # an address where nothing listens
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextmanager
def service(status: int = 200, body: bytes = b"ok", **headers: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http_stub(Handler) as url:
        yield url


@contextmanager
def socks_proxy(target: str, *, speaks_socks: bool = True) -> Iterator[tuple[str, list[str]]]:
    """Serve SOCKS5 and connect every request to `target`. Yields the proxy's URL and the requested hosts."""
    hosts: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            if not speaks_socks:
                self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
            self.rfile.read(self.rfile.read(2)[1])
            self.wfile.write(b"\x05\x00")
            _, _, _, kind = self.rfile.read(4)
            if kind == 3:  # a name, which the proxy resolves
                hosts.append(self.rfile.read(self.rfile.read(1)[0]).decode())
            else:
                hosts.append(socket.inet_ntoa(self.rfile.read(4)))
            self.rfile.read(2)
            self.wfile.write(b"\x05\x00\x00\x01" + bytes(6))
            url = httpx.URL(target)
            with socket.create_connection((url.host, url.port)) as upstream:
                copying = threading.Thread(target=copy, args=(upstream, self.connection))
                copying.start()
                copy(self.connection, upstream)
                copying.join()

    def copy(source: socket.socket, into: socket.socket) -> None:
        while chunk := source.recv(65536):
            into.sendall(chunk)
        into.shutdown(socket.SHUT_WR)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"socks5://127.0.0.1:{server.server_address[1]}", hosts
        finally:
            server.shutdown()
            thread.join()


async def test_socks_proxy_of_the_environment_is_used_except_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    with service() as here, socks_proxy(here) as (proxy, hosts):
        monkeypatch.setenv("ALL_PROXY", proxy)
        async with http_client() as session:
            assert (await session.get(ELSEWHERE)).text == "ok"
            assert (await session.get(CLOSED)).text == "ok"
            assert (await session.get(here)).text == "ok"
        assert hosts == ["service.invalid", "127.0.0.2"]
        monkeypatch.setenv("NO_PROXY", "127.0.0.2")
        async with http_client() as session:
            with pytest.raises(httpx.ConnectError):
                await session.get(CLOSED)


async def test_http_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with service() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        async with http_client() as session:
            assert (await session.get(ELSEWHERE)).text == "ok"


async def test_redirect_is_not_followed() -> None:
    with service() as other, service(302, Location=other) as here:
        async with http_client() as session:
            assert (await session.get(here)).status_code == 302


async def test_response_is_limited_in_size_and_never_compressed() -> None:
    with service(body=b"x" * 1000) as here:
        async with http_client(max_bytes=1000) as session:
            assert len((await session.get(here)).content) == 1000
        async with http_client(max_bytes=999) as session:
            with pytest.raises(ResponseTooLarge):
                await session.get(here)
    with service(body=gzip.compress(b"ok"), Content_Encoding="gzip") as here:
        async with http_client() as session:
            assert (await session.get(here)).text == "ok"
        async with http_client(max_bytes=1000) as session:
            with pytest.raises(httpx.DecodingError):
                await session.get(here)


async def ask_storage() -> object:
    return await SupabaseFiles(ELSEWHERE, "sb_secret_x", max_bytes=10).size(f"{UUID(int=0)}/{UUID(int=0)}/a")


async def ask_embedder() -> object:
    return await EndpointEmbedder(ELSEWHERE, "small", None).embed_question("a")


async def ask_service() -> object:
    async with open_client(Target(server=ELSEWHERE, key="fm_x"), Settings(_env_file=None)) as client:
        return await client.get("/api/me")


@pytest.mark.parametrize("ask", [ask_storage, ask_embedder, ask_service, lambda: published_keys(ELSEWHERE)])
async def test_every_client_reports_a_proxy_that_fails(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[], Awaitable[object]]
) -> None:
    with socket.socket() as closed, service() as here, socks_proxy(here, speaks_socks=False) as (garbage, _):
        closed.bind(("127.0.0.1", 0))
        for proxy in (garbage, f"socks5://127.0.0.1:{closed.getsockname()[1]}"):
            monkeypatch.setenv("ALL_PROXY", proxy)
            with pytest.raises(Unavailable):
                await ask()
    for proxy in ("socks://user:hush@127.0.0.1:9", "socks4://127.0.0.1:9", "http://[::1"):
        monkeypatch.setenv("ALL_PROXY", proxy)
        with pytest.raises(Misconfigured) as refused:
            await ask()
        assert "hush" not in str(refused.value)
