"""The description of the API that people read and clients are generated from."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from answers import problem
from openapi_spec_validator import validate

from fieldmark.api.app import create_app
from fieldmark.settings import Settings

VERBS = {"get", "post", "put", "patch", "delete"}
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def operations(openapi: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{verb} {path}", item[verb]) for path, item in openapi["paths"].items() for verb in VERBS & item.keys()]


def test_every_operation_says_what_it_does(openapi):
    assert len(operations(openapi)) >= 14
    names = [operation["operationId"] for _, operation in operations(openapi)]
    assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)
    documented = {tag["name"] for tag in openapi["tags"]}
    for name, operation in operations(openapi):
        assert len(operation["summary"]) > 3, name
        assert operation["description"].rstrip().endswith("."), name
        assert set(operation["tags"]) <= documented and operation["tags"], name
        for parameter in operation.get("parameters", []):
            assert parameter["in"] == "path" or parameter["description"], (name, parameter["name"])


def test_the_description_is_an_openapi_s(openapi):
    validate(openapi)
    assert openapi["servers"] and openapi["info"]["license"]["identifier"] == "Apache-2.0"


def test_every_error_is_described_as_a_problem(openapi):
    for name, operation in operations(openapi):
        errors = {status: documented for status, documented in operation["responses"].items() if status[0] != "2"}
        assert set(errors) == {"4XX", "default"}, name
        if "/api/" in name and name != "get /api/config":  # it asks for no token
            assert operation["security"], name
        for status, documented in errors.items():
            assert documented["content"] == PROBLEM and documented["description"], (name, status)


def test_every_reference_leads_somewhere_and_nothing_is_left_over(openapi):
    schemas = openapi["components"]["schemas"]
    references: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                references.add(node["$ref"])
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for value in node:
                collect(value)

    collect(openapi)
    assert references == {f"#/components/schemas/{name}" for name in schemas}
    for name, schema in schemas.items():
        assert not name.startswith(("Body_", "HTTPValidation", "ValidationError")), name
        assert schema.get("description"), name


def test_streams_and_files_are_described_as_what_they_are(openapi):
    def content(path: str, verb: str, status: str = "200") -> set[str]:
        return set(openapi["paths"][path][verb]["responses"][status]["content"])

    assert content("/api/agent/extract", "post") == {"application/json", "text/event-stream"}
    assert content("/api/agent/correct", "post") == {"application/json", "text/event-stream"}
    assert content("/api/runs/{run_id}/events", "get") == {"text/event-stream"}
    assert content("/api/documents/{document_id}/pages/{number}.png", "get") == {"image/png"}
    for path, verb in (
        ("/api/agent/extract", "post"),
        ("/api/agent/correct", "post"),
        ("/api/runs/{run_id}/events", "get"),
    ):
        stream = openapi["paths"][path][verb]["responses"]["200"]["content"]["text/event-stream"]
        assert stream["schema"] == {"$ref": "#/components/schemas/RunEvent"}, path
    upload = openapi["paths"]["/api/documents"]["post"]
    (form,) = upload["requestBody"]["content"].values()
    assert form["schema"]["properties"]["file"] == {"type": "string", "format": "binary"}
    assert list(openapi["paths"]["/api/documents/adopt"]["post"]["requestBody"]["content"]) == ["application/json"]
    # What the task is given, and what every run may be asked for, in one object.
    assert {"document_id", "max_turns"} <= set(openapi["components"]["schemas"]["ExtractRequest"]["properties"])


TYPES = {
    "run", "reading", "waiting", "text", "thinking", "text_delta", "thinking_delta", "tool", "tool_result", "changed",
    "preview", "preview_withdrawn", "approval", "citation", "open", "retry", "child", "complete", "error",
}  # fmt: skip


def test_events_are_described_as_a_union_told_apart_by_their_type(openapi):
    schemas = openapi["components"]["schemas"]
    union = schemas["RunEvent"]
    assert union["discriminator"]["propertyName"] == "type"
    mapping = union["discriminator"]["mapping"]
    assert mapping.keys() == TYPES
    assert sorted(mapping.values()) == sorted(one["$ref"] for one in union["oneOf"])
    for kind, target in mapping.items():
        shape = schemas[target.rsplit("/", 1)[-1]]
        assert shape["properties"]["type"]["const"] == kind and shape["required"][0] == "type"
        for name, documented in shape["properties"].items():
            # What may be left out is never null, and what may be null is never left out.
            if {"type": "null"} in documented.get("anyOf", []):
                assert name in shape["required"], (kind, name)
        assert "additionalProperties" not in shape  # a client of today reads what is told tomorrow
    assert {"tool", "call_id", "input", "status", "message"} <= set(schemas["ToolEvent"]["required"])
    assert {"output", "error", "details"} & set(schemas["ToolResultEvent"]["required"]) == set()


@pytest.mark.anyio
async def test_the_description_asks_for_no_token_and_there_is_no_page_that_loads_scripts():
    app = create_app(Settings(_env_file=None))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
        described = await http.get("/openapi.json")
        assert described.json() == json.loads(json.dumps(app.openapi()))
        for page in ("/docs", "/redoc"):
            problem(await http.get(page), 401)  # an address that is not open does not say whether it exists


@pytest.mark.anyio
async def test_a_page_of_a_named_origin_may_send_all_that_is_described_and_one_of_another_nothing(openapi):
    ours, foreign = "https://app.example.com", "https://elsewhere.example.com"
    app = create_app(Settings(_env_file=None, cors_origins=[ours]))
    sent = {"authorization", "content-type"}
    for _, operation in operations(openapi):
        sent |= {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "header"}
    assert "if-match" in sent and "last-event-id" in sent
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
        for verb in {name.split()[0].upper() for name, _ in operations(openapi)}:
            asks = {"access-control-request-method": verb, "access-control-request-headers": ", ".join(sorted(sent))}
            allowed = await http.options("/api/documents", headers={"origin": ours, **asks})
            assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, ours), verb
            refused = await http.options("/api/documents", headers={"origin": foreign, **asks})
            assert refused.status_code == 400 and "access-control-allow-origin" not in refused.headers
        answer = await http.get("/openapi.json", headers={"origin": ours})
        readable = answer.headers["access-control-expose-headers"].split(", ")
        assert {"content-disposition", "x-box"} <= set(readable)
