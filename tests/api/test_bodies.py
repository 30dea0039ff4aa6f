"""A body that comes too slowly is refused."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from fieldmark.api.edge import Edge

pytestmark = pytest.mark.anyio


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
    await Edge(_read_body, {}, seconds=0.1)(scope, receive, send)
    assert sent[0]["status"] == 408
