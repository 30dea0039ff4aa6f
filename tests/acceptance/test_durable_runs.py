"""Runs that outlive what works on them: cancelled, handed back, killed."""

from __future__ import annotations

import asyncio

import pytest

from desk import sql, until
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, stall
from living import clis

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli("its processes end, or live on")]

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def begun(served, script_turns: int) -> tuple[str, asyncio.Task]:
    """A run that has come to the turn at which its model falls silent."""
    document_id = await served.document()
    body = {"document_id": str(document_id)}
    waiting = asyncio.create_task(served.http.post("/api/agent/extract", json=body))
    await until(lambda: len(served.model.requests) >= script_turns)
    runs = (await served.get("runs"))["items"]
    return runs[0]["id"], waiting


async def test_a_running_run_is_cancelled_and_its_cli_goes(serve):
    script = Script([[call("update_field", TOTAL)], stall(600)])
    async with serve(script) as served:
        run_id, waiting = await begun(served, 2)
        assert (await served.http.post(f"/api/runs/{run_id}/cancel")).json()["status"] == "cancelled"
        result = (await waiting).json()
        await until(lambda: clis() == [])
        assert result["status"] == "cancelled" and result["extraction"]["extracted_fields"] == {"total": 10}


async def test_a_worker_that_stops_hands_its_run_back(serve, clone):
    first, then = [call("update_field", TOTAL)], [text("Done after all.")]
    async with serve(Script([first, stall(600)])) as served:
        run_id, waiting = await begun(served, 2)
        # The CLI hands its conversation over a moment late.
        told = "select 1 from public.agent_sessions where entry::text like '%tool_result%'"
        await until(lambda: sql(clone.owner_url, told))
        waiting.cancel()
    assert not clis()

    def ended() -> dict | None:
        (run,) = sql(clone.owner_url, "select * from public.runs where id = %s", run_id)
        return run if run["status"] in ("completed", "failed") else None

    # The CLI puts words of its own where the answer broke off, so the next answer is the third.
    async with serve(Script([first, [text("")], then])) as served:
        run = await until(ended)
        assert run["error"] is None
        assert (run["status"], run["answer"], run["fencing_token"]) == ("completed", "Done after all.", 2)
        assert len(sql(clone.owner_url, "select 1 from public.extraction_journal")) == 1
        # The conversation went on: the model was shown what it had done before, and wrote nothing again.
        assert "update_field" in str(served.model.requests[0]["messages"])
