"""A stream begins at once, and tells how far the document is read that the run waits for."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from answers import INVOICE, events

from fieldmark.offline_model.messages import text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


async def test_whoever_waits_for_a_document_sees_its_pages_read(serve, clone):
    async with serve(Script([[text("Done.")]])) as server:
        said: list[dict[str, Any]] = []
        async with await psycopg.AsyncConnection.connect(clone.owner_url) as conn:
            # It is read, and stays unread as long as this holds.
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
                        said[-1]["id"] = int(line[4:])
                    if line.startswith("data: "):
                        said.append(json.loads(line[6:]))
                        if said[-1].get("pages_read") == 4:
                            break
            first, *others = said
            assert (first["type"], first["run_id"]) == ("run", started["run_id"])
            assert others and {one["type"] for one in others} == {"reading"}
            assert others[-1] == {"type": "reading", "document_id": document_id, "pages_read": 4, "page_count": 4}
        kept = events((await server.http.get(at)).text)
        assert [number for number, _ in kept] == list(range(1, len(kept) + 1))
        assert [one["type"] for _, one in kept].count("run") == 1 and kept[-1][1]["type"] == "complete"
