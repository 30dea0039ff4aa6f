"""Runs that outlive what works on them: cancelled, handed back, killed."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest
from psycopg.rows import dict_row

from fieldmark.offline_model.messages import call, text
from fieldmark.offline_model.script import Script, stall
from living import clis

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def begun(served, script_turns: int) -> tuple[str, asyncio.Task]:
    """A run that has come to the turn at which its model falls silent."""
    document_id = await served.document()
    body = {"document_id": str(document_id)}
    waiting = asyncio.create_task(served.http.post("/api/agent/extract", json=body))
    for _ in range(200):
        if len(served.model.requests) >= script_turns:
            break
        await asyncio.sleep(0.05)
    runs = (await served.http.get("/api/runs")).json()["items"]
    return runs[0]["id"], waiting


async def test_a_running_run_is_cancelled_within_two_seconds(serve):
    script = Script([[call("update_field", TOTAL)], stall(60)])
    async with serve(script) as served:
        run_id, waiting = await begun(served, 2)
        begin = time.monotonic()
        assert (await served.http.post(f"/api/runs/{run_id}/cancel")).json()["status"] == "cancelled"
        result = (await waiting).json()
        while clis():
            assert time.monotonic() - begin < 2
            await asyncio.sleep(0.05)
        assert result["status"] == "cancelled" and result["extraction"]["extracted_fields"] == {"total": 10}


async def ended(clone, run_id: str) -> dict:
    """The run's row once it has ended, and how many journal entries there are."""
    with psycopg.connect(clone.owner_url, autocommit=True, row_factory=dict_row) as owner:
        for _ in range(400):
            run = owner.execute("select * from public.runs where id = %s", [run_id]).fetchone()
            if run["status"] in ("completed", "failed"):
                break
            await asyncio.sleep(0.1)
        run["entries"] = owner.execute("select count(*) as n from public.extraction_journal").fetchone()["n"]
        return run


async def test_a_worker_that_stops_hands_its_run_back(serve, clone):
    first, then = [call("update_field", TOTAL)], [text("Done after all.")]
    async with serve(Script([first, stall(60)])) as served:
        run_id, waiting = await begun(served, 2)
        waiting.cancel()
    assert not clis()
    # The CLI puts words of its own where the answer broke off, so the next answer is the third.
    async with serve(Script([first, [text("")], then])) as served:
        run = await ended(clone, run_id)
        assert run["error"] is None
        assert (run["status"], run["answer"], run["attempt"], run["entries"]) == ("completed", "Done after all.", 2, 1)
        # The conversation went on: the model was shown what it had done before, and wrote nothing again.
        assert "update_field" in str(served.model.requests[0]["messages"])
