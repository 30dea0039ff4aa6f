"""Connections that send no request are closed, and do not keep others from being served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from fieldmark.api.app import listen
from fieldmark.api.connections import MAX_WAITING_OF_ADDRESS, http_protocol

pytestmark = pytest.mark.anyio

HALF_A_HEAD = b"GET /api/me HTTP/1.1\r\nHost: x\r\nX-A: "
MANY = MAX_WAITING_OF_ADDRESS + 100


@asynccontextmanager
async def served(**limits) -> AsyncIterator[str]:
    async def slow(request):
        await asyncio.sleep(float(request.query_params["seconds"]))
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route("/", slow)])
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, http=http_protocol(**limits), lifespan="off", log_config=None))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup([listener])
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await server.shutdown()
        listener.close()


async def connect(url, data=HALF_A_HEAD):
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    await writer.drain()
    return reader, writer


async def count_open(connections):
    async def is_open(reader):
        try:
            await asyncio.wait_for(reader.read(1), 0.01)
        except TimeoutError:
            return True
        except OSError:
            return False
        return False

    return sum([await is_open(reader) for reader, _ in connections])


async def test_half_sent_heads_of_an_address_are_limited_and_others_are_served():
    async with served() as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        running = asyncio.create_task(http.get("/?seconds=2"))
        connections = await asyncio.gather(*(connect(url) for _ in range(MANY)))  # many are accepted at once
        assert (await http.get("/?seconds=0")).status_code == 200
        assert await count_open(connections) <= MAX_WAITING_OF_ADDRESS
        assert (await running).status_code == 200  # a connection with a request is not closed
        for _, writer in connections:
            writer.close()


async def test_connections_of_a_trusted_proxy_are_not_limited_by_its_address():
    async with (
        served(trusted_proxies=[ip_network("127.0.0.0/8")]) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as http,
    ):
        connections = [await connect(url) for _ in range(MANY)]
        assert (await http.get("/?seconds=0")).status_code == 200
        assert await count_open(connections) == MANY
        for _, writer in connections:
            writer.close()


@pytest.mark.parametrize("data", [b"", HALF_A_HEAD, b"GET /?seconds=0 HTTP/1.1\r\nHost: x\r\n\r\n" + HALF_A_HEAD])
async def test_connection_without_a_request_is_closed_after_a_time(data):
    async with served(head_seconds=0.5) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        reader, writer = await connect(url, data)
        assert (await http.get("/?seconds=1.5")).status_code == 200  # longer than a head may take
        await asyncio.wait_for(_read_to_end(reader), 30)
        writer.close()


async def _read_to_end(reader):
    try:
        while await reader.read(1000):
            pass
    except OSError:
        pass
