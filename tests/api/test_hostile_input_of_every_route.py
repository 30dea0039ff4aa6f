"""No input of any route makes the event loop work longer than 50 ms, or is answered by an error of the service."""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Collection, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from event_loop import longest_block
from test_every_operation import JSON, operations

pytestmark = pytest.mark.anyio


TEXT = {"type": "string"}
LONG_PATH = ".".join(["name" * 7] * 31)
QUERY_VALUES = (f"{LONG_PATH}[] = {'9' * 300}", "a[](,[" * 500, '["\u0345' * 400)
NUMBERS = json.dumps(list(range(200_000)))
DEEP = "[" * 3_000 + "]" * 3_000
BODIES = {
    "escapes": "," * 20_000 + '"\\' * 900_000,
    "deep": DEEP,
    "deep property": f'{{"a": {DEEP}}}',
    "too many values": NUMBERS,
    "long number": "9" * 5_000,
}
# Values of a property of a body. Each passes the limits of all bodies.
PROPERTY_VALUES = {
    "deep": '{"a":' * 900 + "1" + "}" * 900,
    "long text": json.dumps("a[0].(,\u0345" * 40_000),
    "many numbers": json.dumps(list(range(9_900))),
    "many objects": json.dumps([{"name": "a", "path": "a.b", "type": "number"}] * 3_300),
    "many keys": json.dumps({f"k{number}": {"type": "string"} for number in range(9_900)}),
    "references": json.dumps(
        {
            "properties": {f"p{at}": {"$ref": "#/$defs/n"} for at in range(30)},
            "$defs": {"n": {"properties": {f"p{at}": {"$ref": "#/$defs/n"} for at in range(30)}}},
        }
    ),
}


def resolve(openapi: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = openapi["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def example(openapi: dict[str, Any], schema: dict[str, Any], ids: dict[str, str], name: str = "") -> Any:
    """Return a simple value of a schema; an existing id if the name is that of one."""
    schema = resolve(openapi, schema)
    if name in ids:
        return ids[name]
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    variants = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf") or [{}]
    if properties := schema.get("properties"):
        needed = {*schema.get("required", ()), *variants[0].get("required", ()), *{"wait"}.intersection(properties)}
        return {key: key != "wait" and example(openapi, properties[key], ids, key) for key in needed}
    if variants != [{}]:
        return example(openapi, variants[0], ids, name)
    match schema.get("type"):
        case "object":
            return {}
        case "array":
            return [example(openapi, schema.get("items", {}), ids, name.removesuffix("s"))] * schema.get("minItems", 0)
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return str(uuid4()) if schema.get("format") == "uuid" else "a"


def hostile_bodies(
    openapi: dict[str, Any], schema: dict[str, Any], ids: dict[str, str], names: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield bodies with their names: hostile ones, and valid ones with a hostile value of each property. Only those
    that `names` contains."""
    yield from ((name, text) for name, text in BODIES.items() if name in names)
    schema = resolve(openapi, schema)
    base = example(openapi, schema, ids)
    properties = schema.get("properties", {})
    for key in properties:
        rest = {name: value for name, value in base.items() if name != key}
        start = json.dumps(rest)[:-1] + (", " if rest else "")
        for name, value in ((name, value) for name, value in PROPERTY_VALUES.items() if name in names):
            yield f"{key}: {name}", f"{start}{json.dumps(key)}: {value}}}"


async def make_items(server: Any) -> dict[str, str]:
    """Create an item of each kind. Return the ids, by the names that routes use."""
    http: httpx.AsyncClient = server.http

    async def create(path: str, **body: Any) -> dict[str, Any]:
        answer = await http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    org = (await create("/api/organisations", name="O"))["id"]
    http.headers["x-org-id"] = org
    upload = await http.post("/api/documents", files={"file": ("a.txt", b"Total: 10")})
    document = upload.json()["id"]
    schema = await create("/api/schemas", name="s", schema={"type": "object", "properties": {"total": TEXT}})
    prompt = await create("/api/prompts", name="p", content="Read.")
    thread = await create("/api/threads", document_id=document)
    run = await create("/api/agent/extract", document_id=document, schema_id=schema["id"], wait=False)
    await http.post(f"/api/runs/{run['run_id']}/cancel")
    return {
        "document_id": document,
        "extraction_id": run["extraction_id"],
        "run_id": run["run_id"],
        "organisation_id": org,
        "org_id": org,
        "user_id": str(server.scope.user_id),
        "invitation_id": (await create(f"/api/organisations/{org}/invitations", role="viewer"))["id"],
        "key_id": (await create("/api/keys", name="k", scopes=["documents:read"]))["id"],
        "number": "1",
        "schema_id": schema["id"],
        "schema_revid": schema["schema_revid"],
        "prompt_id": prompt["id"],
        "prompt_revid": prompt["prompt_revid"],
        "tag_id": (await create("/api/tags", name="t"))["id"],
        "thread_id": thread["id"],
        "webhook_id": (await create("/api/webhooks", url="https://a.example"))["id"],
        "delivery_id": str(uuid4()),
        "source_id": (
            await create("/api/sources", kind="bucket", address="https://a.example/b", username="u", secret="s")
        )["id"],
        "table_id": schema["id"],
        "view_id": str(uuid4()),
        "comment_id": str(uuid4()),
        "stack_id": (await create("/api/stacks", name="t", document_ids=[document], columns=[{"name": "a"}]))["id"],
    }


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("deep property", "long text", "references"), id="some"),
        pytest.param((*BODIES, *PROPERTY_VALUES), id="all", marks=pytest.mark.full),
    ],
)
async def test_no_input_of_any_route_blocks_the_event_loop(serve, openapi, names):
    blocks: dict[str, float] = {}
    failures: dict[str, int] = {}
    one_value = itertools.cycle(QUERY_VALUES)
    async with serve(with_worker=False) as server:
        ids = await make_items(server)
        # Deletions come last: the other routes need the items.
        routes = sorted(operations(openapi, ids), key=lambda route: route[0] == "DELETE")
        gc.collect()
        for method, template, path, operation in routes:
            parameters = [one for one in operation.get("parameters", []) if one["in"] == "query"]
            required = {one["name"]: ids.get(one["name"], "a") for one in parameters if one.get("required")}

            async def request(what: str, content: str = "", method=method, path=path, template=template, **query: Any):
                name = f"{method} {template} {what}"
                for _ in range(2):  # what blocks once may have been slowed by another process
                    blocks.pop(name, None)
                    with longest_block(blocks, name):
                        answer = await server.http.request(method, path, params=query, content=content, headers=JSON)
                    if answer.status_code >= 500:
                        failures[name] = answer.status_code
                    if name not in blocks:
                        break

            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            await request("as it is", json.dumps(example(openapi, body, ids)) if body else "", **required)
            blocks.pop(f"{method} {template} as it is", None)  # it loads what is loaded once
            for parameter in parameters:
                for value in QUERY_VALUES if BODIES.keys() <= {*names} else (next(one_value),):
                    await request(f"?{parameter['name']}={value[:10]}", **required | {parameter["name"]: value})
            if body is not None:
                for what, text in hostile_bodies(openapi, body, ids, names):
                    await request(what, text, **required)
    assert (blocks, failures) == ({}, {})
