"""Writes that violate the schema are undone; violations by users block no other write."""

from __future__ import annotations

import json

import pytest

from fieldmark.stores import extractions

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "required": ["number", "total"],
    "additionalProperties": False,
    "properties": {
        "number": {"type": "string"},
        "total": {"type": "number", "x-fieldmark": {"grounded": True}},
        "subtotal": {"type": "number"},
        "tax": {"type": "number"},
        "items": {"type": "array", "maxItems": 2, "items": {"properties": {"price": {"type": "number"}}}},
    },
    "x-fieldmark": {"rules": [{"sum": ["subtotal", "tax"], "equals": "total", "tolerance": 0.01}]},
}


@pytest.fixture
async def case_with_schema(case):
    set_schema(case, SCHEMA)
    return case


def set_schema(case, schema):
    case.sql("update public.extractions set schema = %s where id = %s", json.dumps(schema), case.extraction_id)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("extract_fields", {"fields": {"number": "1", "total": "10,00"}, "confidences": {}}, "total: "),
        ("extract_fields", {"fields": {"number": "1", "fax": "2"}, "confidences": {}}, "fax: "),
        ("extract_fields", {"fields": {"items": [{"price": 1}, {}, {}]}, "confidences": {}}, "items: "),
        ("update_field", {"path": "items[0].price", "value": "1,0", "confidence": 1.0}, "items[0].price: "),
        ("update_field", {"path": "number", "value": None, "confidence": 1.0}, "number: null is not"),
    ],
)
async def test_write_that_violates_the_schema_is_undone_and_recorded(case_with_schema, tool, arguments, message):
    context = await case_with_schema.context()
    answer = await case_with_schema.call(context, tool, **arguments)
    assert answer.is_error and answer.code == "schema_violation" and f"\n- {message}" in answer.text
    assert answer.data == {"paths": [message.split(":")[0]]}
    assert case_with_schema.extraction()["extracted_fields"] == {} and case_with_schema.extraction()["version"] == 0
    assert case_with_schema.journal() == [] and case_with_schema.events(context.run_id) == []
    (entry,) = case_with_schema.ledger(context.run_id)
    assert (entry["tool"], entry["status"], entry["result"]) == (tool, "failed", answer.sentence)
    assert (entry["code"], entry["data"]) == (answer.code, answer.data)


async def test_incomplete_objects_may_be_written(case_with_schema):
    context = await case_with_schema.context()
    for fields in ({"subtotal": 8.4}, {"items": [{}]}, {"total": 1}):
        assert not (await case_with_schema.call(context, "extract_fields", fields=fields, confidences={})).is_error
    assert not (
        await case_with_schema.call(context, "update_field", path="items[1].price", value=2, confidence=1.0)
    ).is_error
    assert not (await case_with_schema.call(context, "remove_field", path="total")).is_error
    assert case_with_schema.extraction()["extracted_fields"] == {"subtotal": 8.4, "items": [{}, {"price": 2}]}


async def test_violations_by_a_user_do_not_block_agent_writes(case_with_schema):
    async with case_with_schema.database.as_user(case_with_schema.scope) as conn:
        await extractions.update_field(conn, case_with_schema.extraction_id, ["total"], "ten", {}, {})
    context = await case_with_schema.context()
    answer = await case_with_schema.call(context, "extract_fields", fields={"total": 10, "number": "1"}, confidences={})
    assert (answer.is_error, answer.code, answer.data["proposed"]) == (False, "stored_in_part", ["total"])
    assert case_with_schema.extraction()["extracted_fields"] == {"total": "ten", "number": "1"}


async def complete(case, context):
    return await case.call(context, "complete_extraction")


async def save(case, fields, evidence=None):
    async with case.database.as_user(case.scope) as conn:
        await extractions.save_fields(conn, case.extraction_id, fields, {}, evidence or {})
    case.sql("update public.extractions set locks = '{}' where id = %s", case.extraction_id)


async def test_completion_lists_all_faults_and_succeeds_when_fixed(case_with_schema):
    await save(case_with_schema, {"subtotal": 100.0, "tax": 19.0, "total": 120.0})
    context = await case_with_schema.context()
    await case_with_schema.call(context, "get_document_text")
    refused = await complete(case_with_schema, context)
    assert (refused.is_error, refused.code) == (True, "schema_violation")
    assert refused.data == {"paths": ["number", "total"]}
    assert case_with_schema.extraction()["status"] == "in_progress"
    await save(case_with_schema, {"number": "1", "total": 119.0}, {"total": {"state": "found", "page": 1}})
    assert not (await complete(case_with_schema, context)).is_error
    assert case_with_schema.extraction()["status"] == "completed"


async def test_completed_run_cannot_write(case_with_schema):
    context = await case_with_schema.context()
    await case_with_schema.call(context, "get_document_text")
    await case_with_schema.call(context, "extract_fields", fields={"number": "1", "total": 10}, confidences={})
    assert (await case_with_schema.call(context, "complete_extraction")).code == "completed"
    for tool, arguments in WRITES:
        answer = await case_with_schema.call(context, tool, **arguments)
        assert (answer.is_error, answer.code) == (True, "already_completed")
    assert case_with_schema.extraction()["status"] == "completed"
    assert case_with_schema.extraction()["extracted_fields"] == {"number": "1", "total": 10}


WRITES = (
    ("update_field", {"path": "number", "value": "2", "confidence": 1.0}),
    ("extract_fields", {"fields": {"number": "1"}, "confidences": {}}),
    ("remove_field", {"path": "number"}),
    ("identify_document", {"document_type": "receipt", "confidence": 1.0}),
)


async def test_correction_that_writes_after_completing_must_complete_again(case_with_schema):
    context = await case_with_schema.context(await case_with_schema.queue_run("correct", instructions="correct it"))
    await case_with_schema.call(context, "get_document_text")
    await case_with_schema.call(context, "extract_fields", fields={"number": "1", "total": 10}, confidences={})
    assert not (await case_with_schema.call(context, "complete_extraction")).is_error
    for tool, arguments in WRITES[:3]:
        answer = await case_with_schema.call(context, tool, **arguments)
        assert answer.data["reopened"] is True, answer
        assert case_with_schema.extraction()["status"] == "in_progress"
        again = await case_with_schema.call(context, "complete_extraction")
        assert again.is_error == (tool == "remove_field")


async def test_document_that_is_empty_of_all_fields_can_be_completed(case):
    nullable = {name: {"type": [kind, "null"]} for name, kind in {"number": "string", "total": "number"}.items()}
    set_schema(case, {"type": "object", "required": list(nullable), "properties": nullable})
    context = await case.context()
    await case.call(context, "get_document_text")
    refused = await case.call(context, "complete_extraction", summary="Done.")
    assert (refused.is_error, refused.code) == (True, "no_fields")  # nothing was written yet
    await case.call(context, "extract_fields", fields={"number": None}, confidences={})
    refused = await case.call(context, "complete_extraction", summary="Done.")
    assert (refused.is_error, refused.code) == (True, "schema_violation")
    await case.call(context, "extract_fields", fields={"total": None}, confidences={})
    done = await case.call(context, "complete_extraction", summary="Done.")
    assert (done.is_error, case.extraction()["status"]) == (False, "completed")
