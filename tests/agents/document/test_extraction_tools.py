"""Tools that start an extraction, return its result, and set fields."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from agents.conversation import SCHEMA
from extraction_case import INVOICE, document_with_pages
from fieldmark.agents.document.agent import DOCUMENT
from fieldmark.agents.document.conversation import Conversation
from fieldmark.agents.document.message import message_context
from fieldmark.stores import documents, extractions, tool_calls
from fieldmark.tools.errors import ToolRefusal
from fieldmark.tools.ledger import collect
from fieldmark.tools.toolset import MAX_RESULT_BYTES

pytestmark = pytest.mark.anyio


async def run_extraction(chat, context, **arguments) -> dict:
    answer = await chat.call(context, "run_extraction", **arguments)
    assert answer.code == "awaiting_runs", answer
    (child,) = chat.case.sql("select * from public.runs where parent_run_id = %s", context.run_id)
    return child


async def finish_child(chat, context, child: dict, fields: dict, status="completed", extraction="completed", **columns):
    """Finish the child run and return the result of the call that started it. `extraction` is the status of the
    extraction."""
    chat.case.sql(
        "update public.extractions set extracted_fields = %s, status = %s where id = %s",
        json.dumps(fields),
        extraction,
        child["extraction_id"],
    )
    sets = "".join(f", {name} = %s" for name in columns)
    query = f"update public.runs set status = %s, finished_at = now(){sets} where id = %s"
    chat.case.sql(query, status, *columns.values(), child["id"])
    chat.case.sql("update public.runs set status = 'running', attached = false where id = %s", context.run_id)
    async with chat.case.database.as_user(chat.scope) as conn:
        call = await tool_calls.find(conn, context.run_id, child["parent_call_id"])
    assert call is not None
    return await collect(context, DOCUMENT.create_tools(context), call, discard_progress)


async def discard_progress(*_) -> None:
    pass


async def test_run_extraction_works_without_schema_and_prompt(chat):
    context = await chat.turn("extract")
    child = await run_extraction(chat, context)
    assert (child["task"], child["input"], child["approval"]) == ("extract", {}, "auto")
    answer = await finish_child(chat, context, child, {"total": 10})
    assert answer.code == "extracted" and answer.data["fields"] == {"total": 10}
    assert chat.state == {"extraction_id": str(child["extraction_id"])}
    assert (await chat.call(context, "get_extraction_result")).data["fields"] == {"total": 10}
    assert (await chat.call(context, "get_extraction_result", path="total")).data["value"] == 10
    proof = "update public.extractions set evidence = %s where id = %s"
    chat.case.sql(proof, Jsonb({"total": {"page": 1}, "note": {"page": None}}), child["extraction_id"])
    assert (await chat.call(context, "get_extraction_result")).data["pages"] == {"total": 1}


async def test_run_extraction_uses_the_conversations_prompt_and_latest_schema(chat):
    context = await chat.turn()
    schema = (await chat.call(context, "create_schema", name="Invoices", schema=SCHEMA)).data
    preview = await chat.preview(context, "run_extraction")
    assert [(one.path, one.new) for one in preview.changes] == [("schema", "Invoices (version 1)")]
    prompt = (await chat.call(context, "create_prompt", name="Read", content="Net.", model="other-model")).data
    newer = (await chat.call(context, "update_schema", name="Bills")).data
    preview = await chat.preview(context, "run_extraction")
    assert {(one.path, one.new) for one in preview.changes} == {
        ("prompt", "Read (version 1)"),
        ("schema", "Bills (version 2)"),
        ("model", "other-model"),
    }
    child = await run_extraction(chat, context)
    assert (child["input"], child["model"]) == ({}, "other-model")
    answer = await finish_child(chat, context, child, {"total": 1})
    assert (answer.data["schema_revid"], answer.data["prompt_revid"]) == (newer["schema_revid"], prompt["prompt_revid"])
    assert chat.state["extraction_id"] == str(child["extraction_id"])
    by_prompt = await chat.call(context, "get_extraction_result", prompt_revid=prompt["prompt_revid"])
    assert by_prompt.data["extraction_id"] == str(child["extraction_id"])
    other = await chat.call(context, "get_extraction_result", prompt_revid=str(uuid4()))
    assert (other.is_error, other.code) == (True, "no_extraction")
    assert schema["schema_id"] == newer["schema_id"]


async def test_prompt_keeps_to_its_pinned_schema_version(chat):
    context = await chat.turn()
    schema = (await chat.call(context, "create_schema", name="Invoices", schema=SCHEMA)).data
    pinned = await chat.call(context, "create_prompt", name="Pinned", content="Net.", schema_version=1)
    await chat.call(context, "create_prompt", name="Following", content="Net.")
    changed = await chat.call(context, "update_schema", schema={**SCHEMA, "title": "2"})
    uses = [{"prompt_id": None, "name": "Following", "schema_version": None}]
    uses += [{"prompt_id": pinned.data["prompt_id"], "name": "Pinned", "schema_version": 1}]
    assert [{**one, "prompt_id": uses[n]["prompt_id"]} for n, one in enumerate(changed.data["prompts"])] == uses
    assert "Following" in changed.text and "Pinned" in changed.text
    by_pinned = {"prompt_revid": pinned.data["prompt_revid"]}
    preview = await chat.preview(context, "run_extraction", **by_pinned)
    assert [one.new for one in preview.changes] == ["Pinned (version 1)", "Invoices (version 1)"]
    child = await run_extraction(chat, context, **by_pinned)
    answer = await finish_child(chat, context, child, {"total": 1})
    assert answer.data["schema_revid"] == schema["schema_revid"]
    # Omitted, the pin stays; null follows the latest version again.
    kept = (await chat.call(context, "update_prompt", content="Gross.", **by_pinned)).data
    assert kept["schema_version"] == 1
    freed = (await chat.call(context, "update_prompt", schema_version=None)).data
    assert "schema_version" not in freed
    unknown = await chat.call(context, "update_prompt", schema_version=9)
    assert (unknown.is_error, unknown.code) == (True, "not_found")


@pytest.mark.parametrize("kind", ["schema", "prompt"])
async def test_run_extraction_refuses_deleted_items(chat, kind):
    before = await chat.turn()
    schema = (await chat.call(before, "create_schema", name="Invoices", schema=SCHEMA)).data
    prompt = (await chat.call(before, "create_prompt", name="Read", content="Net.")).data
    chat.case.sql(f"update public.{kind}s set deleted_at = now()")
    context = await chat.turn()
    for given in ({}, {"prompt_revid": prompt["prompt_revid"]}):
        with pytest.raises(ToolRefusal) as refused:
            await chat.preview(context, "run_extraction", **given)
        assert refused.value.code == "deleted"
        answer = await chat.call(context, "run_extraction", **given)
        assert (answer.is_error, answer.code) == (True, "deleted")
    async with chat.case.database.as_user(chat.scope) as conn:
        assert f'"{kind}_deleted": true' in (await message_context(conn, Conversation.of(context))).text
    assert schema["schema_id"] == prompt["schema_id"]
    child = await run_extraction(chat, context, free_form=True)
    answer = await finish_child(chat, context, child, {"total": 1})
    assert not {"schema_revid", "prompt_revid"} & answer.data.keys()


async def test_failed_child_run_reports_its_reason(chat):
    context = await chat.turn()
    child = await run_extraction(chat, context)
    why = {"error": "The agent used all its turns.", "error_code": "max_turns"}
    answer = await finish_child(chat, context, child, {}, "failed", "failed", **why)
    assert (answer.is_error, answer.code) == (True, "max_turns")
    assert answer.data["run_id"] == str(child["id"]) and "extraction_id" not in chat.state


async def test_large_extraction_is_read_by_path(chat):
    context = await chat.turn()
    child = await run_extraction(chat, context)
    answer = await finish_child(chat, context, child, {"lines": ["x" * 100] * 1000, "total": 1}, answer="y" * 60_000)
    assert answer.code == "extracted" and answer.data["paths"] == ["lines (1000 items)", "total"]
    assert len(answer.text.encode()) <= MAX_RESULT_BYTES
    long = await chat.call(context, "get_extraction_result")
    assert (long.is_error, long.code) == (False, "too_long")
    assert (await chat.call(context, "get_extraction_result", path="lines")).code == "too_long"
    assert (await chat.call(context, "get_extraction_result", path="lines[999]")).data["value"] == "x" * 100
    assert (await chat.call(context, "get_extraction_result", path="lines[1000]")).code == "nothing_there"


async def test_chat_sets_a_locked_field_named_by_the_user(chat):
    await chat.case.set_fields({"vendor": {"name": "Acme GmbH"}, "total": 10})
    context = await chat.turn("the vendor is Acme Ltd")
    preview = await chat.preview(context, "update_extraction_field", path="vendor.name", value="Acme Ltd")
    assert [(one.path, one.old, one.new) for one in preview.changes] == [("vendor.name", "Acme GmbH", "Acme Ltd")]
    answer = await chat.call(context, "update_extraction_field", path="vendor.name", value="Acme Ltd")
    assert (answer.code, answer.data["version"]) == ("stored", 2)
    row = chat.case.extraction()
    assert row["extracted_fields"]["vendor"] == {"name": "Acme Ltd"} and "vendor.name" in row["locks"]
    assert chat.state == {"extraction_id": str(chat.case.extraction_id)}
    # The message does not mention the total: it is the agent's value, with its evidence.
    answer = await chat.call(context, "update_extraction_field", path="total", value=12)
    assert answer.data["not_found"] == ["total"] and "total" not in chat.case.extraction()["locks"]
    assert chat.case.events(context.run_id)[-1]["changed"][0]["path"] == "total"
    # A locked value stays if the message does not mention it.
    answer = await chat.call(context, "update_extraction_field", path="vendor.name", value="Acne")
    assert (answer.code, answer.data["proposed"], answer.needs_attention) == ("not_stored", ["vendor.name"], True)


async def test_completed_extraction_stays_completed_after_a_valid_change(chat):
    query = "update public.extractions set schema = %s, status = %s where id = %s"
    await chat.case.set_fields({"total": 10})
    chat.case.sql(query, json.dumps(SCHEMA), "completed", chat.case.extraction_id)
    context = await chat.turn("the number is 7")
    answer = await chat.call(context, "update_extraction_field", path="number", value="7")
    assert answer.code == "stored" and "reopened" not in answer.data
    assert chat.case.extraction()["status"] == "completed"
    rule = {**SCHEMA, "x-fieldmark": {"rules": [{"equals": ["total", "net"]}]}}
    rule["properties"] = {**SCHEMA["properties"], "net": {"type": "number"}}
    chat.case.sql("update public.extractions set schema = %s where id = %s", json.dumps(rule), chat.case.extraction_id)
    answer = await chat.call(context, "update_extraction_field", path="net", value=3)
    assert answer.data["reopened"] is True and chat.case.extraction()["status"] == "in_progress"


async def test_invalid_field_change_is_rejected(chat):
    context = await chat.turn()
    await chat.case.set_fields({"items": [{"price": 1}]})
    for path, value, code in (
        ("items[4].price", 1, "invalid_path"),
        ("a..b", 1, "invalid_path"),
        ("total", "1\u202e2", "invisible_character"),
    ):
        answer = await chat.call(context, "update_extraction_field", path=path, value=value)
        assert answer.is_error and answer.code in (code, "invalid"), answer
    chat.case.sql("delete from public.extractions")
    none = await chat.call(context, "update_extraction_field", path="total", value=1)
    assert (none.is_error, none.code) == (True, "no_extraction")
    assert (await chat.call(context, "get_extraction_result")).code == "no_extraction"


async def test_conversation_keeps_its_extraction_unless_deleted_or_older(chat, database, clone):
    context = await chat.turn()
    await chat.case.set_fields({"total": 1})
    child = await run_extraction(chat, context)
    await finish_child(chat, context, child, {"total": 2})
    assert (await chat.call(context, "get_extraction_result")).data["fields"] == {"total": 2}
    chat.case.sql("delete from public.extractions where id = %s", child["extraction_id"])
    assert (await chat.call(context, "get_extraction_result")).data["fields"] == {"total": 1}
    async with document_with_pages(database, clone.owner_url, chat.scope, [INVOICE]) as other:
        await other.set_fields({"total": 3})  # newer, and of another document
        result = await chat.call(context, "get_extraction_result")
        assert UUID(result.data["extraction_id"]) == chat.case.extraction_id
    newer = await chat.case.another_extraction()
    await newer.set_fields({"total": 4})
    chat.case.sql("update public.extractions set status = 'completed' where id = %s", newer.extraction_id)
    await chat.call(context, "update_extraction_field", path="total", value=5)
    assert (newer.extraction()["extracted_fields"], chat.case.extraction()["version"]) == ({"total": 5}, 1)


@pytest.mark.parametrize("saved", [{"tax": 8}, {}])
async def test_newest_extraction_counts_even_if_it_is_unfinished_unless_it_is_empty(chat, saved):
    await chat.case.set_fields({"tax": 7, "total": 70})
    chat.case.sql("update public.extractions set status = 'completed' where id = %s", chat.case.extraction_id)
    context = await chat.turn("extract again")
    child = await run_extraction(chat, context)
    answer = await finish_child(chat, context, child, saved, extraction="in_progress", answer="I found the tax.")
    assert (answer.code, answer.data["status"], answer.data["fields"]) == ("not_completed", "in_progress", saved)
    assert answer.needs_attention
    assert "extraction_id" not in chat.state
    await chat.end(context)
    context = await chat.turn("set the total to 72")
    assert (await chat.call(context, "update_extraction_field", path="total", value=72)).code == "stored"
    newest = replace(chat.case, extraction_id=child["extraction_id"]) if saved else chat.case
    assert newest.extraction()["extracted_fields"] == {"tax": 7} | saved | {"total": 72}


async def test_conversation_uses_the_newest_extraction(chat):
    context = await chat.turn()
    await chat.case.set_fields({"total": 1})
    unfinished = await chat.case.another_extraction()
    await unfinished.set_fields({"total": 2})
    await chat.call(context, "update_extraction_field", path="total", value=3)
    assert chat.state["extraction_id"] == str(unfinished.extraction_id)
    chat.case.sql("update public.extractions set status = 'completed' where id = %s", chat.case.extraction_id)
    await chat.call(context, "update_extraction_field", path="total", value=4)
    assert unfinished.extraction()["extracted_fields"] == {"total": 4}
    assert chat.case.extraction()["extracted_fields"] == {"total": 1}


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_current_extraction_is_never_that_of_a_failed_or_cancelled_run(chat, end):
    async def current() -> UUID | None:
        async with chat.case.database.as_user(chat.scope) as conn:
            return (await documents.get(conn, chat.case.document_id)).shown_extraction_id

    async def status_after_run(case, finish_child: str) -> str:
        run_id = await case.queue_run()
        error = None if finish_child == "completed" else "Ended."
        chat.case.sql("update public.runs set status = %s, error = %s where id = %s", finish_child, error, run_id)
        return case.extraction()["status"]

    first, second, third = (
        chat.case,
        await chat.case.another_extraction(),
        await chat.case.another_extraction(),
    )
    await first.set_fields({"total": 1})
    assert await current() == first.extraction_id  # the newest with values
    assert [await status_after_run(case, end) for case in (second, third)] == ["failed", "failed"]
    assert await current() == first.extraction_id
    context = await chat.turn()
    assert (await chat.call(context, "get_extraction_result")).data["fields"] == {"total": 1}
    assert not (await chat.call(context, "update_extraction_field", path="total", value=2)).is_error
    assert first.extraction()["extracted_fields"] == {"total": 2} and second.extraction()["version"] == 0

    # A user edit keeps an extraction usable after later failures.
    async with chat.case.database.as_user(chat.scope) as conn:
        await extractions.update_field(conn, third.extraction_id, ("total",), 3, {}, {})
    assert await status_after_run(third, end) == "in_progress" and await current() == third.extraction_id
    assert await status_after_run(first, "completed") == "in_progress"
    assert await status_after_run(first, end) == "in_progress"  # an earlier run completed it
    chat.case.sql("update public.extractions set status = 'completed' where id = %s", first.extraction_id)
    assert await current() == third.extraction_id  # the newest, although only the other is completed
