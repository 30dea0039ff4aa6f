"""Limits of auto_create runs, and that they do not apply to conversations."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from agents.conversation import SCHEMA, Chat
from extraction_case import ExtractionCase
from fieldmark.agents.document.agent import AUTO_CREATE, DOCUMENT
from fieldmark.agents.document.limits import MAX_CALLS
from fieldmark.runs.lifecycle.context import run_context
from fieldmark.stores import runs
from fieldmark.stores.library import PromptText, prompts, schemas, tags
from fieldmark.stores.runs import Subject
from fieldmark.tools.context import RunContext

pytestmark = pytest.mark.anyio


@pytest.fixture
async def auto_create_context(case: ExtractionCase) -> RunContext:
    """The context of an auto_create run."""
    async with case.database.as_user(case.scope) as conn:
        run_id = await runs.add(
            conn,
            case.scope,
            id=uuid4(),
            agent=DOCUMENT.name,
            task=AUTO_CREATE.name,
            task_input={},
            subject=Subject(case.document_id),
        )
        claimed = await runs.claim(conn, run_id)
    assert claimed is not None
    return run_context(case.database, case.scope, claimed)


async def call_code(chat: Chat, context: RunContext, name: str, /, **arguments: Any) -> str:
    return (await chat.call(context, name, **arguments)).code


def get_created_ids(case: ExtractionCase) -> dict[str, Any]:
    return case.sql("select schema_revid, prompt_revid, extraction_id from auto_creations")[0]


def changed_schema(number: int) -> dict[str, Any]:
    return {**SCHEMA, "description": f"Number {number}"}


async def test_auto_create_makes_one_schema_and_prompt_with_two_refinements(
    chat: Chat, auto_create_context: RunContext
) -> None:
    # Refused calls do not count.
    assert (
        await call_code(chat, auto_create_context, "create_schema", name="One", schema={"type": "nothing"})
        == "invalid_schema"
    )
    assert await call_code(chat, auto_create_context, "create_schema", name="One", schema=SCHEMA) == "schema_created"
    assert (
        await call_code(chat, auto_create_context, "create_schema", name="Two", schema=SCHEMA) == "too_many_refinements"
    )
    assert await call_code(chat, auto_create_context, "create_prompt", name="One", content="Read.") == "prompt_created"
    assert (
        await call_code(chat, auto_create_context, "create_prompt", name="Two", content="Read.")
        == "too_many_refinements"
    )
    for number in (1, 2):
        assert (
            await call_code(chat, auto_create_context, "update_schema", schema=changed_schema(number))
            == "schema_updated"
        )
        assert (
            await call_code(chat, auto_create_context, "update_prompt", content=f"Read {number}.") == "prompt_updated"
        )
    assert (
        await call_code(chat, auto_create_context, "update_schema", schema=changed_schema(3)) == "too_many_refinements"
    )
    assert await call_code(chat, auto_create_context, "update_prompt", content="Read 3.") == "too_many_refinements"
    kept = get_created_ids(chat.case)
    assert [row["id"] for row in chat.case.sql("select id from schema_versions where number = 3")] == [
        kept["schema_revid"]
    ]
    assert [row["id"] for row in chat.case.sql("select id from prompt_versions where number = 3")] == [
        kept["prompt_revid"]
    ]


async def test_limits_of_auto_create_do_not_apply_to_chat(chat: Chat) -> None:
    turn = await chat.turn()
    for name in ("One", "Two"):
        assert await call_code(chat, turn, "create_schema", name=name, schema=SCHEMA) == "schema_created"
    assert await call_code(chat, turn, "create_tag", name="paid") == "tag_created"
    assert (
        await call_code(chat, turn, "create_prompt", name="Two", content="Read.", model="dearest") == "prompt_created"
    )


async def add_user_items(case: ExtractionCase) -> tuple[UUID, UUID]:
    """Add a schema and a prompt of a user and return their version ids."""
    async with case.database.as_user(case.scope) as conn:
        schema = (await schemas.create(conn, case.scope.org_id, "Mine", {"type": "object"})).schema_revid
        return schema, (await prompts.create(conn, case.scope.org_id, PromptText("Mine", "Read."))).prompt_revid


async def test_auto_create_changes_only_its_own_items(chat: Chat, auto_create_context: RunContext) -> None:
    schema, prompt = map(str, await add_user_items(chat.case))
    refused = "not_in_this_run"
    assert await call_code(chat, auto_create_context, "update_schema", schema_revid=schema, schema=SCHEMA) == refused
    assert await call_code(chat, auto_create_context, "update_prompt", prompt_revid=prompt, content="Other.") == refused
    assert await call_code(chat, auto_create_context, "run_extraction", prompt_revid=prompt) == refused
    assert chat.case.sql("select max(number) as n from schema_versions") == [{"n": 1}]
    assert chat.case.sql("select max(number) as n from prompt_versions") == [{"n": 1}]
    # Nor items of a chat.
    turn = await chat.turn()
    made = await chat.call(turn, "create_schema", name="Other", schema=SCHEMA)
    assert isinstance(made.data, dict)
    assert (
        await call_code(
            chat,
            auto_create_context,
            "update_schema",
            schema_revid=made.data["schema_revid"],
            schema=changed_schema(1),
        )
        == refused
    )


async def test_auto_create_prompt_uses_its_own_schema_and_no_model(chat: Chat, auto_create_context: RunContext) -> None:
    schema, _ = map(str, await add_user_items(chat.case))
    refused = "not_in_this_run"
    assert (
        await call_code(chat, auto_create_context, "create_prompt", name="One", content="Read.", schema_revid=schema)
        == refused
    )
    assert (
        await call_code(chat, auto_create_context, "create_prompt", name="One", content="Read.", model="dearest")
        == refused
    )
    made = await chat.call(auto_create_context, "create_schema", name="Own", schema=SCHEMA)
    assert isinstance(made.data, dict)
    own = made.data["schema_revid"]
    assert (
        await call_code(chat, auto_create_context, "create_prompt", name="One", content="Read.", schema_revid=own)
        == "prompt_created"
    )
    assert await call_code(chat, auto_create_context, "update_prompt", schema_revid=schema) == refused
    assert await call_code(chat, auto_create_context, "update_prompt", model="dearest") == refused
    assert str(get_created_ids(chat.case)["schema_revid"]) == own
    assert await call_code(chat, auto_create_context, "update_prompt", schema_revid=None) == "prompt_updated"


async def test_auto_create_cannot_delete_tag_or_set_values(chat: Chat, auto_create_context: RunContext) -> None:
    schema, prompt = map(str, await add_user_items(chat.case))
    calls: dict[str, dict[str, Any]] = {
        "delete_schema": {"schema_id": schema},
        "delete_prompt": {"prompt_id": prompt},
        "create_tag": {"name": "paid"},
        "update_tag": {"tag": "paid", "name": "unpaid"},
        "delete_tag": {"tag": "paid"},
        "delete_document": {"document_id": str(chat.case.document_id)},
        "update_extraction_field": {"path": "total", "value": 1},
    }
    gated = {name for name, tool in DOCUMENT.toolset.tools.items() if tool.is_gated}
    assert gated == calls.keys() | MAX_CALLS.keys()
    for name, arguments in calls.items():
        assert await call_code(chat, auto_create_context, name, **arguments) == "not_in_this_run", name
    assert chat.case.sql("select count(*) as n from schemas where deleted_at is null") == [{"n": 1}]
    assert chat.case.sql("select count(*) as n from tags") == [{"n": 0}]


async def test_auto_create_tags_but_does_not_rename_its_document(chat: Chat, auto_create_context: RunContext) -> None:
    async with chat.case.database.as_user(chat.scope) as conn:
        await tags.create(conn, chat.scope.org_id, "invoices", "#000000")
    own = str(chat.case.document_id)
    assert await call_code(chat, auto_create_context, "update_document", name="b.txt") == "not_in_this_run"
    assert await call_code(chat, auto_create_context, "update_document", remove_tags=["invoices"]) == "not_in_this_run"
    assert (
        await call_code(chat, auto_create_context, "update_document", document_id=str(uuid4()), add_tags=["x"])
        == "not_in_this_run"
    )
    assert (
        await call_code(chat, auto_create_context, "update_document", document_id=own, add_tags=["invoices"])
        == "document_updated"
    )
    assert chat.case.sql("select run_id from document_tags") == [{"run_id": auto_create_context.run_id}]


async def test_auto_create_makes_no_schema_if_one_was_matched(chat: Chat, auto_create_context: RunContext) -> None:
    schema, prompt = await add_user_items(chat.case)
    schema_id = chat.case.sql("select schema_id as id from schema_versions where id = %s", schema)[0]["id"]
    matched = f'{{"schema_id": "{schema_id}", "schema_revid": "{schema}", "prompt_revid": "{prompt}"}}'
    chat.case.sql(
        "update auto_creations set schema_revid = %s, prompt_revid = %s, matched = %s::jsonb", schema, prompt, matched
    )
    refused = await chat.call(auto_create_context, "create_schema", name="One", schema=SCHEMA)
    assert refused.code == "schema_exists" and isinstance(refused.data, dict)
    assert refused.data["schema_revid"] == str(schema)
    assert await call_code(chat, auto_create_context, "update_schema", schema=SCHEMA) == "not_in_this_run"
    # A new prompt may use the matched schema.
    given = {"name": "One", "content": "Read.", "schema_revid": str(schema)}
    assert await call_code(chat, auto_create_context, "create_prompt", **given) == "prompt_created"
    assert await call_code(chat, auto_create_context, "run_extraction", prompt_revid=str(prompt)) == "awaiting_runs"
    assert chat.case.sql("select prompt_revid, run_id from extractions where run_id is not null") == [
        {"prompt_revid": prompt, "run_id": auto_create_context.run_id}
    ]
