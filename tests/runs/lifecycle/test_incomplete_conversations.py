"""Conversations whose pending call was lost: the decision is kept, executed once, and reported to the agent."""

from __future__ import annotations

import json

import pytest

from fieldmark.offline_model.messages import call, text
from fieldmark.runs.lifecycle import decisions
from fieldmark.runs.lifecycle.decisions import ApprovalDecision
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}
DELETE_CALL = "delete from public.agent_sessions where entry ->> 'type' = 'assistant' returning 1"
DELETE_DEFERRAL = """
delete from public.agent_sessions where entry -> 'attachment' ->> 'type' = 'hook_deferred_tool' returning 1
"""


@pytest.mark.real_cli("incomplete conversations")
@pytest.mark.parametrize(
    ("query", "approved"), [(DELETE_CALL, True), (DELETE_DEFERRAL, False)], ids=["call", "deferral"]
)
async def test_decision_is_kept_and_the_agent_receives_it(case, query, approved):
    proposed = await case.execute_run(Script([[call("update_field", TOTAL)]]), approval="ask")
    run_id, before = proposed.run_id, proposed.state
    await decisions.decide(case.database, case.scope, run_id, ApprovalDecision(before["waiting_call"], approved))
    assert case.sql(query)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id)
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Done.")
    assert case.extraction()["extracted_fields"] == ({"total": 10} if approved else {})
    (entry,) = finished.ledger
    assert entry["status"] == ("done" if approved else "refused")
    prefix = f"({entry['status']}): "
    last = json.dumps(finished.requests[-1]["messages"])
    assert "started before" in last and prefix in last
    if query == DELETE_CALL:
        # The CLI finds no call to continue and calls the model. That answer is dropped, and a new conversation starts.
        assert len(finished.requests) == 2 and prefix not in json.dumps(finished.requests[0]["messages"])
    else:
        assert len(finished.requests) == 1 and finished.state["session_id"] == before["session_id"]
    kinds = [event["type"] for event in finished.events]
    assert kinds.count("text") == kinds.count("complete") == kinds.count("run") == 1
    assert [one["status"] for one in finished.events if "tool" in one["type"]] == [
        "running",
        "complete" if approved else "error",
    ]
