"""The OpenAPI description that clients are generated from."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from answers import assert_problem
from openapi_spec_validator import validate

from fieldmark.api.app import create_app
from fieldmark.settings import Settings

VERBS = {"get", "post", "put", "patch", "delete"}
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def operations(openapi: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{verb} {path}", item[verb]) for path, item in openapi["paths"].items() for verb in VERBS & item.keys()]


def test_every_operation_is_documented(openapi):
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


def test_the_description_is_made_once_since_anyone_may_ask_for_it():
    app = create_app(Settings(_env_file=None))
    first, second = (app.openapi()["components"]["schemas"]["RunEvent"] for _ in range(2))
    assert first["title"] == "RunEvent" and first is second


def test_description_is_valid_openapi(openapi):
    validate(openapi)
    assert openapi["servers"] and openapi["info"]["license"]["identifier"] == "Apache-2.0"


def test_every_error_is_described_as_a_problem(openapi):
    for name, operation in operations(openapi):
        errors = {status: documented for status, documented in operation["responses"].items() if status[0] not in "23"}
        assert set(errors) == {"4XX", "default"}, name
        if "/api/" in name and name != "get /api/config":  # public
            assert operation["security"], name
        for status, documented in errors.items():
            assert documented["content"] == PROBLEM and documented["description"], (name, status)


def test_every_reference_resolves_and_no_schema_is_unused(openapi):
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


def test_streams_and_files_have_their_content_types(openapi):
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
    # One object has both the task input and the run options.
    assert {"document_id", "max_turns"} <= set(openapi["components"]["schemas"]["ExtractRequest"]["properties"])


EVENT_TYPES = {
    "run", "reading", "waiting", "text", "thinking", "text_delta", "thinking_delta", "tool", "tool_result", "changed",
    "preview", "preview_withdrawn", "approval", "citation", "open", "retry", "child", "progress", "complete",
    "error",
}  # fmt: skip


def test_events_are_a_union_discriminated_by_type(openapi):
    schemas = openapi["components"]["schemas"]
    union = schemas["RunEvent"]
    assert union["discriminator"]["propertyName"] == "type"
    mapping = union["discriminator"]["mapping"]
    assert mapping.keys() == EVENT_TYPES
    assert sorted(mapping.values()) == sorted(one["$ref"] for one in union["oneOf"])
    for kind, target in mapping.items():
        shape = schemas[target.rsplit("/", 1)[-1]]
        assert shape["properties"]["type"]["const"] == kind and shape["required"][0] == "type"
        for name, documented in shape["properties"].items():
            # Optional properties are not nullable, and nullable properties are required.
            if {"type": "null"} in documented.get("anyOf", []):
                assert name in shape["required"], (kind, name)
        assert "additionalProperties" not in shape  # clients accept properties of later versions
    assert {"tool", "call_id", "input", "status", "message"} <= set(schemas["ToolEvent"]["required"])
    assert {"output", "error", "details"} & set(schemas["ToolResultEvent"]["required"]) == set()


@pytest.mark.anyio
async def test_description_is_public_and_has_no_page_that_loads_scripts():
    app = create_app(Settings(_env_file=None))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
        described = await http.get("/openapi.json")
        assert described.json() == json.loads(json.dumps(app.openapi()))
        for page in ("/docs/oauth2-redirect", "/redoc"):  # of FastAPI
            assert_problem(await http.get(page), 401)  # unknown paths get 401 without a token


@pytest.mark.anyio
async def test_cors_allows_described_requests_from_configured_origins_only(openapi):
    allowed_origin, other_origin = "https://app.example.com", "https://elsewhere.example.com"
    app = create_app(Settings(_env_file=None, cors_origins=[allowed_origin]))
    header_names = {"authorization", "content-type"}
    for _, operation in operations(openapi):
        header_names |= {
            parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "header"
        }
    assert "if-match" in header_names and "last-event-id" in header_names
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
        for verb in {name.split()[0].upper() for name, _ in operations(openapi)}:
            preflight = {
                "access-control-request-method": verb,
                "access-control-request-headers": ", ".join(sorted(header_names)),
            }
            accepted = await http.options("/api/documents", headers={"origin": allowed_origin, **preflight})
            assert (accepted.status_code, accepted.headers["access-control-allow-origin"]) == (200, allowed_origin), (
                verb
            )
            refused = await http.options("/api/documents", headers={"origin": other_origin, **preflight})
            assert_problem(refused, 403, "forbidden")
            assert "access-control-allow-origin" not in refused.headers
        answer = await http.get("/openapi.json", headers={"origin": allowed_origin})
        readable = answer.headers["access-control-expose-headers"].split(", ")
        assert {"content-disposition", "x-box"} <= set(readable)
