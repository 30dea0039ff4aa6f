"""The event stream of a run reports how many pages of its document are read."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from answers import INVOICE, parse_events

from fieldmark.offline_model.messages import text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


async def test_stream_of_a_waiting_run_reports_pages_read(serve, clone):
    async with serve(Script([[text("Done.")]])) as server:
        received: list[dict[str, Any]] = []
        async with await psycopg.AsyncConnection.connect(clone.owner_url) as conn:
            # The lock keeps the worker from finishing.
            await conn.execute("lock table public.document_pages in share mode")
            files = {"file": ("a.pdf", INVOICE.read_bytes())}
            document_id = (await server.http.post("/api/documents", files=files)).json()["id"]
            body = {"document_id": document_id, "wait": False}
            started = await server.extract(**body)
            assert started["status"] == "queued"
            at = f"/api/runs/{started['run_id']}/events"
            async with server.http.stream("GET", at) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("id: "):
                        received[-1]["id"] = int(line[4:])
                    if line.startswith("data: "):
                        received.append(json.loads(line[6:]))
                        if received[-1].get("pages_read") == 4:
                            break
            first, *others = received
            assert (first["type"], first["run_id"]) == ("run", started["run_id"])
            assert others and {one["type"] for one in others} == {"reading"}
            assert others[-1] == {"type": "reading", "document_id": document_id, "pages_read": 4, "page_count": 4}
        stored = parse_events((await server.http.get(at)).text)
        assert [number for number, _ in stored] == list(range(1, len(stored) + 1))
        assert [one["type"] for _, one in stored].count("run") == 1 and stored[-1][1]["type"] == "complete"
