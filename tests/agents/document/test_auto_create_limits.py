"""What a run may do that nobody talks with, each limit beside what it does not hold back."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from agents.talking import SCHEMA, Talk
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
async def alone(case: ExtractionCase) -> RunContext:
    """The context of such a run."""
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


async def code(talk: Talk, context: RunContext, name: str, /, **arguments: Any) -> str:
    return (await talk.call(context, name, **arguments)).code


def state(case: ExtractionCase) -> dict[str, Any]:
    return case.sql("select schema_revid, prompt_revid, extraction_id from auto_creations")[0]


def another(number: int) -> dict[str, Any]:
    return {**SCHEMA, "description": f"Number {number}"}


async def test_auto_create_makes_one_schema_and_prompt_with_two_refinements(talk: Talk, alone: RunContext) -> None:
    # What was refused does not count.
    assert await code(talk, alone, "create_schema", name="One", schema={"type": "nothing"}) == "invalid_schema"
    assert await code(talk, alone, "create_schema", name="One", schema=SCHEMA) == "schema_created"
    assert await code(talk, alone, "create_schema", name="Two", schema=SCHEMA) == "too_many_refinements"
    assert await code(talk, alone, "create_prompt", name="One", content="Read.") == "prompt_created"
    assert await code(talk, alone, "create_prompt", name="Two", content="Read.") == "too_many_refinements"
    for number in (1, 2):
        assert await code(talk, alone, "update_schema", schema=another(number)) == "schema_updated"
        assert await code(talk, alone, "update_prompt", content=f"Read {number}.") == "prompt_updated"
    assert await code(talk, alone, "update_schema", schema=another(3)) == "too_many_refinements"
    assert await code(talk, alone, "update_prompt", content="Read 3.") == "too_many_refinements"
    kept = state(talk.case)
    assert [row["id"] for row in talk.case.sql("select id from schema_versions where number = 3")] == [
        kept["schema_revid"]
    ]
    assert [row["id"] for row in talk.case.sql("select id from prompt_versions where number = 3")] == [
        kept["prompt_revid"]
    ]


async def test_limits_of_auto_create_do_not_apply_to_chat(talk: Talk) -> None:
    turn = await talk.turn()
    for name in ("One", "Two"):
        assert await code(talk, turn, "create_schema", name=name, schema=SCHEMA) == "schema_created"
    assert await code(talk, turn, "create_tag", name="paid") == "tag_created"
    assert await code(talk, turn, "create_prompt", name="Two", content="Read.", model="dearest") == "prompt_created"


async def mine(case: ExtractionCase) -> tuple[UUID, UUID]:
    """A schema and a prompt of a person."""
    async with case.database.as_user(case.scope) as conn:
        schema = (await schemas.create(conn, case.scope.org_id, "Mine", {"type": "object"})).schema_revid
        return schema, (await prompts.create(conn, case.scope.org_id, PromptText("Mine", "Read."))).prompt_revid


async def test_auto_create_changes_only_its_own_items(talk: Talk, alone: RunContext) -> None:
    schema, prompt = map(str, await mine(talk.case))
    refused = "not_in_this_run"
    assert await code(talk, alone, "update_schema", schema_revid=schema, schema=SCHEMA) == refused
    assert await code(talk, alone, "update_prompt", prompt_revid=prompt, content="Other.") == refused
    assert await code(talk, alone, "run_extraction", prompt_revid=prompt) == refused
    assert talk.case.sql("select max(number) as n from schema_versions") == [{"n": 1}]
    assert talk.case.sql("select max(number) as n from prompt_versions") == [{"n": 1}]
    # (Nor what a chat has made.)
    turn = await talk.turn()
    made = await talk.call(turn, "create_schema", name="Ours", schema=SCHEMA)
    assert isinstance(made.data, dict)
    assert (
        await code(talk, alone, "update_schema", schema_revid=made.data["schema_revid"], schema=another(1)) == refused
    )


async def test_auto_create_prompt_uses_its_own_schema_and_no_model(talk: Talk, alone: RunContext) -> None:
    schema, _ = map(str, await mine(talk.case))
    refused = "not_in_this_run"
    assert await code(talk, alone, "create_prompt", name="One", content="Read.", schema_revid=schema) == refused
    assert await code(talk, alone, "create_prompt", name="One", content="Read.", model="dearest") == refused
    made = await talk.call(alone, "create_schema", name="Own", schema=SCHEMA)
    assert isinstance(made.data, dict)
    own = made.data["schema_revid"]
    assert await code(talk, alone, "create_prompt", name="One", content="Read.", schema_revid=own) == "prompt_created"
    assert await code(talk, alone, "update_prompt", schema_revid=schema) == refused
    assert await code(talk, alone, "update_prompt", model="dearest") == refused
    assert str(state(talk.case)["schema_revid"]) == own
    assert await code(talk, alone, "update_prompt", schema_revid=None) == "prompt_updated"


async def test_auto_create_cannot_delete_tag_or_set_values(talk: Talk, alone: RunContext) -> None:
    schema, prompt = map(str, await mine(talk.case))
    calls: dict[str, dict[str, Any]] = {
        "delete_schema": {"schema_id": schema},
        "delete_prompt": {"prompt_id": prompt},
        "create_tag": {"name": "paid"},
        "update_tag": {"tag": "paid", "name": "unpaid"},
        "delete_tag": {"tag": "paid"},
        "delete_document": {"document_id": str(talk.case.document_id)},
        "update_extraction_field": {"path": "total", "value": 1},
    }
    gated = {name for name, tool in DOCUMENT.toolset.tools.items() if tool.is_gated}
    assert gated == calls.keys() | MAX_CALLS.keys()
    for name, arguments in calls.items():
        assert await code(talk, alone, name, **arguments) == "not_in_this_run", name
    assert talk.case.sql("select count(*) as n from schemas where deleted_at is null") == [{"n": 1}]
    assert talk.case.sql("select count(*) as n from tags") == [{"n": 0}]


async def test_auto_create_tags_but_does_not_rename_its_document(talk: Talk, alone: RunContext) -> None:
    async with talk.case.database.as_user(talk.scope) as conn:
        await tags.create(conn, talk.scope.org_id, "invoices", "#000000")
    own = str(talk.case.document_id)
    assert await code(talk, alone, "update_document", name="b.txt") == "not_in_this_run"
    assert await code(talk, alone, "update_document", remove_tags=["invoices"]) == "not_in_this_run"
    assert await code(talk, alone, "update_document", document_id=str(uuid4()), add_tags=["x"]) == "not_in_this_run"
    assert await code(talk, alone, "update_document", document_id=own, add_tags=["invoices"]) == "document_updated"
    assert talk.case.sql("select run_id from document_tags") == [{"run_id": alone.run_id}]


async def test_auto_create_makes_no_schema_if_one_was_matched(talk: Talk, alone: RunContext) -> None:
    schema, prompt = await mine(talk.case)
    lent = talk.case.sql("select schema_id as id from schema_versions where id = %s", schema)[0]["id"]
    matched = f'{{"schema_id": "{lent}", "schema_revid": "{schema}", "prompt_revid": "{prompt}"}}'
    talk.case.sql(
        "update auto_creations set schema_revid = %s, prompt_revid = %s, matched = %s::jsonb", schema, prompt, matched
    )
    refused = await talk.call(alone, "create_schema", name="One", schema=SCHEMA)
    assert refused.code == "schema_exists" and isinstance(refused.data, dict)
    assert refused.data["schema_revid"] == str(schema)
    assert await code(talk, alone, "update_schema", schema=SCHEMA) == "not_in_this_run"
    # Its own prompt may follow the schema that was lent.
    given = {"name": "One", "content": "Read.", "schema_revid": str(schema)}
    assert await code(talk, alone, "create_prompt", **given) == "prompt_created"
    assert await code(talk, alone, "run_extraction", prompt_revid=str(prompt)) == "awaiting_runs"
    assert talk.case.sql("select prompt_revid, run_id from extractions where run_id is not null") == [
        {"prompt_revid": prompt, "run_id": alone.run_id}
    ]
