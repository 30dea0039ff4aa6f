"""Approved calls that the database refuses: the agent or the user gets the reason."""

from __future__ import annotations

import pytest

from fieldmark.errors import Invalid
from fieldmark.runs.lifecycle import decisions

pytestmark = pytest.mark.anyio


async def create_run_awaiting_approval(case, name: str, arguments: dict):
    context = await case.context(await case.queue_run(approval="ask"))
    await case.record_call(context, name, arguments, "asked", ask=True)
    return context.run_id


async def test_agent_receives_the_refusal_of_the_database(case):
    run_id = await create_run_awaiting_approval(case, "remove_field", {"path": "gone"})
    await decisions.decide(case.database, case.scope, run_id, decisions.ApprovalDecision("asked", approved=True))
    (entry,) = case.ledger(run_id)
    assert (entry["status"], entry["code"]) == ("failed", "invalid") and "gone" in entry["result"]


async def test_person_can_correct_refused_arguments(case):
    run_id = await create_run_awaiting_approval(case, "update_field", {"path": "total", "value": 1, "confidence": 0.5})
    wrong = {"path": "items[3]", "value": 1, "confidence": 0.5}
    with pytest.raises(Invalid) as refused:
        await decisions.decide(case.database, case.scope, run_id, decisions.ApprovalDecision("asked", True, wrong))
    assert refused.value.code == "invalid"
    (entry,) = case.ledger(run_id)
    assert entry["status"] == "pending" and case.extraction()["extracted_fields"] == {}
