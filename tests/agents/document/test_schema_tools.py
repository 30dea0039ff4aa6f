"""Tools that create, show, change and delete schemas."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from agents.conversation import SCHEMA
from fieldmark.stores import extractions
from fieldmark.stores.library import PromptText, prompts, schemas
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.toolset import MAX_RESULT_BYTES

pytestmark = pytest.mark.anyio

WITH_DATE = {**SCHEMA, "properties": {**SCHEMA["properties"], "due_date": {"type": "string", "format": "date"}}}


async def create_schema(chat, context, name="Invoices", schema=SCHEMA) -> dict:
    answer = await chat.call(context, "create_schema", name=name, schema=schema)
    assert answer.code == "schema_created", answer
    return answer.data


async def test_created_schema_becomes_the_conversations_schema(chat):
    context = await chat.turn("make a schema for invoices like this")
    data = await create_schema(chat, context)
    assert (data["number"], data["name"]) == (1, "Invoices")
    assert chat.state == {"schema_revid": data["schema_revid"], "prompt_revid": None}
    assert (await chat.call(context, "get_schema")).data == {**data, "schema": SCHEMA}
    (row,) = chat.case.sql("select run_id, call_id, created_by from public.schema_versions")
    assert (row["run_id"], row["created_by"]) == (context.run_id, chat.scope.user_id) and row["call_id"]


async def test_schema_change_adds_a_version(chat):
    context = await chat.turn()
    first = await create_schema(chat, context)
    answer = await chat.call(context, "update_schema", schema=WITH_DATE)
    assert (answer.code, answer.data["number"]) == ("schema_updated", 2)
    assert chat.state["schema_revid"] == answer.data["schema_revid"] != first["schema_revid"]
    old = await chat.call(context, "get_schema", schema_revid=first["schema_revid"])
    assert (old.data["schema"], old.data["latest"]) == (SCHEMA, False)
    named = await chat.call(context, "update_schema", name="Bills")
    assert (named.data["number"], named.data["name"]) == (3, "Bills")
    assert (await chat.call(context, "get_schema")).data["schema"] == WITH_DATE
    assert (await chat.call(context, "update_schema", name="Bills")).code == "unchanged"


async def test_outdated_schema_version_cannot_be_changed(chat):
    context = await chat.turn()
    first = await create_schema(chat, context)
    async with chat.case.database.as_user(chat.scope) as conn:  # another user
        newer = (await schemas.update(conn, first["schema_id"], schema=WITH_DATE)).schema_revid
    for given in ({}, {"schema_revid": first["schema_revid"]}):
        answer = await chat.call(context, "update_schema", name="Bills", **given)
        assert (answer.is_error, answer.code) == (True, "version_changed")
        assert answer.data == {"schema_revid": str(newer)}
    assert not (await chat.call(context, "update_schema", name="Bills", schema_revid=str(newer))).is_error


HOSTILE = {
    "remote": {"type": "object", "properties": {"a": {"$ref": "https://evil.example/schema.json"}}},
    "without keywords": {"total": "number"},
    "invisible": {"type": "object", "properties": {"to\u202etal": {"type": "string"}}},
}


async def test_unusable_schema_is_rejected_before_approval(chat):
    context = await chat.turn()
    await create_schema(chat, context)
    for schema in HOSTILE.values():
        for name, given in (("create_schema", {"name": "Bad"}), ("update_schema", {})):
            answer = await chat.call(context, name, schema=schema, **given)
            assert (answer.is_error, answer.code) == (True, "invalid_schema"), answer
            with pytest.raises(ModelRetry) as refused:
                await chat.preview(context, name, schema=schema, **given)
            assert refused.value.code == "invalid_schema"
        result = await chat.call(context, "validate_schema", schema=schema)
        assert (result.is_error, result.code) == (False, "invalid_schema")
    assert chat.case.sql("select count(*) as n from public.schema_versions") == [{"n": 1}]
    answer = await chat.call(context, "create_schema", name="A", schema=HOSTILE["without keywords"])
    assert [one["path"] for one in answer.data["errors"]] == ["total"]
    usable = {"type": "object", "properties": {"total": {"type": "number"}}}
    assert (await chat.call(context, "validate_schema", schema=usable)).code == "valid"


async def test_oversized_schema_is_rejected_quickly(chat):
    context = await chat.turn()
    properties = {f"field_{n}": {"type": "string", "description": "x" * 1000} for n in range(10_000)}
    answer = await chat.call(context, "create_schema", name="Big", schema={"type": "object", "properties": properties})
    assert (answer.is_error, answer.code) == (True, "invalid")
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    await create_schema(chat, context, schema=schema)  # a slow pattern is allowed
    result = await chat.call(context, "validate_against_schema", data={"a": "a" * 5_000 + "!"})
    assert result.code == "schema_violation"


async def test_name_with_invisible_characters_is_rejected(chat):
    context = await chat.turn()
    more = {"create_schema": {"schema": SCHEMA}, "create_prompt": {"content": "Read."}, "create_tag": {}}
    for name in ("a\nb", "a\u202eb", "x" * 201):
        for tool, arguments in more.items():
            answer = await chat.call(context, tool, name=name, **arguments)
            assert (answer.is_error, answer.code) == (True, "invalid"), answer
            with pytest.raises(ModelRetry):  # no approval is requested
                await chat.preview(context, tool, name=name, **arguments)
        renamed = await chat.call(context, "update_document", name=name)
        assert renamed.is_error and renamed.code == "invalid"


async def test_names_are_unique_ignoring_case(chat):
    context = await chat.turn()
    await create_schema(chat, context)
    again = await chat.call(context, "create_schema", name="INVOICES", schema=SCHEMA)
    assert (again.is_error, again.code) == (True, "name_taken")
    with pytest.raises(ModelRetry) as refused:
        await chat.preview(context, "create_schema", name="INVOICES", schema=SCHEMA)
    assert refused.value.code == "name_taken"
    await create_schema(chat, context, "Receipts")
    assert (await chat.call(context, "update_schema", name="invoices")).code == "name_taken"
    assert (await chat.call(context, "update_schema", name="RECEIPTS")).code == "schema_updated"


async def test_approval_shows_schema_changes_by_path(chat):
    context = await chat.turn()
    new = await chat.preview(context, "create_schema", name="Invoices", schema=SCHEMA)
    assert {one.path for one in new.changes} == {
        *("name", "schema.type", "schema.required", "schema.properties.number", "schema.properties.total")
    }
    data = await create_schema(chat, context)
    changed = {**WITH_DATE, "required": ["number"]}
    del changed["properties"]["number"]
    preview = await chat.preview(context, "update_schema", name="Bills", schema=changed)
    assert [one.as_json() for one in preview.changes] == [
        {"path": "name", "old": "Invoices", "new": "Bills"},
        {"path": "schema.required", "old": ["total"], "new": ["number"]},
        {"path": "schema.properties.number", "old": {"type": "string"}, "new": None, "removed": True},
        {
            "path": "schema.properties.due_date",
            "old": None,
            "new": {"type": "string", "format": "date"},
            "added": True,
        },
    ]
    assert preview.target == {"schema_revid": data["schema_revid"]}


async def test_deleting_hides_and_reports_references(chat):
    context = await chat.turn()
    data = await create_schema(chat, context)
    async with chat.case.database.as_user(chat.scope) as conn:
        await prompts.create(conn, chat.scope.org_id, PromptText("Read", "Read.", data["schema_id"]))
        ids = {"org_id": chat.scope.org_id, "document_id": chat.case.document_id}
        extraction_id = await extractions.add(conn, **ids, schema_revid=data["schema_revid"])
    preview = await chat.preview(context, "delete_schema", schema_id=data["schema_id"])
    assert [(one.path, one.old, one.new) for one in preview.changes] == [
        ("name", "Invoices", None),
        ("used_by_prompts", None, 1),
        ("used_by_extractions", None, 1),
    ]
    gone = await chat.call(context, "delete_schema", schema_id=data["schema_id"])
    assert (gone.code, gone.data["prompts"], gone.data["extractions"]) == ("schema_deleted", 1, 1)
    assert chat.state["schema_revid"] is None
    assert (await chat.call(context, "list_schemas")).data == {"schemas": []}
    assert (await chat.call(context, "get_schema", schema_revid=data["schema_revid"])).data["deleted"] is True
    for name, which in (("update_schema", "schema_revid"), ("delete_schema", "schema_id")):
        answer = await chat.call(context, name, **{which: data[which]})
        assert answer.is_error and answer.code in ("deleted", "not_found")
    (kept,) = chat.case.sql("select schema from public.extractions where id = %s", extraction_id)
    assert kept["schema"] == SCHEMA
    await create_schema(chat, context)  # the name can be reused


async def test_lists_are_paged_and_searched_by_name(chat):
    context = await chat.turn()
    async with chat.case.database.as_user(chat.scope) as conn:
        for number in range(22):
            await schemas.create(conn, chat.scope.org_id, f"Invoices {number}", SCHEMA)
    await create_schema(chat, context, "Receipts")
    first = await chat.call(context, "list_schemas", name_search="invoices")
    assert (first.code, len(first.data["schemas"])) == ("more", 20) and "schema" not in first.data["schemas"][0]
    rest = await chat.call(context, "list_schemas", name_search="invoices", before=first.data["next"])
    assert (rest.code, [one["name"] for one in rest.data["schemas"]]) == ("ok", ["Invoices 1", "Invoices 0"])
    assert [one["name"] for one in (await chat.call(context, "list_schemas", name_search="REC")).data["schemas"]] == [
        "Receipts"
    ]
    assert (await chat.call(context, "list_schemas", before="nonsense")).is_error


async def test_validate_fields_writes_nothing(chat):
    context = await chat.turn()
    none = await chat.call(context, "validate_against_schema", data={})
    assert none.is_error and none.code == "no_schema"
    grounded = {"type": "number", "x-fieldmark": {"grounded": True}}
    await create_schema(chat, context, schema={**SCHEMA, "properties": {**SCHEMA["properties"], "total": grounded}})
    assert (await chat.call(context, "validate_against_schema", data={"total": 1})).code == "valid"
    wrong = await chat.call(context, "validate_against_schema", data={"number": 1})
    assert not wrong.is_error and wrong.code == "schema_violation"
    assert {(one["path"], one["code"]) for one in wrong.data["violations"]} == {
        ("total", "required"),
        ("number", "type"),
    }


async def test_tool_results_stay_within_the_cli_limit(chat):
    context = await chat.turn()
    properties = {f"f{n}": {"type": "string", "description": "x" * 60} for n in range(1_000)}
    await create_schema(chat, context, schema={"type": "object", "properties": properties})
    long = await chat.call(context, "get_schema")
    assert long.code == "too_long" and long.data["properties"][:2] == ["f0", "f1"] and "schema" not in long.data
    wrong = await chat.call(context, "validate_against_schema", data=dict.fromkeys(properties, 1))
    for answer in (long, wrong):
        assert len(answer.text.encode()) <= MAX_RESULT_BYTES


async def test_schema_of_another_organisation_is_not_found(chat, stranger_chat):
    theirs = await create_schema(stranger_chat, await stranger_chat.turn())
    context = await chat.turn()
    for name, more in (
        ("get_schema", {}),
        ("update_schema", {"name": "Mine"}),
        ("validate_against_schema", {"data": {}}),
        ("create_prompt", {"name": "P", "content": "Read."}),
    ):
        answers = [
            await chat.call(context, name, schema_revid=revid, **more)
            for revid in (theirs["schema_revid"], str(uuid4()))
        ]
        assert [(one.is_error, one.code, one.text) for one in answers] == [(True, "not_found", answers[1].text)] * 2
    assert (await chat.call(context, "delete_schema", schema_id=theirs["schema_id"])).code == "not_found"
    assert (await chat.call(context, "list_schemas")).data == {"schemas": []}
    assert json.dumps(stranger_chat.case.sql("select name from public.schemas")) == '[{"name": "Invoices"}]'
    await create_schema(chat, context)  # names are unique per organisation
