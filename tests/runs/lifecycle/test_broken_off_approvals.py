"""A run that is broken off right where it begins to wait for a person, or right after what that person decided."""

from __future__ import annotations

import asyncio

import pytest

from desk import until
from fieldmark.errors import Unavailable
from fieldmark.offline_model.messages import call, text
from fieldmark.stores import tool_calls
from fieldmark.testing.script import Script
from living import clis

pytestmark = pytest.mark.anyio

TOLD = "select 1 from public.agent_sessions where entry::text like '%%tool_result%%' and entry::text like %s"
TOTAL = {"path": "total", "value": 10, "confidence": 0.9}


async def proposed(desk) -> tuple:
    """A run that waits for a person, and the call that it waits for."""
    worked = await desk.work(Script([[call("update_field", TOTAL)]]), approval="ask")
    assert worked.state["status"] == "awaiting_approval"
    return worked.run_id, worked.state["waiting_call"]


async def decide(desk, run_id, approved: bool) -> None:
    (entry,) = desk.ledger(run_id)
    async with desk.database.as_user(desk.scope) as conn:
        assert await tool_calls.decide(
            conn,
            run_id,
            entry["id"],
            seen_hash=entry["arguments_hash"],
            approved=approved,
            reason=None,
            arguments=None,
            arguments_hash=None,
        )


async def test_killed_between_the_deferral_and_its_record_it_waits_for_the_same_call(desk):
    run_id, call_id = await proposed(desk)
    desk.sql("update public.runs set status = 'running', waiting_call = null where id = %s", run_id)
    worked = await desk.work(Script([]), run_id=run_id)
    assert (worked.state["status"], worked.state["waiting_call"]) == ("awaiting_approval", call_id)
    assert worked.requests == []
    await decide(desk, run_id, approved=True)
    last = await desk.work(Script([[], [text("Done.")]]), run_id=run_id)
    assert (last.state["status"], last.state["answer"]) == ("completed", "Done.")
    assert desk.extraction()["extracted_fields"] == {"total": 10} and len(desk.ledger(run_id)) == 1


@pytest.mark.parametrize("approved", [True, False])
async def test_killed_before_it_is_known_that_a_decision_was_told_it_goes_on(desk, approved):
    run_id, call_id = await proposed(desk)
    await decide(desk, run_id, approved)

    async def killed(body):
        await until(lambda: desk.sql(TOLD, f"%{call_id}%"))  # what was decided is in the conversation
        query = "update public.runs set waiting_call = %s where id = %s"
        await asyncio.to_thread(desk.sql, query, call_id, run_id)
        for cli in clis():
            cli.kill()
        return []

    with pytest.raises(Unavailable):
        await desk.work(Script([[], killed]), run_id=run_id)
    worked = await desk.work(lambda body: [text("Done.")], run_id=run_id, seconds=60)
    assert (worked.state["status"], worked.state["answer"]) == ("completed", "Done.")
    assert desk.extraction()["extracted_fields"] == ({"total": 10} if approved else {})
