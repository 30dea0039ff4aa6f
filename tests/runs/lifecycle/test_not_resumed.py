"""A conversation that has lost what it stopped at: what was decided stands, once, and the agent is told of it."""

from __future__ import annotations

import json

import pytest

from fieldmark.offline_model.messages import call, text
from fieldmark.runs.lifecycle import decisions
from fieldmark.runs.lifecycle.decisions import ApprovalDecision
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TOTAL = {"path": "total", "value": 10, "confidence": 0.9}
THE_CALL = "delete from public.agent_sessions where entry ->> 'type' = 'assistant' returning 1"
THE_DEFERRAL = """
delete from public.agent_sessions where entry -> 'attachment' ->> 'type' = 'hook_deferred_tool' returning 1
"""


@pytest.mark.real_cli("what it makes of a conversation with a gap")
@pytest.mark.parametrize(("lost", "approved"), [(THE_CALL, True), (THE_DEFERRAL, False)], ids=["call", "deferral"])
async def test_decision_is_kept_and_the_agent_receives_it(case, lost, approved):
    proposed = await case.execute_run(Script([[call("update_field", TOTAL)]]), approval="ask")
    run_id, before = proposed.run_id, proposed.state
    await decisions.decide(case.database, case.scope, run_id, ApprovalDecision(before["waiting_call"], approved))
    assert case.sql(lost)
    finished = await case.execute_run(lambda body: [text("Done.")], run_id=run_id)
    assert (finished.state["status"], finished.state["answer"]) == ("completed", "Done.")
    assert case.extraction()["extracted_fields"] == ({"total": 10} if approved else {})
    (entry,) = finished.ledger
    assert entry["status"] == ("done" if approved else "refused")
    prefix = f"({entry['status']}): "
    last = json.dumps(finished.requests[-1]["messages"])
    assert "started before" in last and prefix in last
    if lost == THE_CALL:
        # The CLI knows of no call to go on with and asks the model: nothing of that is told, and a new one begins.
        assert len(finished.requests) == 2 and prefix not in json.dumps(finished.requests[0]["messages"])
    else:
        assert len(finished.requests) == 1 and finished.state["session_id"] == before["session_id"]
    kinds = [event["type"] for event in finished.events]
    assert kinds.count("text") == kinds.count("complete") == kinds.count("run") == 1
    assert [one["status"] for one in finished.events if "tool" in one["type"]] == [
        "running",
        "complete" if approved else "error",
    ]
