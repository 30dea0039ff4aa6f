"""/api/schemas, /api/prompts, /api/tags, and their use by documents and extractions."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest
from answers import assert_problem

from fieldmark.offline_model.messages import text
from fieldmark.testing.script import Script, repeat_forever

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}
LONGER = {"type": "object", "properties": {"total": {"type": "number"}, "number": {"type": "string"}}}
DEFAULT_BODIES = {
    "schemas": {"schema": SCHEMA},
    "prompts": {"content": "Read the total."},
    "tags": {},
}


async def create(http: httpx.AsyncClient, kind: str, name: str, **more: Any) -> dict[str, Any]:
    answer = await http.post(f"/api/{kind}", json={"name": name, **DEFAULT_BODIES[kind], **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def update(http: httpx.AsyncClient, path: str, *, if_match: str | None = None, **body: Any) -> dict[str, Any]:
    answer = await http.patch(path, json=body, headers={} if if_match is None else {"If-Match": f'"{if_match}"'})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def list_names(http: httpx.AsyncClient, path: str, **asked: Any) -> list[str]:
    answer = await http.get(path, params=asked)
    assert answer.status_code == 200, answer.text
    return [item["name"] for item in answer.json()["items"]]


async def test_each_change_of_a_schema_creates_a_version(serve):
    async with serve() as server:
        first = await create(server.http, "schemas", "Invoice")
        assert first | {"number": 1, "schema": SCHEMA, "latest": True, "deleted": False, "proposed": False} == first
        assert first["created_by"] == first["changed_by"] == str(server.scope.user_id)
        at = f"/api/schemas/{first['id']}"
        second = await update(server.http, at, schema=LONGER, if_match=first["schema_revid"])
        assert (second["number"], second["name"], second["schema"]) == (2, "Invoice", LONGER)
        third = await update(server.http, at, name="Invoices")
        assert (third["number"], third["name"], third["schema"]) == (3, "Invoices", LONGER)
        assert await update(server.http, at, name="Invoices", schema=LONGER) == third
        assert await update(server.http, at) == third
        assert (await server.http.get(at)).json() | {"prompts": []} == third
        # Old versions stay readable.
        version = f"/api/schema_versions/{first['schema_revid']}"
        assert (await server.http.get(version)).json() == first | {"latest": False}
        listed = (await server.http.get(f"{at}/versions", params={"limit": 2})).json()
        assert [item["number"] for item in listed["items"]] == [3, 2] and "schema" not in listed["items"][0]
        listed = (await server.http.get(f"{at}/versions", params={"before": listed["next"]})).json()
        assert ([item["number"] for item in listed["items"]], listed["next"]) == ([1], None)
        assert (await server.http.get(f"{at}/versions", params={"before": 1})).json()["items"] == []
        assert_problem(await server.http.get(f"/api/schemas/{uuid4()}/versions"), 404)


async def test_stale_if_match_gets_409(serve):
    async with serve() as server:
        for kind, revid, change in (
            ("schemas", "schema_revid", {"schema": LONGER}),
            ("prompts", "prompt_revid", {"content": "Read all."}),
        ):
            first = await create(server.http, kind, "Invoice")
            at = f"/api/{kind}/{first['id']}"
            second = await update(server.http, at, if_match=first[revid], **change)
            stale = await server.http.patch(at, json={"name": "X"}, headers={"If-Match": f'"{first[revid]}"'})
            assert_problem(stale, 409, "version_changed")
            for wrong in ("7", '"a"', 'W/"x"'):
                assert_problem(await server.http.patch(at, json={"name": "X"}, headers={"If-Match": wrong}), 422)
            assert second.items() >= (await server.http.get(at)).json().items()
            assert (await server.http.patch(at, json={"name": "X"}, headers={"If-Match": "*"})).status_code == 200


async def test_concurrent_changes_of_different_properties_are_merged(serve):
    async with serve() as server:
        prompt = await create(server.http, "prompts", "Invoices")
        at = f"/api/prompts/{prompt['id']}"
        await asyncio.gather(update(server.http, at, name="Bills"), update(server.http, at, content="Read all."))
        now = (await server.http.get(at)).json()
        assert (now["number"], now["name"], now["content"]) == (3, "Bills", "Read all.")


async def test_change_of_a_prompt_keeps_other_properties(serve):
    async with serve() as server:
        schema, tag = await create(server.http, "schemas", "Invoice"), await create(server.http, "tags", "paid")
        more = {"schema_id": schema["id"], "model": "m", "tag_ids": [tag["id"]]}
        prompt = await create(server.http, "prompts", "Invoices", **more)
        assert prompt | more == prompt
        at = f"/api/prompts/{prompt['id']}"
        assert (await update(server.http, at, name="Bills")) | more | {"name": "Bills"} == (
            await server.http.get(at)
        ).json()
        cleared = {"schema_id": None, "model": None, "tag_ids": []}
        assert (updated := await update(server.http, at, **cleared)) | cleared == updated
        first = await server.get(f"prompt_versions/{prompt['prompt_revid']}")
        assert first | more == first and not first["latest"]
        numbers = [one["number"] for one in (await server.http.get(f"{at}/versions")).json()["items"]]
        assert numbers == [3, 2, 1]


async def test_lists_are_paged_and_filtered_by_name(serve):
    async with serve() as server:
        for kind in DEFAULT_BODIES:
            at = f"/api/{kind}"
            for name in ("Invoice", "invoice (old)", "Receipt"):
                await create(server.http, kind, name)
            first = (await server.http.get(at, params={"limit": 2})).json()
            assert [item["name"] for item in first["items"]] == ["Receipt", "invoice (old)"]
            assert await list_names(server.http, at, before=first["next"]) == ["Invoice"]
            assert await list_names(server.http, at, name_contains="INVOICE") == ["invoice (old)", "Invoice"]
            assert await list_names(server.http, at, name_contains="_") == []
            assert await list_names(server.http, at, name="invoice") == ["Invoice"]
            assert await list_names(server.http, at, name="Invoic") == []
        schema = (await server.http.get("/api/schemas", params={"name": "Invoice"})).json()["items"][0]
        tag = (await server.http.get("/api/tags", params={"name": "Invoice"})).json()["items"][0]
        await create(server.http, "prompts", "Linked", schema_id=schema["id"])
        await create(server.http, "prompts", "Tagged", tag_ids=[tag["id"]])
        assert await list_names(server.http, "/api/prompts", schema_id=schema["id"]) == ["Linked"]
        assert await list_names(server.http, "/api/prompts", tag_id=tag["id"]) == ["Tagged"]
        document_id = await server.upload_text()
        assert await list_names(server.http, "/api/prompts", document_id=document_id) == []
        await update(server.http, f"/api/documents/{document_id}", tags=[tag["id"]])
        assert await list_names(server.http, "/api/prompts", document_id=document_id) == ["Tagged"]


async def test_deleted_objects_are_hidden_but_readable(serve):
    async with serve() as server:
        tag = await create(server.http, "tags", "paid")
        schema = await create(server.http, "schemas", "Invoice")
        prompt = await create(server.http, "prompts", "Invoices", schema_id=schema["id"], tag_ids=[tag["id"]])
        document = await server.upload_text()
        await update(server.http, f"/api/documents/{document}", tags=[tag["id"]])
        for kind, thing, expected in (
            ("schemas", schema, {"prompts": 1, "extractions": 0, "stacks": 0}),
            ("tags", tag, {"documents": 1, "prompts": 1}),
            ("prompts", prompt, {"extractions": 0}),
        ):
            at = f"/api/{kind}/{thing['id']}"
            answer = await server.http.delete(at)
            assert (answer.status_code, answer.json()) == (200, expected)
            assert_problem(await server.http.delete(at), 404)
            assert_problem(await server.http.patch(at, json={"name": "New"}), 404)
            assert (await server.http.get(at)).json() == thing | {"deleted": True}
            assert await list_names(server.http, f"/api/{kind}") == []
            await create(server.http, kind, thing["name"])  # the name can be reused
        assert (await server.http.get(f"/api/documents/{document}")).json()["tags"] == []
        assert_problem(await server.http.patch(f"/api/documents/{document}", json={"tags": [tag["id"]]}), 404)
        assert (await server.http.get("/api/documents", params={"tag_id": tag["id"]})).json()["items"] == []


async def test_invalid_schemas_prompts_and_tags_are_refused(serve):
    async with serve() as server:
        kept = await create(server.http, "schemas", "Kept")
        for schema, code in (
            ({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}, "invalid_schema"),
            ({"type": "object", "title": "\u202e"}, "invalid_schema"),
            ([], "invalid"),
        ):
            assert_problem(await server.http.post("/api/schemas", json={"name": "New", "schema": schema}), 422, code)
            assert_problem(await server.http.patch(f"/api/schemas/{kept['id']}", json={"schema": schema}), 422, code)
        assert await server.get(f"schemas/{kept['id']}") == kept
        assert_problem(
            await server.http.post("/api/schemas", json={"name": "KEPT", "schema": SCHEMA}), 409, "name_taken"
        )
        for kind, body, status in (
            ("prompts", {"name": "New", "content": "a\x00"}, 422),
            ("prompts", {"name": "New", "content": "Read.", "tag_ids": [str(uuid4())]}, 404),
            ("tags", {"name": "two\nlines"}, 422),
            ("tags", {"name": "New", "color": "red"}, 422),
        ):
            assert_problem(await server.http.post(f"/api/{kind}", json=body), status)


async def test_documents_are_renamed_and_tagged(serve):
    async with serve() as server:
        paid, late = await create(server.http, "tags", "Paid"), await create(server.http, "tags", "late")
        documents = [await server.upload_text(name=f"{n}.txt") for n in range(3)]
        at = f"/api/documents/{documents[0]}"
        now = await update(server.http, at, filename="Rechnung <1>.txt", tags=[paid["id"], late["id"]])
        shown = [{key: tag[key] for key in ("id", "name", "color")} for tag in (late, paid)]
        assert (now["filename"], now["tags"]) == ("Rechnung <1>.txt", shown)
        # The original is unchanged.
        assert (await server.http.get(f"{at}/file")).text.startswith("Invoice number")
        assert (await update(server.http, at, tags=[paid["id"], paid["id"]]))["tags"] == shown[1:]
        assert (await update(server.http, at, filename="b.txt"))["tags"] == shown[1:]
        assert (await update(server.http, at))["filename"] == "b.txt"
        await update(server.http, f"/api/documents/{documents[2]}", tags=[paid["id"], late["id"]])
        listed = (await server.get("documents"))["items"]
        assert [[tag["name"] for tag in item["tags"]] for item in listed] == [["late", "Paid"], [], ["Paid"]]

        async def ids_of_tagged_documents(**asked: Any) -> list[str]:
            answer = await server.http.get("/api/documents", params={"tag_id": paid["id"], **asked})
            return [item["id"] for item in answer.json()["items"]]

        assert await ids_of_tagged_documents() == [str(documents[2]), str(documents[0])]
        assert await ids_of_tagged_documents(filename="b.t") == [str(documents[0])]
        first = (await server.http.get("/api/documents", params={"tag_id": paid["id"], "limit": 1})).json()
        assert await ids_of_tagged_documents(before=first["next"]) == [str(documents[0])]
        # A change is applied completely or not at all.
        for bad in ({"tags": [str(uuid4())]}, {"tags": [str(uuid4())] * 101}, {"filename": "a\nb"}, {"filename": ""}):
            answer = await server.http.patch(at, json={"filename": "c.txt", "tags": [], **bad})
            assert answer.status_code in (404, 422), bad
        now = (await server.http.get(at)).json()
        assert (now["filename"], now["tags"]) == ("b.txt", shown[1:])
        assert (await update(server.http, at, tags=[]))["tags"] == []


async def test_a_prompt_names_its_schema_by_name_id_or_version(serve):
    async with serve() as server:
        schema, other = [await create(server.http, "schemas", name) for name in ("Invoice", "Bill")]
        for named in ("invoice", schema["id"], schema["schema_revid"]):
            prompt = await create(server.http, "prompts", f"By {named}", schema_id=named)
            assert prompt["schema_id"] == schema["id"]
            changed = await update(server.http, f"/api/prompts/{prompt['id']}", schema_id="BILL")
            assert changed["schema_id"] == other["id"]
        for unknown in ("nothing", str(uuid4())):
            body = {"name": "Other", "content": "Read.", "schema_id": unknown}
            assert (await server.http.post("/api/prompts", json=body)).status_code == 404


async def test_extraction_refers_to_its_schema_and_prompt_versions(serve):
    async with serve(Script([repeat_forever([text("Done.")])])) as server:
        schema = await create(server.http, "schemas", "Invoice")
        prompt = await create(server.http, "prompts", "Invoices", schema_id=schema["id"])
        document = await server.upload_text()
        pinned = await create(server.http, "prompts", "Pinned", schema_id=schema["id"], schema_version=1)
        changed = await update(server.http, f"/api/schemas/{schema['id']}", schema=LONGER)
        uses = [(one["name"], one["schema_version"]) for one in changed["prompts"]]
        assert uses == [("Pinned", 1), ("Invoices", None)]
        assert (await server.http.get(f"/api/prompts/{prompt['id']}")).json()["schema_revid"] == changed["schema_revid"]
        for given in ({"schema": "invoice"}, {"schema_id": schema["id"]}, {"prompt": "INVOICES"}):
            made = (await server.extract(document, **given))["extraction"]
            assert made["schema_revid"] == changed["schema_revid"]
            assert (await server.http.delete(f"/api/extractions/{made['id']}")).status_code == 204
        for wrong, status in (
            ({"schema": "nowhere"}, 404),
            ({"prompt": "nowhere"}, 404),
            ({"prompt": "Pinned", "prompt_id": pinned["id"]}, 422),
            ({"schema": SCHEMA, "schema_id": schema["id"]}, 422),
        ):
            request = {"document_id": str(document), **wrong}
            assert (await server.http.post("/api/agent/extract", json=request)).status_code == status
        one = (await server.extract(document, prompt_id=pinned["id"]))["extraction"]
        prompt = pinned
        own = (await server.extract(document, schema=SCHEMA))["extraction"]
        assert (one["schema_revid"], one["prompt_revid"]) == (schema["schema_revid"], prompt["prompt_revid"])
        kept = {"schema_revid": schema["schema_revid"], "schema": SCHEMA}
        assert await server.get(f"extractions/{one['id']}/schema") == kept
        assert await server.get(f"extractions/{own['id']}/schema") == {"schema_revid": None, "schema": SCHEMA}
        for asked in ({"schema_id": schema["id"]}, {"prompt_id": prompt["id"]}):
            listed = (await server.http.get("/api/extractions", params=asked)).json()["items"]
            assert [item["id"] for item in listed] == [one["id"]]
        # The answer to a deletion counts references.
        counted = {"prompts": 2, "extractions": 1, "stacks": 0}
        assert (await server.http.delete(f"/api/schemas/{schema['id']}")).json() == counted
        assert (await server.http.delete(f"/api/prompts/{prompt['id']}")).json() == {"extractions": 1}
        for used in ({"schema_revid": schema["schema_revid"]}, {"prompt_id": prompt["id"]}):
            request = {"document_id": str(document), **used}
            refused = await server.http.post("/api/agent/extract", json=request)
            assert (refused.status_code, refused.json()["code"]) == (409, "deleted")
