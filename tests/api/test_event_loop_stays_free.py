"""Requests with thousands of values do not block the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from event_loop import longest_block

from fieldmark.stores import extractions
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

VALUE_COUNT = 1500
LONGEST_SECONDS = 0.03
"""Of CPU time. Each blocking computation takes longer."""


@contextmanager
def assert_free_loop() -> Iterator[None]:
    found: dict[str, float] = {}
    with longest_block(found, "longest", LONGEST_SECONDS):
        yield
    assert found == {}


def request_body(n):
    items = [{"name": f"Item {i}", "price": f"{i * n}.25"} for i in range(VALUE_COUNT)]
    return json.dumps({"path": "items", "value": items}).encode()


async def warm_up(server, document_id):
    """Add an extraction, call its routes once to fill caches, and return its path."""
    async with server.runtime.database.as_user(server.scope) as conn:
        one = await extractions.add(conn, org_id=server.scope.org_id, document_id=document_id, schema=None)
    path = f"/api/extractions/{one}"
    for answer in (
        await server.http.patch(f"{path}/fields", json={"path": "total", "value": 1}),
        await server.http.get(f"/api/documents/{document_id}/pages/1"),
    ):
        assert answer.status_code == 200, answer.text
    return path


async def test_event_loop_is_free_while_thousands_of_values_are_written_and_read(serve):
    page = "\n".join(f"Item {n}  {n * 7}.50" for n in range(VALUE_COUNT))
    async with serve(Script([])) as server:
        await warm_up(server, await server.upload_text())
        with assert_free_loop():
            document_id = await server.upload_text(page)
        path, headers = await warm_up(server, document_id), {"content-type": "application/json"}
        bodies = [request_body(n) for n in (1, 2, 3)]
        # Concurrent requests: all but the first find a changed extraction and are repeated.
        with assert_free_loop():
            answers = await asyncio.gather(
                *(server.http.patch(f"{path}/fields", content=sent, headers=headers) for sent in bodies)
            )
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        assert len(answers[0].content) > 300_000
        with assert_free_loop():
            for whole in (path, f"{path}?version=2"):
                answer = await server.http.get(whole)
                assert answer.status_code == 200 and len(answer.content) > 30_000
