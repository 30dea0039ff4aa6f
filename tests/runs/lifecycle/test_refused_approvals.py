"""A person approves a call that the database refuses: whoever is told, is told why."""

from __future__ import annotations

import pytest

from fieldmark.errors import Invalid
from fieldmark.runs.lifecycle import decisions

pytestmark = pytest.mark.anyio


async def asked(desk, name: str, arguments: dict):
    """A run that waits for a person to decide this call."""
    context = await desk.context(await desk.run(approval="ask"))
    await desk.approve(context, name, arguments, "asked", ask=True)
    return context.run_id


async def test_the_agent_hears_what_the_database_refused(desk):
    run_id = await asked(desk, "remove_field", {"path": "gone"})
    await decisions.decide(desk.database, desk.scope, run_id, decisions.Decision("asked", approved=True))
    (entry,) = desk.ledger(run_id)
    assert (entry["status"], entry["code"]) == ("failed", "invalid") and "gone" in entry["result"]


async def test_the_person_who_wrote_other_arguments_hears_it_and_can_mend_them(desk):
    run_id = await asked(desk, "update_field", {"path": "total", "value": 1, "confidence": 0.5})
    wrong = {"path": "items[3]", "value": 1, "confidence": 0.5}
    with pytest.raises(Invalid, match="items") as refused:
        await decisions.decide(desk.database, desk.scope, run_id, decisions.Decision("asked", True, wrong))
    assert refused.value.code == "invalid"
    (entry,) = desk.ledger(run_id)
    assert entry["status"] == "pending" and desk.extraction()["extracted_fields"] == {}
