"""Suggestions for a document on the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fieldmark.offline_model.messages import Body, call, objects_in, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}
CREATED = Script(
    [
        [call("create_schema", {"name": "Invoices", "schema": SCHEMA})],
        [call("run_extraction")],
        [text("I propose a schema.")],
    ]
)
EXTRACTED = Script(
    [
        [
            call("extract_fields", {"fields": {"total": 10.0}, "confidences": {"total": 0.9}}),
            call("complete_extraction", {"summary": "Read."}),
        ],
    ]
)


async def model(body: Body) -> Any:
    names = {str(tool.get("name")).rsplit("__", 1)[-1] for tool in objects_in(body, "tools")}
    return await (CREATED if "create_schema" in names else EXTRACTED)(body)


async def test_suggestion_is_rejected_repeated_and_accepted(commands):
    async with commands(model) as fieldmark:
        shown = await fieldmark.run("propose", fieldmark.file())
        assert shown.code == 0, shown.err
        assert "10.0" in shown.out and "fieldmark accept" in shown.err
        (document,) = [str(one["id"]) for one in fieldmark.sql("select id from public.documents")]
        rejected = await fieldmark.run("reject", document)
        assert rejected.code == 0, rejected.err
        assert fieldmark.sql("select id from public.schemas") == []
        again = await fieldmark.run("propose", document, "--json")
        assert again.code == 0 and json.loads(again.out)["auto_create"]["status"] == "proposed", again.err
        refused = await fieldmark.run("propose", document)
        assert refused.code == 1 and "[proposed_already]" in refused.err
        assert (await fieldmark.run("accept", document)).code == 0
        assert len(fieldmark.sql("select id from public.schemas")) == 1
        assert (await fieldmark.run("reject", document)).code == 1

        changed = await fieldmark.run("organisation", "--auto-create", "--examples", "--json")
        assert json.loads(changed.out)["auto_create"] is True
        await fieldmark.run("organisation", "--no-auto-create", "--auto-approved-tools", "create_tag, update_tag")
        shown = await fieldmark.run("organisation")
        lines = {name: values for name, *values in map(str.split, shown.out.splitlines())}
        assert lines["auto_approved_tools"] == ["create_tag,", "update_tag"]
        assert (lines["examples"], lines["auto_create"]) == (["true"], ["false"])
