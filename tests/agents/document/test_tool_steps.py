"""Steps of a run as shown to the user: names, numbers and versions of what a call found or changed."""

from __future__ import annotations

import json

import pytest

from agents.conversation import SCHEMA, start_chat
from fieldmark.agents.library.agent import LIBRARY

pytestmark = pytest.mark.anyio


async def test_step_names_what_a_call_found(chat):
    context = await chat.turn("the vendor is Acme")
    await chat.case.set_fields({"vendor": {"name": "Acme"}, "total": 10})
    chat.case.sql("update public.extractions set evidence = %s", json.dumps({"total": {"page": 1}}))
    schema = (await chat.call(context, "create_schema", name="Invoices", schema=SCHEMA)).data
    prompt = (await chat.call(context, "create_prompt", name="Net", content="Amounts are net.")).data
    await chat.call(context, "create_tag", name="paid")
    await chat.call(context, "update_prompt", tags=["paid"])
    extraction = {"fields": 2, "status": "in_progress", "extraction_id": str(chat.case.extraction_id)}
    by_revid = {"schema_revid": schema["schema_revid"]}
    for tool, arguments, in_message, in_output, details in (
        ("list_schemas", {}, "Invoices", "Invoices", {"schemas": [schema]}),
        ("list_prompts", {"name_search": "ne"}, "Net", "Net", {}),
        ("list_prompts", {"name_search": "gross"}, "no prompts", "0", {"prompts": []}),
        ("list_tags", {}, "1 tag: paid", "paid", {}),
        ("list_documents", {}, "invoice.txt", "invoice.txt", {}),
        ("get_schema", {}, "Invoices", "number, total", {"number": 1, **by_revid}),
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
        outcome = await chat.call(context, tool, **arguments)
        assert not outcome.is_error and outcome.shown is not None, (tool, outcome)
        assert in_message in outcome.shown.message, outcome.shown
        assert in_output in (outcome.shown.output or outcome.sentence), outcome.shown
        assert details.items() <= outcome.shown.details.items(), outcome.shown


async def test_step_shows_the_first_fields_and_their_number(chat):
    context = await chat.turn()
    await chat.case.set_fields({"lines": ["x" * 100] * 1000})
    shown = (await chat.call(context, "get_extraction_result")).shown
    assert shown.details["fields"] == 1000 and len(shown.output) < 40_000 and "900" in shown.output.splitlines()[-1]


async def test_step_of_a_document_summary_shows_fields_and_text(case):
    await case.set_fields({"total": 10})
    case.sql("update public.extractions set status = 'completed'")
    chat = await start_chat(case, LIBRARY)
    shown = (await chat.call(await chat.turn(), "get_document_summary", document_id=str(case.document_id))).shown
    assert shown.details["documents"][0]["document_id"] == str(case.document_id) and shown.details["fields"] == 1
    assert "total: 10" in shown.output and "Vendor: Acme GmbH" in shown.output
