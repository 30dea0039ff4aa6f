"""A new schema version, over HTTP and with the real CLI: only documents and fields that need it are extracted again."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from extraction_case import sql, tool_results, until
from fieldmark.offline_model.messages import call
from fieldmark.stores.library import PromptText, prompts, schemas
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

TEXT = {"type": "string"}
OLD = {"type": "object", "properties": {"invoice_number": TEXT, "vendor": TEXT}}
NEW = {"type": "object", "properties": {**OLD["properties"], "due_date": {"type": "string", "format": "date"}}}
PAGE = "Invoice number: 1\nVendor: Acme GmbH\nDue date: 2024-05-01\n"


def save_call(fields):
    return call("extract_fields", {"fields": fields, "confidences": dict.fromkeys(fields, 0.9)})


def complete_call():
    return call("complete_extraction", {"summary": "Done."})


@asynccontextmanager
async def service_with_schema(serve, answer, schema=OLD, **settings):
    async with serve(answer, **settings) as server:
        async with server.runtime.database.as_user(server.scope) as conn:
            row = await schemas.create(conn, server.scope.org_id, "Invoices", schema)
        yield server, row.id, row.schema_revid


async def create_version(server, schema_id, schema=NEW):
    async with server.runtime.database.as_user(server.scope) as conn:
        return (await schemas.update(conn, schema_id, schema=schema)).schema_revid


async def create_extraction(server, clone, revid, fields, text=PAGE, name="a.txt") -> tuple[UUID, UUID]:
    document_id = await server.upload_text(text, name)
    (row,) = sql(
        clone.owner_url,
        """insert into public.extractions (org_id, document_id, schema_revid, created_by) values (%s, %s, %s, %s)
           returning id""",
        server.scope.org_id,
        document_id,
        revid,
        server.scope.user_id,
    )
    sql(clone.owner_url, "select public.save_extraction_fields(%s, %s)", row["id"], Jsonb(fields))
    return document_id, row["id"]


async def wait_for_run_end(server, run_id):
    async def has_ended():
        return (await server.get(f"runs/{run_id}"))["status"] in ("completed", "failed", "cancelled")

    await until(has_ended)
    return await server.get(f"runs/{run_id}")


@pytest.mark.story
async def test_added_field_is_extracted_only_where_it_is_missing(serve, clone):
    script = Script(
        [
            [save_call({"vendor": "Someone"})],  # set by a user
            [save_call({"invoice_number": "2"})],  # carried over
            [save_call({"due_date": "2024-05-01"}), complete_call()],
        ]
    )
    async with service_with_schema(serve, script) as (server, schema_id, revid):
        _, lacks = await create_extraction(server, clone, revid, {"invoice_number": "1"})
        set_by = {"path": "vendor", "value": "Acme Ltd"}
        assert (await server.http.patch(f"/api/extractions/{lacks}/fields", json=set_by)).status_code == 200
        new = await create_version(server, schema_id)

        changes = (await server.http.post(f"/api/schemas/{schema_id}/changes", json={})).json()
        difference = {"added": ["due_date"], "removed": [], "changed": [], "everything": False, "rules": False}
        assert changes == {
            "versions": [{"schema_revid": str(revid), "number": 1, "extractions": 1, **difference}],
            "prompts": [],
            "extractions": 1,
            "read_again": 1,
            "missing": [],
            "estimated_cost_usd": None,
        }
        # Before it is published: which rows would miss a field that it requires. One has it, one is the same before.
        properties = {**NEW["properties"], "place": {"type": "string"}}
        required = ["vendor", "place", "invoice_number"]
        draft = {**NEW, "properties": properties, "required": required, "x-fieldmark": {"required": {"due_date": True}}}
        preview = await server.http.post(f"/api/schemas/{schema_id}/changes", json={"schema": draft})
        assert preview.json()["missing"] == [{"path": "place", "rows": 1}, {"path": "due_date", "rows": 1}]

        done = (await server.http.post(f"/api/schemas/{schema_id}/apply", json={})).json()
        assert (done["followed"], len(done["runs"]), done["skipped"], done["next"]) == (1, 1, [], None)
        run = await wait_for_run_end(server, done["runs"][0])
        assert run["status"] == "completed", run
        # The model was asked for that document only, and for that field only.
        assert len(server.model.requests) == 3
        assert fields_in(server.model.requests[0]) == ["due_date"]
        refused = [said for request in server.model.requests[1:] for said, failed in tool_results(request) if failed]
        assert refused and all('"code":"outside_fields"' in said for said in refused)
        after = await server.extraction(lacks)
        assert after["extracted_fields"] == {"invoice_number": "1", "vendor": "Acme Ltd", "due_date": "2024-05-01"}
        assert after["locks"].keys() == {"vendor"} and after["proposals"] == []
        assert (after["status"], after["schema_revid"], after["valid"]) == ("completed", str(new), True)
        assert after["evidence"]["due_date"]["state"] == "found"


def fields_in(request) -> list[str]:
    """Return the paths that the first message lists."""
    said = "".join(block["text"] for block in request["messages"][0]["content"] if block["type"] == "text")
    (listed,) = re.findall(r"(?ms)^\[\w+ fields begins\]\n(.*?)^\[\w+ fields ends\]$", said)
    return [one["path"] for one in json.loads(listed)]


async def test_any_member_can_request_single_fields(serve, clone):
    script = Script(
        [[save_call({"vendor": "X"}), save_call({"due_date": "2024-05-01"}), complete_call()], [complete_call()]] * 2
    )
    async with service_with_schema(serve, script, NEW) as (server, _, revid):
        document_id, one = await create_extraction(server, clone, revid, {"vendor": "Acme GmbH"})
        asked = {"document_id": str(document_id), "extraction_id": str(one)}
        for wrong in ({"fields": []}, {"fields": ["a..b"]}, {"fields": ["a"] * 101}, {"fields": "a"}):
            assert (await server.http.post("/api/agent/extract", json={**asked, **wrong})).status_code == 422
        without = {"document_id": str(document_id), "fields": ["due_date"]}
        assert (await server.http.post("/api/agent/extract", json=without)).status_code == 422
        answer = await server.http.post("/api/agent/extract", json={**asked, "fields": ['["due_date"]']})
        assert answer.status_code == 200, answer.text
        assert answer.json()["extraction"]["extracted_fields"]["vendor"] == "Acme GmbH"
        # Front ends insert a run directly and have the same limit.
        async with server.runtime.database.as_user(server.scope) as conn:
            await conn.execute(
                """insert into public.runs (id, org_id, agent, task, input, document_id, extraction_id)
                   values (%s, %s, 'extraction', 'extract', %s, %s, %s)""",
                (run_id := uuid4(), server.scope.org_id, Jsonb({"fields": ["due_date"]}), document_id, one),
            )
        await wait_for_run_end(server, run_id)
        after = await server.extraction(one)
        assert after["extracted_fields"]["vendor"] == "Acme GmbH"


async def test_prompt_applies_to_the_added_fields(serve, clone):
    async with service_with_schema(serve, Script([[save_call({"due_date": "2024-05-01"}), complete_call()]])) as (
        server,
        schema_id,
        revid,
    ):
        _, one = await create_extraction(server, clone, revid, {"invoice_number": "1", "vendor": "Acme GmbH"})
        async with server.runtime.database.as_user(server.scope) as conn:
            prompt = await prompts.create(conn, server.scope.org_id, PromptText("American", "Dates are American."))
        change = "update public.extractions set prompt_revid = %s where id = %s"
        sql(clone.owner_url, change, prompt.prompt_revid, one)
        await create_version(server, schema_id)
        done = (await server.http.post(f"/api/schemas/{schema_id}/apply", json={})).json()
        await wait_for_run_end(server, done["runs"][0])
        assert "Dates are American." in json.dumps(server.model.requests[0]["messages"])
