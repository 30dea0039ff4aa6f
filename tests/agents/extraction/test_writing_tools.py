"""The tools that write an extraction, and their results."""

from __future__ import annotations

import json

import pytest

from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.errors import NoFields
from fieldmark.services import extractions
from fieldmark.tools.toolset import MAX_RESULT_BYTES

pytestmark = pytest.mark.anyio


@pytest.fixture
async def context(case):
    await case.set_fields({"vendor": {"name": "Acme", "vat": "DE1"}, "items": [{"price": 1}, {"price": 2}], "total": 3})
    return await case.context()


async def test_update_field_changes_one_field_and_returns_it(case, context):
    answer = await case.call(
        context, "update_field", path="vendor.name", value="Acme GmbH", confidence=0.8, quote="Vendor: Acme GmbH"
    )
    assert (answer.code, answer.data) == ("stored", {"version": 2})
    assert '{"vendor.name": "Acme GmbH"}' in answer.text
    row = case.extraction()
    assert row["extracted_fields"]["vendor"] == {"name": "Acme GmbH", "vat": "DE1"}
    assert row["confidences"] == {"vendor.name": 0.996}
    assert set(row["evidence"]) == {"vendor.name"}
    (change,) = case.journal()[-1:]
    assert (change["path"], change["old"], change["new"]) == (["vendor", "name"], "Acme", "Acme GmbH")


async def test_list_items_can_only_be_appended_at_the_end(case, context):
    assert not (await case.call(context, "update_field", path="items[2].price", value=9, confidence=1.0)).is_error
    assert case.extraction()["extracted_fields"]["items"] == [{"price": 1}, {"price": 2}, {"price": 9}]
    past = await case.call(context, "update_field", path="items[4].price", value=9, confidence=1.0)
    assert past.is_error


async def test_remove_field_returns_the_removed_value(case, context):
    answer = await case.call(context, "remove_field", path="vendor.vat", reason="asked for")
    assert (answer.code, answer.data) == ("removed", {"version": 2}) and '"DE1"' in answer.text
    assert case.extraction()["extracted_fields"]["vendor"] == {"name": "Acme"}
    event = case.events(context.run_id)[-1]
    assert event["changed"][0] | {"removed": True} == event["changed"][0] and event["version"] == 2


async def test_extract_fields_merges_objects_and_replaces_other_values(case, context):
    fields = {"vendor": {"city": "Ulm"}, "items": [{"price": 10}]}
    scores = {"vendor.city": 0.7, "items[0].price": 0.6}
    quote = {"items[0].price": {"quote": "10.00", "page": 1}}
    answer = await case.call(context, "extract_fields", fields=fields, confidences=scores, evidence=quote)
    row = case.extraction()
    assert row["extracted_fields"] == {
        "vendor": {"name": "Acme", "vat": "DE1", "city": "Ulm"},
        "items": [{"price": 10}],
        "total": 3,
    }
    assert row["confidences"] == {"vendor.city": 0.0, "items[0].price": 0.98}
    assert row["evidence"]["items[0].price"]["claim"] == {"confidence": 0.6, "quote": "10.00", "page": 1}
    assert row["evidence"]["vendor.city"]["claim"] == {"confidence": 0.7, "quote": None, "page": None}
    assert (answer.code, answer.data) == ("stored", {"version": 2, "not_found": ["vendor.city"]})
    assert '"city": "Ulm"' in answer.text


async def test_confidence_paths_accept_every_notation(case, context):
    fields = {"a b": 1, "a.b": {"c": 2}}
    scores = {'["a b"]': 0.5, '["a.b"]["c"]': 0.6}
    assert not (await case.call(context, "extract_fields", fields=fields, confidences=scores)).is_error
    claims = {name: proof["claim"]["confidence"] for name, proof in case.extraction()["evidence"].items()}
    assert claims == {"a b": 0.5, '["a.b"].c': 0.6}


async def test_document_type_is_saved_together_with_the_fields(case, context):
    answer = await case.call(context, "extract_fields", document_type="invoice", fields={"total": 4})
    assert (answer.code, answer.data["document_type"]) == ("stored", "invoice")
    refused = await case.call(context, "extract_fields", document_type="receipt", fields={"": 4})
    assert refused.is_error and case.extraction()["document_type"] == "invoice"


async def test_document_type_is_saved_with_the_completion(case, context):
    await case.call(context, "get_document_text")
    answer = await case.call(context, "complete_extraction", document_type="invoice")
    assert (answer.code, answer.data) == ("completed", {"document_type": "invoice", "version": 1})
    assert case.extraction()["document_type"] == "invoice"


async def test_approver_sees_the_document_type_of_a_call(case, context):
    tools = EXTRACTION.create_tools(context)
    arguments = EXTRACTION.toolset.check("extract_fields", {"document_type": "invoice", "fields": {"total": 4}})
    async with case.database.as_user(context.scope) as conn:
        shown = await tools.actions["extract_fields"].preview(conn, arguments)
    changes = [(one.path, one.old, one.new) for one in shown.changes]
    assert changes == [("document_type", None, "invoice"), ("total", 3, 4)]
    assert (await case.call(context, "identify_document", document_type="receipt")).code == "identified"
    async with case.database.as_user(context.scope) as conn:
        now = await tools.actions["extract_fields"].preview(conn, arguments)
    assert not shown.covers(now)


async def test_identifying_and_completing_without_a_schema(case, context):
    answer = await case.call(context, "identify_document", document_type="invoice", confidence=1.0)
    assert (answer.code, answer.data) == ("identified", {"document_type": "invoice"})
    await case.call(context, "get_document_text")
    answer = await case.call(context, "complete_extraction")
    assert (answer.code, answer.data) == ("completed", {"version": 1})
    row = case.extraction()
    assert (row["document_type"], row["status"]) == ("invoice", "completed")


@pytest.mark.parametrize("fields", [{}, {"vendor": {}, "items": []}, {"total": None}, {"a": None, "b": {}, "c": []}])
async def test_agent_cannot_complete_an_empty_extraction(case, fields):
    context = await case.context()
    await case.set_fields(fields)
    await case.call(context, "get_document_text")
    refused = await case.call(context, "complete_extraction", summary="Done.")
    assert (refused.is_error, refused.code) == (True, "no_fields") and case.extraction()["status"] == "in_progress"
    async with case.database.as_user(case.scope) as conn:
        with pytest.raises(NoFields):  # no approval is requested
            await extractions.preview_completion(conn, case.extraction_id)
        await extractions.complete(conn, case.extraction_id)  # a user may
    assert case.extraction()["status"] == "completed"


async def test_tools_reject_invisible_characters(case, context):
    before = case.extraction()["extracted_fields"]
    hidden = {"fields": {"a": ["x\U000e0041"]}, "confidences": {}}
    for tool, arguments, code in (
        ("update_field", {"path": "name", "value": "Ac\u200bme", "confidence": 1.0}, "invisible_character"),
        ("update_field", {"path": "name", "value": {"a\u202e": 1}, "confidence": 1.0}, "invisible_character"),
        ("update_field", {"path": "na\u2060me", "value": "Acme", "confidence": 1.0}, "invalid_path"),
        ("extract_fields", hidden, "invisible_character"),
    ):
        answer = await case.call(context, tool, **arguments)
        assert (answer.is_error, answer.code) == (True, code)
    assert case.extraction()["extracted_fields"] == before


async def test_current_extraction_is_read_whole_or_by_path(case, context):
    whole = json.loads((await case.call(context, "get_current_extraction")).text)
    assert whole["extracted_fields"]["total"] == 3 and whole["version"] == 1 and whole["status"] == "in_progress"
    assert (await case.call(context, "get_current_extraction", path="items[1]")).text == '{"price": 2}'
    nothing = await case.call(context, "get_current_extraction", path="items[2]")
    assert nothing.is_error and nothing.code == "nothing_there"


async def test_long_extraction_is_read_by_path(case, context):
    await case.set_fields({"lines": ["x" * 100] * 1000})
    whole = await case.call(context, "get_current_extraction")
    assert (whole.is_error, whole.code) == (False, "too_long")
    assert whole.data == {"paths": ["items (2 items)", "lines (1000 items)", "total", "vendor"]}
    part = await case.call(context, "get_current_extraction", path="lines")
    assert part.is_error and part.code == "too_long"
    assert (await case.call(context, "get_current_extraction", path="lines[999]")).text == json.dumps("x" * 100)


async def test_tool_results_stay_within_the_cli_limit(case, context):
    fields = {"notes": ["ä" * 40_000]}
    for answer in (
        await case.call(context, "extract_fields", fields=fields, confidences={}),
        await case.call(context, "update_field", path="notes[0]", value="ö" * 40_000, confidence=1.0),
        await case.call(context, "remove_field", path="notes[0]"),
    ):
        assert not answer.is_error and len(answer.text.encode()) <= MAX_RESULT_BYTES
