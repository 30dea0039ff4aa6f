"""Turns of a thread have separate conversations, and never execute the pending call of an earlier turn."""

from __future__ import annotations

import asyncio

import pytest

from fieldmark.agents.registry import agent_rows, registered
from fieldmark.db.migrate import migrate
from fieldmark.offline_model.messages import call, text
from fieldmark.runs.billing.prices import Prices
from fieldmark.runs.claim import claim
from fieldmark.runs.lifecycle import launch
from fieldmark.runs.lifecycle.decisions import ApprovalDecision, decide
from fieldmark.stores.runs import RunOptions
from toy_agent.agent import TOY, CompareRequest

pytestmark = pytest.mark.anyio

PRICES = Prices("claude-sonnet-5", None, offline=False)


@pytest.fixture(autouse=True)
def _register_toy_agent(case):
    asyncio.run(migrate(case.owner_url, agents=agent_rows([TOY])))
    with registered(TOY):
        yield


async def start_turn(case, message: str, approval: str, thread_id=None):
    request = CompareRequest(documents=(case.document_id, case.document_id), message=message, thread_id=thread_id)
    options = RunOptions(approval=approval)
    return await launch.start(case.database, case.scope, "compare", request, prices=PRICES, options=options)


async def test_next_turn_does_not_run_the_pending_call_of_the_previous_one(case):
    first = await case.execute_run(
        lambda body: [call("note", {"text": "Stale."})], run_id=await start_turn(case, "One.", "ask")
    )
    assert first.state["status"] == "awaiting_approval" and case.sql("select 1 from public.agent_sessions")
    second = await start_turn(case, "Two.", "auto", first.state["thread_id"])
    # The conversation of an ended run is deleted.
    assert first.state["status"] == "cancelled" and not case.sql("select 1 from public.agent_sessions")
    assert await claim(
        case.database, case.scope, second, PRICES, lambda run: "claude-sonnet-5"
    )  # its worker dies at once
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=second)
    assert (finished.state["status"], finished.state["answer"], finished.state["fencing_token"]) == (
        "completed",
        "Done.",
        2,
    )
    assert finished.state["session_id"] != first.state["session_id"]
    assert "Two." in finished.sent and "One." not in finished.sent
    (thread,) = case.sql("select working_state from public.threads")
    assert thread["working_state"] == {} and finished.ledger == []
    assert [entry["status"] for entry in first.ledger] == ["refused"]


async def test_turn_after_a_decision_continues_its_conversation(case):
    note = call("note", {"text": "Mine."})
    waiting = await case.execute_run(lambda body: [note], run_id=await start_turn(case, "One.", "ask"))
    await decide(case.database, case.scope, waiting.run_id, ApprovalDecision(note.id, approved=True))
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=waiting.run_id)
    assert finished.state["status"] == "completed" and finished.state["session_id"] == waiting.state["session_id"]
    assert "One." in finished.sent and "Mine." in finished.sent
