"""A schema is merged into another: its documents, stack and prompts use the other one."""

from __future__ import annotations

from uuid import uuid4

import pytest
from answers import assert_problem
from members import create_org, new_member

from browser.scripts import COMPLETE, IDENTIFY, save_fields
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio

BILL = {"type": "object", "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}}}
INVOICE = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}


async def new_schema(http, name: str, schema: dict) -> str:
    answer = await http.post("/api/schemas", json={"name": name, "schema": schema})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def test_merged_schema_is_gone_and_its_rows_are_in_the_other_table(serve):
    script = Script([[IDENTIFY], [save_fields(vendor="Acme", total=10)], [COMPLETE]])
    async with serve(script) as server:
        http = server.http
        bill, invoice = await new_schema(http, "Bill", BILL), await new_schema(http, "Invoice", INVOICE)
        prompt = {"name": "Read bills", "content": "Read.", "schema_id": bill}
        prompt_id = (await http.post("/api/prompts", json=prompt)).json()["id"]
        document = await server.upload_text("Acme total 10", "a.txt")
        extracted = (await server.extract(document, schema_id=bill))["extraction"]
        assert_problem(await http.post(f"/api/schemas/{bill}/merge", json={"into": bill}), 422)
        merged = await http.post(f"/api/schemas/{bill}/merge", json={"into": invoice})
        assert (merged.status_code, merged.json()) == (200, {"moved": 1, "skipped": [], "next": None})
        assert [one["id"] for one in (await server.get("schemas"))["items"]] == [invoice]
        assert (await server.get(f"prompts/{prompt_id}"))["schema_id"] == invoice
        (row,) = (await server.get(f"tables/{invoice}/rows"))["items"]
        assert (row["document_id"], row["status"]) == (str(document), "done")
        # Values that the other schema lacks are kept, and a repeated request changes nothing.
        assert (await server.extraction(extracted["id"]))["extracted_fields"] == {"vendor": "Acme", "total": 10}
        again = await http.post(f"/api/schemas/{bill}/merge", json={"into": "INVOICE"})
        assert again.json() == {"moved": 0, "skipped": [], "next": None}


async def test_stacks_of_merged_schemas_become_one(serve):
    async with serve() as server:
        http = server.http
        stacks = [
            (await http.post("/api/stacks", json={"name": name, "columns": [{"name": "total"}]})).json()
            for name in ("A", "B")
        ]
        document = str(await server.upload_text("Total 1", "a.txt"))
        await http.post(f"/api/stacks/{stacks[0]['id']}/documents", json={"document_ids": [document]})
        source, target = (one["schema_id"] for one in stacks)
        assert (await http.post(f"/api/schemas/{source}/merge", json={"into": target})).status_code == 200
        (left,) = (await server.get("stacks"))["items"]
        assert (left["id"], left["progress"]["documents"]) == (stacks[1]["id"], 1)


async def test_only_the_creator_or_an_owner_merges_a_schema(serve):
    async with serve() as server:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        one, other = await new_schema(server.http, "A", BILL), await new_schema(server.http, "B", BILL)
        for role, status in (("viewer", 403), ("member", 404)):
            async with new_member(server, org, role) as (http, _):
                assert (await http.post(f"/api/schemas/{one}/merge", json={"into": other})).status_code == status
                if role == "member":
                    own = await new_schema(http, "C", BILL)
                    assert (await http.post(f"/api/schemas/{own}/merge", json={"into": other})).status_code == 200
        async with server.client() as stranger:
            assert_problem(await stranger.post(f"/api/schemas/{one}/merge", json={"into": other}), 404)
        assert_problem(await server.http.post(f"/api/schemas/{one}/merge", json={"into": str(uuid4())}), 404)
        assert (await server.http.post(f"/api/schemas/{one}/merge", json={"into": other})).status_code == 200
