"""A write with a summary also completes the extraction, in the same transaction. The write is kept if it may not."""

from __future__ import annotations

import json

import pytest

from extraction_case import document_with_pages
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.stores import extractions
from fieldmark.tools.ledger import StartedBy, ToolCall, execute

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "required": ["number"],
    "properties": {"number": {"type": "string"}, "net": {"type": "number"}, "total": {"type": "number"}},
    "x-fieldmark": {"rules": [{"sum": ["net"], "equals": "total", "tolerance": 0.01}]},
}
DONE = {"summary": "All fields were found."}


@pytest.fixture
async def create_case(database, clone, make_user):
    """Create a document with these pages; returns (its case, the context of a run that has read its first page)."""
    scope = await make_user()

    async def create_case(pages, schema=None, task="extract", message=None):
        async with document_with_pages(database, clone.owner_url, scope, pages) as case:
            if schema is not None:
                case.sql(
                    "update public.extractions set schema = %s where id = %s", json.dumps(schema), case.extraction_id
                )
            context = await case.context(await case.queue_run(task, message))
            await case.call(context, "get_document_text", pages="1")
            return case, context

    return create_case


def answer_of(arguments, outcome):
    """Return the text that ends the run after this call, None if it does not end."""
    answer = EXTRACTION.toolset.answer("extract_fields", arguments, outcome.data)
    return answer and answer.text


async def test_write_with_a_summary_completes_the_extraction(create_case):
    case, context = await create_case(["Number: 1"], SCHEMA)
    arguments = {"document_type": "invoice", "fields": {"number": "1"}, **DONE}
    outcome = await case.call(context, "extract_fields", **arguments)
    data = {"version": 1, "document_type": "invoice", "complete_extraction": "completed"}
    assert (outcome.code, outcome.data, outcome.needs_attention) == ("stored", data, False)
    assert answer_of(arguments, outcome) == DONE["summary"]
    row = case.extraction()
    assert (row["status"], row["document_type"], row["extracted_fields"]) == ("completed", "invoice", {"number": "1"})
    late = await case.call(context, "update_field", path="number", value="2")
    assert (late.is_error, late.code) == (True, "already_completed")


async def test_write_without_a_summary_does_not_complete(create_case):
    case, context = await create_case(["Number: 1"])
    arguments = {"fields": {"number": "1"}}
    outcome = await case.call(context, "extract_fields", **arguments)
    assert (outcome.data, answer_of(arguments, outcome)) == ({"version": 1}, None)
    assert case.extraction()["status"] == "in_progress"


@pytest.mark.parametrize(
    ("pages", "schema", "fields", "code", "reasons"),
    [
        (1, SCHEMA, {"net": 1}, "schema_violation", {"paths": ["number"]}),
        (1, SCHEMA, {"number": "1", "net": 1, "total": 2}, "schema_violation", {"paths": []}),
        (2, None, {"number": "1"}, "unread_pages", {"pages": [2]}),
        (2, SCHEMA, {"net": 1}, "unread_pages", {"pages": [2], "paths": ["number"]}),
        (1, None, {"number": None}, "no_fields", {}),
    ],
    ids=["required field", "rule", "unread page", "unread page and required field", "no value"],
)
async def test_write_is_kept_if_its_completion_is_refused(create_case, pages, schema, fields, code, reasons):
    case, context = await create_case(["Number: 1"] * pages, schema)
    arguments = {"fields": fields, **DONE}
    outcome = await case.call(context, "extract_fields", **arguments)
    assert (outcome.code, outcome.is_error, outcome.needs_attention) == ("stored", False, True)
    names = {"version", "complete_extraction", *reasons}
    assert {name: outcome.data[name] for name in names} == {"version": 1, "complete_extraction": code, **reasons}
    assert answer_of(arguments, outcome) is None
    assert (case.extraction()["status"], case.extraction()["extracted_fields"]) == ("in_progress", fields)


async def test_unread_pages_are_asked_for_once_by_either_tool(create_case):
    for first, then in (("extract_fields", "complete_extraction"), ("complete_extraction", "extract_fields")):
        case, context = await create_case(["Number: 1", "Page 2"])
        await case.set_fields({"total": 1})
        calls = {"extract_fields": {"fields": {"number": "1"}, **DONE}, "complete_extraction": DONE}
        asked = await case.call(context, first, **calls[first])
        assert "unread_pages" in (asked.code, asked.data.get("complete_extraction"))
        await case.call(context, then, **calls[then])
        assert case.extraction()["status"] == "completed"


async def test_correction_is_not_completed_over_a_value_that_stays(create_case):
    case, context = await create_case(["Number: 1"], None, "correct", "the total is 3")
    async with case.database.as_user(case.scope) as conn:
        await extractions.update_field(conn, case.extraction_id, ["vendor"], "Acme Ltd", {}, {})
    kept = await case.call(context, "extract_fields", fields={"vendor": "Acne"}, **DONE)
    assert (kept.code, kept.data["complete_extraction"], kept.needs_attention) == ("not_stored", "answer_unread", True)
    assert case.extraction()["status"] == "in_progress"
    done = await case.call(context, "extract_fields", fields={"total": 3}, **DONE)
    assert done.data["complete_extraction"] == "completed" and case.extraction()["status"] == "completed"


async def test_correction_of_a_complete_extraction_completes_it_again(create_case):
    case, context = await create_case(["Number: 1"], SCHEMA, "correct", "the number is 2")
    await case.set_fields({"number": "1"})
    case.sql("update public.extractions set status = 'completed' where id = %s", case.extraction_id)
    outcome = await case.call(context, "extract_fields", fields={"number": "2"}, **DONE)
    assert outcome.data["complete_extraction"] == "completed" and "reopened" not in outcome.data
    assert case.extraction()["status"] == "completed"


async def test_repeated_completing_write_is_carried_out_once(create_case):
    case, context = await create_case(["Number: 1"])
    arguments = {"fields": {"number": "1"}, **DONE}
    await case.record_call(context, "extract_fields", arguments, "call-1")
    call, tools = ToolCall("extract_fields", "call-1", arguments), EXTRACTION.create_tools(context)
    first, again = [await execute(tools, context, call, started_by=StartedBy.POLICY) for _ in range(2)]
    assert (again.sentence, again.data) == (first.sentence, first.data)
    assert [row["path"] for row in case.journal()] == [["number"]] and case.extraction()["status"] == "completed"
