"""What is asked of thousands of values is not done on the event loop: others' requests wait there."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest

from fieldmark.stores import extractions
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

MANY = 2500
LONGEST_SECONDS = 0.03
"""Of the loop's own time: a machine that is busy does not lengthen it. One of what is done aside alone takes more."""


@asynccontextmanager
async def a_free_loop():
    longest = 0.0

    async def watch():
        nonlocal longest
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
    assert longest < LONGEST_SECONDS


def body(n):
    items = [{"name": f"Item {i}", "price": f"{i * n}.25"} for i in range(MANY)]
    return json.dumps({"path": "items", "value": items}).encode()


async def ready(server, document_id):
    """The address of an extraction whose routes have answered once: the first answer makes more than itself."""
    async with server.runtime.database.as_user(server.scope) as conn:
        one = await extractions.add(conn, org_id=server.scope.org_id, document_id=document_id, schema=None)
    path = f"/api/extractions/{one}"
    for answer in (
        await server.http.patch(f"{path}/fields", json={"path": "total", "value": 1}),
        await server.http.get(f"/api/documents/{document_id}/pages/1"),
    ):
        assert answer.status_code == 200, answer.text
    return path


async def test_the_loop_is_free_while_they_are_written_and_read(serve):
    page = "\n".join(f"Item {n}  {n * 7}.50" for n in range(MANY))
    async with serve(Script([])) as server:
        await ready(server, await server.upload_text())
        async with a_free_loop():
            document_id = await server.upload_text(page)
        path, headers = await ready(server, document_id), {"content-type": "application/json"}
        bodies = [body(n) for n in (1, 2, 3)]
        # At once: each but the first finds the extraction changed, and looks at what has become of it.
        async with a_free_loop():
            answers = await asyncio.gather(
                *(server.http.patch(f"{path}/fields", content=sent, headers=headers) for sent in bodies)
            )
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        assert len(answers[0].content) > 500_000
        async with a_free_loop():
            for whole in (path, f"{path}?version=2"):
                answer = await server.http.get(whole)
                assert answer.status_code == 200 and len(answer.content) > 50_000
