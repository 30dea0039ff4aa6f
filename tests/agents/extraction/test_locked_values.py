"""What the writing tools say of a value that a person set: it stays, theirs is a proposal, the rest is written."""

from __future__ import annotations

import pytest

from fieldmark.stores import extractions

pytestmark = pytest.mark.anyio

STAYS = (
    "a person set the values at {}, so they stay. Your values are kept as proposals for the person. "
    "Do not try again; go on with the rest."
)
NAME_STAYS, VENDOR_STAYS = STAYS.format('["vendor.name"]'), STAYS.format('["vendor"]')


@pytest.fixture
async def by_hand(case):
    """Fields of which a person set the vendor's name."""
    await case.set_fields({"vendor": {"name": "Acme", "vat": "DE1"}, "total": 3})
    async with case.database.as_user(case.scope) as conn:
        await extractions.update_field(conn, case.extraction_id, ["vendor", "name"], "Acme Ltd", {}, {})
    return case


def waiting(case):
    rows = case.sql("select name, old, new, run_id from public.extraction_proposals where status = 'pending'")
    return [tuple(row.values()) for row in rows]


async def test_model_sees_kept_values_and_watchers_see_changes(by_hand):
    context = await by_hand.context()
    fields = {"vendor": {"name": "Acne", "vat": "DE2"}, "total": 3}
    answer = await by_hand.call(context, "extract_fields", fields=fields, confidences={"vendor.vat": 0.5, "total": 0.5})
    assert (answer.is_error, answer.code) == (False, "stored_in_part")
    assert answer.data == {
        "version": 3,
        "not_found": ["vendor.name", "vendor.vat", "total"],
        "proposed": ["vendor.name"],
    }
    assert NAME_STAYS in answer.text and '{"vendor": {"vat": "DE2", "name": "Acme Ltd"}, "total": 3}' in answer.text
    (event,) = by_hand.events(context.run_id)
    assert event["changed"][0].pop("evidence")["state"] == "not_found"
    change = {"path": "vendor.vat", "value": "DE2", "confidence": 0}
    assert event == {"type": "changed", "changed": [change], "version": 3}
    assert waiting(by_hand) == [("vendor.name", "Acme Ltd", "Acne", context.run_id)]


async def test_result_reports_only_values_stored_or_removed(by_hand):
    context = await by_hand.context()
    answer = await by_hand.call(context, "update_field", path="vendor.name", value="Acne", confidence=1.0)
    assert (answer.is_error, answer.code, answer.data["proposed"]) == (False, "not_stored", ["vendor.name"])
    assert NAME_STAYS in answer.text and '{"vendor.name": "Acme Ltd"}' in answer.text
    answer = await by_hand.call(context, "remove_field", path="vendor")
    assert (answer.is_error, answer.code, answer.data["proposed"]) == (False, "not_removed", ["vendor"])
    assert VENDOR_STAYS in answer.text
    assert by_hand.extraction()["extracted_fields"]["vendor"] == {"name": "Acme Ltd", "vat": "DE1"}
    assert by_hand.events(context.run_id) == []
    assert waiting(by_hand) == [("vendor", {"name": "Acme Ltd", "vat": "DE1"}, None, context.run_id)]


async def test_lock_owners_correction_writes_only_fields_of_the_message(by_hand):
    context = await by_hand.context(await by_hand.queue_run("correct", instructions="the vendor is Acme Limited"))
    for tool, arguments in (
        ("update_field", {"path": "vendor.name", "value": "Acne", "confidence": 1.0}),
        ("remove_field", {"path": "vendor.name"}),
    ):
        answer = await by_hand.call(context, tool, **arguments)
        assert answer.code in ("not_stored", "not_removed"), answer
        assert (answer.data["proposed"], answer.needs_attention) == (["vendor.name"], True)
    answer = await by_hand.call(context, "update_field", path="vendor.name", value="Acme Limited", confidence=1.0)
    assert (answer.code, answer.data) == ("stored", {"version": 3})
    stored = by_hand.extraction()
    assert stored["locks"].keys() == {"vendor.name"} and waiting(by_hand) == []
    assert stored["evidence"]["vendor.name"]["state"] == "message" and "vendor.name" not in stored["confidence_scores"]
