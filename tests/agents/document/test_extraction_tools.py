"""The tools that have the document extracted, show what was found, and set a field."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from agents.talking import SCHEMA
from extraction_case import INVOICE, document_with_pages
from fieldmark.agents.document.agent import DOCUMENT
from fieldmark.stores import documents, extractions, tool_calls
from fieldmark.tools.errors import ToolRefusal
from fieldmark.tools.ledger import collect
from fieldmark.tools.toolset import MAX_RESULT_BYTES

pytestmark = pytest.mark.anyio


async def started(talk, context, **arguments) -> dict:
    """The child run that an extraction has started."""
    answer = await talk.call(context, "run_extraction", **arguments)
    assert answer.code == "awaiting_runs", answer
    (child,) = talk.case.sql("select * from public.runs where parent_run_id = %s", context.run_id)
    return child


async def ended(talk, context, child: dict, fields: dict, status="completed", extraction="completed", **columns):
    """What the call answers when the child has ended so, and its extraction has the status `extraction`."""
    talk.case.sql(
        "update public.extractions set extracted_fields = %s, status = %s where id = %s",
        json.dumps(fields),
        extraction,
        child["extraction_id"],
    )
    sets = "".join(f", {name} = %s" for name in columns)
    query = f"update public.runs set status = %s, finished_at = now(){sets} where id = %s"
    talk.case.sql(query, status, *columns.values(), child["id"])
    talk.case.sql("update public.runs set status = 'running', attached = false where id = %s", context.run_id)
    async with talk.case.database.as_user(talk.scope) as conn:
        call = await tool_calls.get(conn, context.run_id, child["parent_call_id"])
    assert call is not None
    return await collect(context, DOCUMENT.create_tools(context), call, ignore_progress)


async def ignore_progress(*_) -> None:
    """Nobody watches."""


async def test_run_extraction_works_without_schema_and_prompt(talk):
    context = await talk.turn("extract")
    child = await started(talk, context)
    assert (child["task"], child["input"], child["approval"]) == ("extract", {}, "auto")
    answer = await ended(talk, context, child, {"total": 10})
    assert answer.code == "extracted" and answer.data["fields"] == {"total": 10}
    assert talk.state == {"extraction_id": str(child["extraction_id"])}
    assert (await talk.call(context, "get_extraction_result")).data["fields"] == {"total": 10}
    assert (await talk.call(context, "get_extraction_result", path="total")).data["value"] == 10
    proof = "update public.extractions set evidence = %s where id = %s"
    talk.case.sql(proof, Jsonb({"total": {"page": 1}, "note": {"page": None}}), child["extraction_id"])
    assert (await talk.call(context, "get_extraction_result")).data["pages"] == {"total": 1}


async def test_run_extraction_uses_the_conversations_prompt_and_latest_schema(talk):
    context = await talk.turn()
    schema = (await talk.call(context, "create_schema", name="Invoices", schema=SCHEMA)).data
    preview = await talk.preview(context, "run_extraction")
    assert [(one.path, one.new) for one in preview.changes] == [("schema", "Invoices (version 1)")]
    prompt = (await talk.call(context, "create_prompt", name="Read", content="Net.", model="other-model")).data
    newer = (await talk.call(context, "update_schema", name="Bills")).data
    preview = await talk.preview(context, "run_extraction")
    assert {(one.path, one.new) for one in preview.changes} == {
        ("prompt", "Read (version 1)"),
        ("schema", "Bills (version 2)"),
        ("model", "other-model"),
    }
    child = await started(talk, context)
    assert (child["input"], child["model"]) == ({"instructions": "Net."}, "other-model")
    answer = await ended(talk, context, child, {"total": 1})
    assert (answer.data["schema_revid"], answer.data["prompt_revid"]) == (newer["schema_revid"], prompt["prompt_revid"])
    assert talk.state["extraction_id"] == str(child["extraction_id"])
    by_prompt = await talk.call(context, "get_extraction_result", prompt_revid=prompt["prompt_revid"])
    assert by_prompt.data["extraction_id"] == str(child["extraction_id"])
    other = await talk.call(context, "get_extraction_result", prompt_revid=str(uuid4()))
    assert (other.is_error, other.code) == (True, "no_extraction")
    assert schema["schema_id"] == newer["schema_id"]


async def test_run_extraction_ignores_deleted_items(talk):
    context = await talk.turn()
    prompt = (await talk.call(context, "create_prompt", name="Read", content="Net.")).data
    await talk.call(context, "delete_prompt", prompt_id=prompt["prompt_id"])
    for call in (talk.preview(context, "run_extraction", prompt_revid=prompt["prompt_revid"]),):
        with pytest.raises(ToolRefusal) as refused:
            await call
        assert refused.value.code == "deleted"
    answer = await talk.call(context, "run_extraction", prompt_revid=prompt["prompt_revid"])
    assert (answer.is_error, answer.code) == (True, "deleted")
    assert (await started(talk, context))["input"] == {}


async def test_failed_child_run_reports_its_reason(talk):
    context = await talk.turn()
    child = await started(talk, context)
    why = {"error": "The agent used all its turns.", "error_code": "max_turns"}
    answer = await ended(talk, context, child, {}, "failed", "failed", **why)
    assert (answer.is_error, answer.code) == (True, "max_turns") and "all its turns" in answer.text
    assert answer.data["run_id"] == str(child["id"]) and "extraction_id" not in talk.state


async def test_large_extraction_is_read_by_path(talk):
    context = await talk.turn()
    child = await started(talk, context)
    answer = await ended(talk, context, child, {"lines": ["x" * 100] * 1000, "total": 1}, answer="y" * 60_000)
    assert answer.code == "extracted" and answer.data["paths"] == ["lines (1000 items)", "total"]
    assert len(answer.text.encode()) <= MAX_RESULT_BYTES
    long = await talk.call(context, "get_extraction_result")
    assert (long.is_error, long.code) == (False, "too_long")
    assert (await talk.call(context, "get_extraction_result", path="lines")).code == "too_long"
    assert (await talk.call(context, "get_extraction_result", path="lines[999]")).data["value"] == "x" * 100
    assert (await talk.call(context, "get_extraction_result", path="lines[1000]")).code == "nothing_there"


async def test_chat_sets_a_locked_field_named_by_the_user(talk):
    await talk.case.set_fields({"vendor": {"name": "Acme GmbH"}, "total": 10})
    context = await talk.turn("the vendor is Acme Ltd")
    preview = await talk.preview(context, "update_extraction_field", path="vendor.name", value="Acme Ltd")
    assert [(one.path, one.old, one.new) for one in preview.changes] == [("vendor.name", "Acme GmbH", "Acme Ltd")]
    answer = await talk.call(context, "update_extraction_field", path="vendor.name", value="Acme Ltd")
    assert (answer.code, answer.data["version"]) == ("stored", 2)
    row = talk.case.extraction()
    assert row["extracted_fields"]["vendor"] == {"name": "Acme Ltd"} and "vendor.name" in row["locks"]
    assert talk.state == {"extraction_id": str(talk.case.extraction_id)}
    # Nobody has spoken of the total: it is the agent's own, with the evidence that there is.
    answer = await talk.call(context, "update_extraction_field", path="total", value=12)
    assert answer.data["not_found"] == ["total"] and "total" not in talk.case.extraction()["locks"]
    assert talk.case.events(context.run_id)[-1]["changed"][0]["path"] == "total"
    # What a person set stays where they do not speak of it.
    answer = await talk.call(context, "update_extraction_field", path="vendor.name", value="Acne")
    assert (answer.code, answer.data["proposed"], answer.needs_attention) == ("not_stored", ["vendor.name"], True)


async def test_completed_extraction_stays_completed_after_a_valid_change(talk):
    query = "update public.extractions set schema = %s, status = %s where id = %s"
    await talk.case.set_fields({"total": 10})
    talk.case.sql(query, json.dumps(SCHEMA), "completed", talk.case.extraction_id)
    context = await talk.turn("the number is 7")
    answer = await talk.call(context, "update_extraction_field", path="number", value="7")
    assert answer.code == "stored" and "reopened" not in answer.data
    assert talk.case.extraction()["status"] == "completed"
    rule = {**SCHEMA, "x-fieldmark": {"rules": [{"equals": ["total", "net"]}]}}
    rule["properties"] = {**SCHEMA["properties"], "net": {"type": "number"}}
    talk.case.sql("update public.extractions set schema = %s where id = %s", json.dumps(rule), talk.case.extraction_id)
    answer = await talk.call(context, "update_extraction_field", path="net", value=3)
    assert answer.data["reopened"] is True and talk.case.extraction()["status"] == "in_progress"


async def test_invalid_field_change_is_rejected(talk):
    context = await talk.turn()
    await talk.case.set_fields({"items": [{"price": 1}]})
    for path, value, code in (
        ("items[4].price", 1, "invalid_path"),
        ("a..b", 1, "invalid_path"),
        ("total", "1\u202e2", "invisible_character"),
    ):
        answer = await talk.call(context, "update_extraction_field", path=path, value=value)
        assert answer.is_error and answer.code in (code, "invalid"), answer
    talk.case.sql("delete from public.extractions")
    none = await talk.call(context, "update_extraction_field", path="total", value=1)
    assert (none.is_error, none.code) == (True, "no_extraction")
    assert (await talk.call(context, "get_extraction_result")).code == "no_extraction"


async def test_conversation_keeps_its_extraction_unless_deleted_or_older(talk, database, clone):
    context = await talk.turn()
    await talk.case.set_fields({"total": 1})
    child = await started(talk, context)
    await ended(talk, context, child, {"total": 2})
    assert (await talk.call(context, "get_extraction_result")).data["fields"] == {"total": 2}
    talk.case.sql("delete from public.extractions where id = %s", child["extraction_id"])
    assert (await talk.call(context, "get_extraction_result")).data["fields"] == {"total": 1}
    async with document_with_pages(database, clone.owner_url, talk.scope, [INVOICE]) as other:
        await other.set_fields({"total": 3})  # newer, and of another document
        result = await talk.call(context, "get_extraction_result")
        assert UUID(result.data["extraction_id"]) == talk.case.extraction_id
    newer = await talk.case.another_extraction()
    await newer.set_fields({"total": 4})
    talk.case.sql("update public.extractions set status = 'completed' where id = %s", newer.extraction_id)
    await talk.call(context, "update_extraction_field", path="total", value=5)
    assert (newer.extraction()["extracted_fields"], talk.case.extraction()["version"]) == ({"total": 5}, 1)


@pytest.mark.parametrize("saved", [{"tax": 7}, {"total": None}, {}])
async def test_unfinished_extraction_does_not_replace_a_completed_one(talk, saved):
    await talk.case.set_fields({"tax": 7, "total": 70})
    talk.case.sql("update public.extractions set status = 'completed' where id = %s", talk.case.extraction_id)
    context = await talk.turn("extract again")
    child = await started(talk, context)
    answer = await ended(talk, context, child, saved, extraction="in_progress", answer="I found the tax.")
    assert (answer.code, answer.data["status"], answer.data["fields"]) == ("not_completed", "in_progress", saved)
    assert answer.needs_attention and ("Nothing was extracted" in answer.text) == (saved != {"tax": 7})
    assert "extraction_id" not in talk.state
    await talk.end(context)
    context = await talk.turn("set the total to 72")
    assert (await talk.call(context, "update_extraction_field", path="total", value=72)).code == "stored"
    assert talk.case.extraction()["extracted_fields"] == {"tax": 7, "total": 72}


async def test_conversation_switches_to_a_completed_extraction(talk):
    context = await talk.turn()
    await talk.case.set_fields({"total": 1})
    unfinished = await talk.case.another_extraction()
    await unfinished.set_fields({"total": 2})
    await talk.call(context, "update_extraction_field", path="total", value=3)
    assert talk.state["extraction_id"] == str(unfinished.extraction_id)  # the newest, as none is completed
    talk.case.sql("update public.extractions set status = 'completed' where id = %s", talk.case.extraction_id)
    await talk.call(context, "update_extraction_field", path="total", value=4)
    assert talk.case.extraction()["extracted_fields"] == {"total": 4}
    assert unfinished.extraction()["extracted_fields"] == {"total": 3}


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_current_extraction_is_never_that_of_a_failed_or_cancelled_run(talk, end):
    async def current() -> UUID | None:
        async with talk.case.database.as_user(talk.scope) as conn:
            return (await documents.find(conn, talk.case.document_id)).current_extraction_id

    async def status_after_run(case, ended: str) -> str:
        run_id = await case.queue_run()
        error = None if ended == "completed" else "It ended."
        talk.case.sql("update public.runs set status = %s, error = %s where id = %s", ended, error, run_id)
        return case.extraction()["status"]

    good, bad, touched = talk.case, await talk.case.another_extraction(), await talk.case.another_extraction()
    await good.set_fields({"total": 1})
    assert await current() == touched.extraction_id  # the newest of those in progress
    assert [await status_after_run(case, end) for case in (bad, touched)] == ["failed", "failed"]
    assert await current() == good.extraction_id
    context = await talk.turn()
    assert (await talk.call(context, "get_extraction_result")).data["fields"] == {"total": 1}
    assert not (await talk.call(context, "update_extraction_field", path="total", value=2)).is_error
    assert good.extraction()["extracted_fields"] == {"total": 2} and bad.extraction()["version"] == 0

    # A person continues one of them, and no later failure takes that back; one that is completed comes first.
    async with talk.case.database.as_user(talk.scope) as conn:
        await extractions.update_field(conn, touched.extraction_id, ("total",), 3, {}, {})
    assert await status_after_run(touched, end) == "in_progress" and await current() == touched.extraction_id
    assert await status_after_run(good, "completed") == "in_progress"
    assert await status_after_run(good, end) == "in_progress"  # a run before has finished on it
    talk.case.sql("update public.extractions set status = 'completed' where id = %s", good.extraction_id)
    assert await current() == good.extraction_id
