"""Requests that wait for a run end at the client's disconnect, after a time, and are limited in number."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from uuid import uuid4

import httpx
import pytest
from answers import assert_problem

from extraction_case import until
from fieldmark.api.agent import MAX_WAITS_OF_USER
from fieldmark.api.request_guard import MAX_REQUESTS_OF_CALLER

pytestmark = pytest.mark.anyio

SHORT = {"prefer": "respond-async, wait=1"}


async def upload(server):
    """Upload a document that no worker reads, so that its runs stay queued."""
    return (await server.http.post("/api/documents", files={"file": ("a.txt", b"Total: 10")})).json()["id"]


async def test_run_that_takes_longer_gets_202_with_its_address_and_is_waited_for_again(serve):
    async with serve(with_worker=False) as server:
        body = {"document_id": await upload(server)}
        answer = await server.http.post("/api/agent/extract", json=body, headers=SHORT | {"idempotency-key": "k"})
        assert (answer.status_code, answer.json()["status"]) == (202, "queued")
        location = answer.headers["location"]
        assert location == f"/api/runs/{answer.json()['run_id']}"
        again = await server.http.get(f"{location}/result", headers=SHORT)
        assert (again.status_code, again.json(), again.headers["location"]) == (202, answer.json(), location)
        await server.http.post(f"{location}/cancel")
        ended = await server.http.get(f"{location}/result")
        assert (ended.status_code, ended.json()["status"]) == (200, "cancelled")
        assert len((await server.get("runs"))["items"]) == 1
        async with server.client() as stranger:
            assert_problem(await stranger.get(f"{location}/result"), 404)


async def test_waits_end_with_their_client_and_are_limited(serve):
    async with serve(with_worker=False) as server:
        body = {"document_id": await upload(server), "wait": False}
        result = f"{(await server.http.post('/api/agent/extract', json=body)).headers['location']}/result"

        async def status():
            return (await server.http.get(result, headers={"prefer": "wait=0"})).status_code

        async def is_full():
            # One more each time: a wait is refused while the status takes the last place.
            waiting.append(asyncio.create_task(server.http.get(result)))
            return await status() == 429

        waiting = [asyncio.create_task(server.http.get(result)) for _ in range(MAX_WAITS_OF_USER - 1)]
        await until(is_full)
        refused = await server.http.post("/api/agent/extract", json=body | {"wait": True})
        assert_problem(refused, 429, "too_many_requests")
        assert len((await server.get("runs"))["items"]) == 1  # the refused request started nothing
        async with server.client() as stranger:
            own = {"document_id": str(uuid4())}
            assert_problem(await stranger.post("/api/agent/extract", json=own), 404)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        await until(lambda: _is(status(), 202))


async def _is(status, wanted):
    return await status == wanted


async def test_requests_of_a_caller_are_limited_except_cancelling(serve):
    async with serve(with_worker=False) as server:
        body = {"document_id": await upload(server), "wait": False}
        location = (await server.http.post("/api/agent/extract", json=body)).headers["location"]
        limits = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(
                base_url=server.base_url, headers=server.http.headers, limits=limits, timeout=None
            ) as http,
            AsyncExitStack() as streams,
        ):
            for _ in range(MAX_REQUESTS_OF_CALLER):
                await streams.enter_async_context(http.stream("GET", f"{location}/events"))
            assert_problem(await server.http.get("/api/me"), 429, "too_many_requests")
            async with server.client() as stranger:
                assert (await stranger.get("/api/me")).status_code == 200
            assert (await server.http.get("/readyz")).status_code == 200
            assert (await server.http.post(f"{location}/cancel")).status_code == 202
