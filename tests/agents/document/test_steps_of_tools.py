"""What the steps of a run show of a call: what was found or changed, by name, number and version."""

from __future__ import annotations

import json

import pytest

from agents.talking import SCHEMA, talk_at
from fieldmark.agents.library.agent import LIBRARY

pytestmark = pytest.mark.anyio


async def test_the_step_of_a_call_names_what_was_found(talk):
    context = await talk.turn("the vendor is Acme")
    await talk.case.set_fields({"vendor": {"name": "Acme"}, "total": 10})
    talk.case.sql("update public.extractions set evidence = %s", json.dumps({"total": {"page": 1}}))
    schema = (await talk.call(context, "create_schema", name="Invoices", schema=SCHEMA)).data
    prompt = (await talk.call(context, "create_prompt", name="Net", content="Amounts are net.")).data
    await talk.call(context, "create_tag", name="paid")
    await talk.call(context, "update_prompt", tags=["paid"])
    extraction = {"fields": 2, "status": "in_progress", "extraction_id": str(talk.case.extraction_id)}
    by_revid = {"schema_revid": schema["schema_revid"]}
    for tool, arguments, in_message, in_output, details in (
        ("list_schemas", {}, "Invoices", "Invoices", {"schemas": [schema]}),
        ("list_prompts", {"name_search": "ne"}, "Net", "Net", {}),
        ("list_prompts", {"name_search": "gross"}, "no prompts", "0", {"prompts": []}),
        ("list_tags", {}, "1 tag: paid", "paid", {}),
        ("list_documents", {}, "invoice.txt", "invoice.txt", {}),
        ("get_schema", {}, "Invoices", "total, number", {"number": 1, **by_revid}),
        ("get_prompt", {}, "Net", "Amounts are net.", {"number": 2, "tags": ["paid"]}),
        ("get_tag", {"tag": "paid"}, "paid", "1 prompt", {"prompts": 1, "documents": 0}),
        ("get_extraction_result", {}, "2 fields", "total: 10 (page 1)", extraction),
        ("get_extraction_result", {"path": "vendor.name"}, "vendor.name", '"Acme"', {"fields": 1}),
        ("get_ocr_text", {}, "page 1", "", {"pages": [1]}),
        ("validate_against_schema", {"data": {"total": 1}}, "Invoices", "", by_revid),
        ("update_schema", {"name": "Bills"}, "Bills", "", {"number": 2}),
        ("update_document", {"name": "May.pdf"}, "May.pdf", "", {}),
        ("delete_prompt", {"prompt_id": prompt["prompt_id"]}, "Net", "", {}),
    ):
        outcome = await talk.call(context, tool, **arguments)
        assert not outcome.is_error and outcome.shown is not None, (tool, outcome)
        assert in_message in outcome.shown.message, outcome.shown
        assert in_output in (outcome.shown.output or outcome.sentence), outcome.shown
        assert details.items() <= outcome.shown.details.items(), outcome.shown


async def test_a_step_shows_the_first_of_many_fields_and_how_many_there_are(talk):
    context = await talk.turn()
    await talk.case.set_fields({"lines": ["x" * 100] * 1000})
    shown = (await talk.call(context, "get_extraction_result")).shown
    assert shown.details["fields"] == 1000 and len(shown.output) < 40_000 and "900" in shown.output.splitlines()[-1]


async def test_the_summary_of_a_document_shows_its_fields_and_its_beginning(case):
    await case.set_fields({"total": 10})
    case.sql("update public.extractions set status = 'completed'")
    talk = await talk_at(case, LIBRARY)
    shown = (await talk.call(await talk.turn(), "get_document_summary", doc_id=str(case.document_id))).shown
    assert shown.details["documents"][0]["document_id"] == str(case.document_id) and shown.details["fields"] == 1
    assert "total: 10" in shown.output and "Vendor: Acme GmbH" in shown.output
