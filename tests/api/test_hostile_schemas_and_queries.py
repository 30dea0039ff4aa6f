"""No schema, path, column, filter or condition makes the event loop work longer than 50 ms."""

from __future__ import annotations

from typing import Any

import pytest
from event_loop import longest_block

pytestmark = pytest.mark.anyio


TEXT = {"type": "string"}


def graph(names: int, fields: int, target: str) -> dict[str, Any]:
    """Return definitions whose fields refer to other definitions: `target` names the one of a number and a field."""
    definitions = {
        f"d{number}": {
            "properties": {
                f"p{at}": {"$ref": f"#/$defs/{target.format(next=number + 1, at=at)}"} for at in range(fields)
            }
        }
        for number in range(names)
    }
    return {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/d0"}}, "a": TEXT},
    } | {"$defs": {**definitions, f"d{names}": TEXT}}


SCHEMAS: dict[str, dict[str, Any]] = {
    "refers to itself": graph(1, 30, "d0"),
    "branches": graph(9, 10, "d{next}"),
    "refer to each other": graph(30, 30, "d{at}"),
    "many fields": {"type": "object", "properties": {f"field_{number}": TEXT for number in range(3_000)}},
    "many alternatives": {"type": "object", "properties": {"a": {"anyOf": [TEXT] * 4_000}}},
    "many anchors": {
        "type": "object",
        "properties": {f"f{number}": {"$ref": f"#a{number}"} for number in range(500)},
        "$defs": {f"d{number}": {"$anchor": f"a{number}", "type": "string"} for number in range(500)},
    },
    "long column order": {
        "type": "object",
        "properties": {"a": TEXT},
        "x-fieldmark": {"columns": [f"{number}" * 3 for number in range(9_000)]},
    },
    "many rules": {
        "type": "object",
        "allOf": [{"properties": {f"f{number}": {"type": "number"}}} for number in range(2_000)],
        "x-fieldmark": {"rules": [{"equals": [f"f{at}" for at in range(20)]}] * 50},
    },
}
LONG_PATH = ".".join(["name" * 7] * 31)
MANY_COLUMNS = [
    {"name": f"column {number} " + "x" * 180, "type": "number", "unit": "kg", "description": "d" * 20}
    for number in range(75)
]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("branches", "many anchors", "many rules") else pytest.mark.full)
        for name in SCHEMAS
    ],
)
async def test_hostile_schema_does_not_block_the_event_loop(serve, name):
    blocks: dict[str, float] = {}
    async with serve(with_worker=False) as server:
        http = server.http
        upload = await http.post("/api/documents", files={"file": ("a.txt", b"Total: 10")})
        document_id = upload.json()["id"]
        stack = (await http.post("/api/stacks", json={"name": "S", "columns": [{"name": "a"}]})).json()
        await http.get(f"/api/tables/{stack['id']}/rows")  # warms up

        async def request(method: str, path: str, **body: Any) -> Any:
            with longest_block(blocks, f"{method} {path.partition('?')[0].rpartition('/')[2] or path}"):
                answer = await http.request(method, path, **body)
            assert answer.status_code < 500, (path, answer.text[:300])
            return answer

        schema = {"json": {"name": name, "schema": SCHEMAS[name]}}
        created = await request("POST", "/api/schemas", **schema)
        extract = {"document_id": document_id, "schema": SCHEMAS[name], "wait": False}
        await request("POST", "/api/agent/extract", json=extract)
        if created.status_code == 201:
            schema_id = created.json()["id"]
            for query in ("rows", "rows?list=items", "rows?totals=true&marks=true", "view", "export"):
                await request("GET", f"/api/tables/{schema_id}/{query}")
            await request("POST", f"/api/schemas/{schema_id}/changes", json={"schema": SCHEMAS[name]})
        await request("PATCH", f"/api/schemas/{stack['schema_id']}", json={"schema": SCHEMAS[name]})
        for path in ("stacks", f"stacks/{stack['id']}", *(f"tables/{stack['id']}/{one}" for one in ("rows", "export"))):
            await request("GET", f"/api/{path}")
        for preview in (True, False):
            columns = {"columns": [{"name": "a"}, {"name": "b"}], "preview": preview}
            await request("PUT", f"/api/stacks/{stack['id']}/columns", json=columns)
    assert blocks == {}


async def test_hostile_paths_columns_and_filters_do_not_block_the_event_loop(serve):
    blocks: dict[str, float] = {}
    async with serve(with_worker=False) as server:
        http = server.http
        fields = {
            "type": "object",
            "properties": {"a": {"type": "number"}, "items": {"type": "array", "items": {"$ref": "#"}}},
        }
        schema = (await http.post("/api/schemas", json={"name": "S", "schema": fields})).json()
        stack = (await http.post("/api/stacks", json={"name": "S", "columns": [{"name": "a"}]})).json()
        table, of_stack = f"/api/tables/{schema['id']}", f"/api/tables/{stack['id']}/rows"
        filters = [f"{LONG_PATH} = {'9' * 300}", "a[]" * 300 + " > 1", f'a = "{"x" * 900}"', "(" * 900, '["' * 400]
        for path in (f"{table}/rows", of_stack, f"{table}/export", "/api/search?q=total"):
            await http.get(path)
            for text in filters:
                with longest_block(blocks, f"GET {path} {text[:10]}"):
                    answer = await http.get(
                        path, params={"filter": [text] * 20, "q": "total"} if "?" in path else {"filter": [text] * 20}
                    )
                assert answer.status_code < 500, answer.text[:300]
        for name in ("sort", "column", "list"):
            with longest_block(blocks, f"GET {name}"):
                await http.get(f"{table}/rows", params={name: LONG_PATH})
        for columns in (MANY_COLUMNS, [{"name": LONG_PATH[:200]}] * 200, [{"name": "a." * 99 + "a"}] * 200):
            for preview in (True, False):
                with longest_block(blocks, "PUT columns"):
                    put = {"columns": columns, "preview": preview}
                    answer = await http.put(f"/api/stacks/{stack['id']}/columns", json=put)
                assert answer.status_code < 500, answer.text[:300]
    assert blocks == {}
