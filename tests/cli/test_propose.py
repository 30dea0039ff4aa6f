"""What is proposed for a document, on the command line."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from fieldmark.offline_model.messages import Body, call, items, text
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}
MADE = Script(
    [
        [call("create_schema", {"name": "Invoices", "schema": SCHEMA})],
        [call("run_extraction")],
        [text("I propose a schema.")],
    ]
)
READ = Script(
    [
        [
            call("extract_fields", {"fields": {"total": 10.0}, "confidences": {"total": 0.9}}),
            call("complete_extraction", {"summary": "Read."}),
        ],
    ]
)


async def model(body: Body) -> Any:
    names = {str(tool.get("name")).rsplit("__", 1)[-1] for tool in items(body, "tools")}
    return await (MADE if "create_schema" in names else READ)(body)


async def test_a_file_is_proposed_rejected_proposed_again_and_accepted(commands, tmp_path):
    file = tmp_path / "invoice.txt"
    file.write_text("Invoice number: 1\nTotal: 10.00 EUR\n")
    async with commands(model) as fieldmark:
        shown = await fieldmark.run("propose", str(file))
        assert shown.code == 0, shown.err
        assert "10.0" in shown.out and "fieldmark accept" in shown.err
        (document,) = fieldmark.sql("select id from public.documents")
        rejected = await fieldmark.run("reject", str(document["id"]))
        assert rejected.code == 0, rejected.err
        assert fieldmark.sql("select id from public.schemas") == []
        again = await fieldmark.run("propose", str(document["id"]), "--json")
        assert again.code == 0 and json.loads(again.out)["auto_create"]["status"] == "proposed", again.err
        refused = await fieldmark.run("propose", str(document["id"]))
        assert refused.code == 1 and "[proposed_already]" in refused.err
        assert (await fieldmark.run("accept", str(document["id"]))).code == 0
        assert len(fieldmark.sql("select id from public.schemas")) == 1
        assert (await fieldmark.run("reject", str(document["id"]))).code == 1
        assert (await fieldmark.run("accept", str(uuid4()))).code == 1


async def test_the_settings_of_the_organisation_are_shown_and_changed(local_commands):
    async with local_commands(Script([])) as fieldmark:
        shown = await fieldmark.run("organisation")
        assert shown.code == 0 and "auto_create" in shown.out, shown.err
        changed = await fieldmark.run("organisation", "--auto-create", "--json")
        assert json.loads(changed.out)["auto_create"] is True
        assert fieldmark.sql("select auto_create from public.organisations") == [{"auto_create": True}]
        await fieldmark.run("organisation", "--no-auto-create", "--examples")
        assert fieldmark.sql("select auto_create, examples from public.organisations") == [
            {"auto_create": False, "examples": True}
        ]
