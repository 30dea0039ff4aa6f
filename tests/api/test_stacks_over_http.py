"""/api/stacks: columns that cannot be used, schemas edited by hand, and API keys."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from answers import assert_problem

from fieldmark.agents.registry import answer_offline
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio

COLUMNS = [{"name": "items[].price", "type": "number"}, {"name": "vendor"}]


async def create_stack(server, **body: Any) -> dict[str, Any]:
    answer = await server.http.post("/api/stacks", json={"name": "Receipts", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_columns_that_cannot_be_used_are_refused_and_change_nothing(serve):
    async with serve() as server:
        stack = await create_stack(server)
        for column in (
            {"name": "a", "description": "x\0y"},
            {"name": "a", "description": "x\u200by"},
            {"name": '[""]'},
            {"name": "a\0"},
        ):
            for preview in (True, False):
                body = {"columns": [column], "preview": preview}
                answer = await server.http.put(f"/api/stacks/{stack['id']}/columns", json=body)
                assert answer.status_code == 422, (column, answer.text)
            body = {"name": "Other", "columns": [column]}
            assert (await server.http.post("/api/stacks", json=body)).status_code == 422, column
        (found,) = (await server.get("stacks"))["items"]
        assert (found["name"], found["columns"]) == ("Receipts", [])


async def test_table_is_readable_when_its_schema_lost_the_list_of_its_rows_or_was_deleted(serve):
    async with serve() as server:
        document = await server.upload_text()
        stack = await create_stack(server, document_ids=[str(document)], columns=COLUMNS)
        assert stack["rows"] == "items"
        schema = {"type": "object", "properties": {"vendor": {"type": "string"}}}
        answer = await server.http.patch(f"/api/schemas/{stack['schema_id']}", json={"schema": schema})
        assert answer.status_code == 200, answer.text
        for columns in (["vendor"], []):
            found = await server.get(f"stacks/{stack['id']}")
            assert (found["rows"], [one["name"] for one in found["columns"]]) == (None, columns)
            assert found["schema_deleted"] is (columns == [])
            rows = await server.get(f"tables/{stack['id']}/rows")
            assert [one["document_id"] for one in rows["items"]] == [str(document)]
            await server.http.delete(f"/api/schemas/{stack['schema_id']}")
        again = await server.http.put(f"/api/stacks/{stack['id']}/columns", json={"columns": COLUMNS})
        assert again.status_code == 200, again.text
        again = await server.get(f"stacks/{stack['id']}")
        assert (again["rows"], again["schema_deleted"]) == ("items", False)


async def test_questions_about_a_stack_use_its_documents_and_leave_out_copies(serve, clone):
    async with serve(answer_offline) as server:
        named = {
            name: LibraryDocument(
                {"total": total}, filename=f"{name}.pdf", sha256=sha256, created_at=datetime(2026, 1, day, tzinfo=UTC)
            )
            for day, name, total, sha256 in (
                (1, "original", 10, "a" * 64),
                (2, "copy", 10, "a" * 64),
                (3, "other", 5, None),
                (4, "outside", 100, "b" * 64),
            )
        }
        insert_documents(clone.owner_url, server.scope, named.values())
        stack = await create_stack(server, document_ids=[str(named[name].id) for name in ("original", "copy", "other")])
        only_copy = await create_stack(server, name="Copy", document_ids=[str(named["copy"].id)])
        totals = {"aggregates": [{"op": "sum", "path": "total"}]}
        for one, documents, total, copies in ((stack, "original copy other", 15, 1), (only_copy, "copy", 10, 0)):
            expected = {f"{name}.pdf" for name in documents.split()}
            listed = (await server.http.get("/api/documents", params={"stack_id": one["id"]})).json()["items"]
            assert {item["filename"] for item in listed} == expected
            query = {**totals, "where": {"stack_id": one["id"]}}
            figures = (await server.http.post("/api/fields/query", json=query)).json()
            assert [one["value"] for one in figures["groups"][0]["results"]] == [str(total)]
            assert figures["coverage"]["duplicates"] == copies
            asked = {"message": "sum of the totals of the invoices", "filters": {"stack_id": one["id"]}}
            result = (await server.http.post("/api/agent/ask", json=asked)).json()["result"]
            (found,) = result["coverage"]
            assert (found["with_field"], found["copies"]) == (len(expected) - copies, copies), result
            assert found["duplicates"] == ["copy.pdf"] * copies
        # Once the stack has columns, its rows are asked, and not what else was extracted from its documents since.
        columns = {"columns": [{"name": "total", "type": "number"}]}
        changed = await server.http.put(f"/api/stacks/{stack['id']}/columns", json=columns)
        assert changed.status_code == 200, changed.text
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute(
                """insert into extractions (org_id, document_id, created_by, document_type, schema_revid, schema,
                     status, extracted_fields, evidence, created_at)
                   select e.org_id, e.document_id, e.created_by, document_type, v.id, v.schema, status, '{"total": 7}',
                     evidence, e.created_at - interval '1 day'
                   from extractions as e join schema_versions as v on v.schema_id = %s where document_id = %s""",
                [(await server.get(f"stacks/{stack['id']}"))["schema_id"], named["other"].id],
            )
        rows = (await server.get(f"tables/{stack['id']}/rows?totals=true"))["totals"]
        assert [one["sum"] for one in rows] == ["7"]
        query["where"] = {"stack_id": stack["id"]}
        figures = (await server.http.post("/api/fields/query", json=query)).json()
        assert [one["value"] for one in figures["groups"][0]["results"]] == ["7"]
        query["where"]["fields"] = [{"path": "total", "op": "<", "value": 7}]
        assert (await server.http.post("/api/fields/query", json=query)).json()["coverage"]["matched"] == 0
        made = await server.http.post("/api/keys", json={"name": "robot", "scopes": ["documents:read"]})
        async with server.client_with_token(made.json()["key"]) as robot:
            answer = await robot.get("/api/documents", params={"stack_id": stack["id"]})
            assert_problem(answer, 403, "scope_missing")


async def test_columns_defined_by_several_people_at_once_are_versions_of_one_schema(serve):
    async with serve(with_worker=False) as server:
        stack = await create_stack(server)
        path = f"/api/stacks/{stack['id']}/columns"
        changes = (server.http.put(path, json={"columns": [{"name": f"column{n}"}]}) for n in range(6))
        assert {answer.status_code for answer in await asyncio.gather(*changes)} == {200}
        (schema,) = (await server.get("schemas"))["items"]
        assert schema["number"] == 6


async def test_key_that_may_not_write_schemas_cannot_define_columns_by_starting_a_run(serve):
    async with serve() as server:
        document = await server.upload_text()
        stack = await create_stack(server, document_ids=[str(document)])
        made = await server.http.post("/api/keys", json={"name": "robot", "scopes": ["runs:read", "runs:write"]})
        async with server.client_with_token(made.json()["key"]) as robot:
            body = {"stack_id": stack["id"], "wait": False, "columns": COLUMNS}
            assert_problem(await robot.post("/api/agent/stack", json=body), 403, "scope_missing")
            assert (await server.get(f"stacks/{stack['id']}"))["columns"] == []
