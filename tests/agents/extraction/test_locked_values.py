"""Writes to values locked by a user become proposals; the other values are written."""

from __future__ import annotations

import pytest

from fieldmark.stores import extractions

pytestmark = pytest.mark.anyio


@pytest.fixture
async def locked_case(case):
    """A case whose vendor name is locked by a user."""
    await case.set_fields({"vendor": {"name": "Acme", "vat": "DE1"}, "total": 3})
    async with case.database.as_user(case.scope) as conn:
        await extractions.update_field(conn, case.extraction_id, ["vendor", "name"], "Acme Ltd", {}, {})
    return case


def pending_proposals(case):
    rows = case.sql("select name, old, new, run_id from public.extraction_proposals where status = 'pending'")
    return [tuple(row.values()) for row in rows]


async def test_model_receives_kept_values_and_events_contain_changes(locked_case):
    context = await locked_case.context()
    fields = {"vendor": {"name": "Acne", "vat": "DE2"}, "total": 3}
    answer = await locked_case.call(
        context, "extract_fields", fields=fields, confidences={"vendor.vat": 0.5, "total": 0.5}
    )
    assert (answer.is_error, answer.code) == (False, "stored_in_part")
    assert answer.data == {
        "version": 3,
        "not_found": ["vendor.name", "vendor.vat", "total"],
        "proposed": ["vendor.name"],
    }
    assert '{"vendor": {"vat": "DE2", "name": "Acme Ltd"}, "total": 3}' in answer.text
    (event,) = locked_case.events(context.run_id)
    assert event["changed"][0].pop("evidence")["state"] == "not_found"
    change = {"path": "vendor.vat", "value": "DE2", "confidence": 0}
    assert event == {"type": "changed", "changed": [change], "version": 3}
    assert pending_proposals(locked_case) == [("vendor.name", "Acme Ltd", "Acne", context.run_id)]


async def test_result_reports_only_values_stored_or_removed(locked_case):
    context = await locked_case.context()
    answer = await locked_case.call(context, "update_field", path="vendor.name", value="Acne", confidence=1.0)
    assert (answer.is_error, answer.code, answer.data["proposed"]) == (False, "not_stored", ["vendor.name"])
    assert '{"vendor.name": "Acme Ltd"}' in answer.text
    answer = await locked_case.call(context, "remove_field", path="vendor")
    assert (answer.is_error, answer.code, answer.data["proposed"]) == (False, "not_removed", ["vendor"])
    assert locked_case.extraction()["extracted_fields"]["vendor"] == {"name": "Acme Ltd", "vat": "DE1"}
    assert locked_case.events(context.run_id) == []
    assert pending_proposals(locked_case) == [("vendor", {"name": "Acme Ltd", "vat": "DE1"}, None, context.run_id)]


async def test_lock_owners_correction_writes_only_fields_of_the_message(locked_case):
    context = await locked_case.context(
        await locked_case.queue_run("correct", instructions="the vendor is Acme Limited")
    )
    for tool, arguments in (
        ("update_field", {"path": "vendor.name", "value": "Acne", "confidence": 1.0}),
        ("remove_field", {"path": "vendor.name"}),
    ):
        answer = await locked_case.call(context, tool, **arguments)
        assert answer.code in ("not_stored", "not_removed"), answer
        assert (answer.data["proposed"], answer.needs_attention) == (["vendor.name"], True)
    answer = await locked_case.call(context, "update_field", path="vendor.name", value="Acme Limited", confidence=1.0)
    assert (answer.code, answer.data) == ("stored", {"version": 3})
    stored = locked_case.extraction()
    assert stored["locks"].keys() == {"vendor.name"} and pending_proposals(locked_case) == []
    assert stored["evidence"]["vendor.name"]["state"] == "message" and "vendor.name" not in stored["confidences"]
