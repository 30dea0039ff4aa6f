"""Runs survive their worker: cancelled, released and killed."""

from __future__ import annotations

import asyncio

import pytest

from child_processes import cli_processes
from extraction_case import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, stall_connection

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli("its processes end, or live on")]

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def test_stopping_worker_releases_its_run(serve, clone):
    first, then = [call("update_field", TOTAL)], [text("Done after all.")]
    async with serve(Script([first, stall_connection(600)])) as server:
        body = {"document_id": str(await server.upload_text())}
        waiting = asyncio.create_task(server.http.post("/api/agent/extract", json=body))
        # The CLI mirrors its transcript with a short delay.
        query = "select 1 from public.agent_sessions where entry::text like '%tool_result%'"
        await until(lambda: sql(clone.owner_url, query))
        waiting.cancel()
    assert not cli_processes()

    def find_ended_run() -> dict | None:
        (run,) = sql(clone.owner_url, "select * from public.runs")
        return run if run["status"] in ("completed", "failed") else None

    # The CLI adds a message of its own where the answer broke off, so the next model message is the third.
    async with serve(Script([first, [text("")], then])) as server:
        run = await until(find_ended_run)
        assert run["error"] is None
        assert (run["status"], run["answer"], run["fencing_token"]) == ("completed", "Done after all.", 2)
        assert len(sql(clone.owner_url, "select 1 from public.extraction_journal")) == 1
        # The conversation continued: the model saw its earlier calls and repeated no write.
        assert "update_field" in str(server.model.requests[0]["messages"])
