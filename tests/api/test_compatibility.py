"""The API accepts what it accepted in the last release, and returns what it returned."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from api_compatibility import Comparison, described, released_api

UPLOAD, DOCUMENTS, EXTRACT = "POST /api/documents", "GET /api/documents", "POST /api/agent/extract"


@pytest.fixture(scope="module")
def described_api(openapi) -> dict[str, Any]:
    return described(openapi)


def test_the_api_is_compatible_with_that_of_the_last_release(described_api):
    assert list(Comparison(released_api(), described_api).problems()) == []


def schema(api: dict[str, Any], name: str) -> dict[str, Any]:
    return api["schemas"][name]


BREAKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "an operation": lambda api: api["operations"].pop(UPLOAD),
    "a parameter": lambda api: api["operations"][DOCUMENTS]["parameters"].pop("query stage"),
    "a parameter becomes required": lambda api: api["operations"][DOCUMENTS]["parameters"]["query stage"].update(
        required=True
    ),
    "a member of a request": lambda api: schema(api, "ExtractRequest")["properties"].pop("instructions"),
    "a member of a request becomes required": lambda api: schema(api, "ExtractRequest")["required"].append("schema"),
    "a new member of a request is required": lambda api: schema(api, "ExtractRequest").update(
        properties=schema(api, "ExtractRequest")["properties"] | {"new": {"type": "string"}},
        required=[*schema(api, "ExtractRequest")["required"], "new"],
    ),
    "a member of a request takes fewer values": lambda api: schema(api, "ExtractRequest")["properties"].update(
        max_turns={"type": "integer", "maximum": 1}
    ),
    "a field of an answer": lambda api: (
        schema(api, "Document")["properties"].pop("filename"),
        schema(api, "Document")["required"].remove("filename"),
    ),
    "a field of an answer may be missing": lambda api: schema(api, "Document")["required"].remove("filename"),
    "a field of an answer may be null": lambda api: schema(api, "Document")["properties"].update(
        filename={"anyOf": [{"type": "string"}, {"type": "null"}]}
    ),
    "a kind of event": lambda api: schema(api, "RunEvent")["oneOf"].pop(),
}

EXTENSIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "an operation": lambda api: api["operations"].update(new=api["operations"][DOCUMENTS]),
    "an optional parameter": lambda api: api["operations"][DOCUMENTS]["parameters"].update(
        {"query new": {"required": False, "schema": {"type": "string"}}}
    ),
    "an optional member of a request": lambda api: schema(api, "ExtractRequest")["properties"].update(
        new={"type": "string"}
    ),
    "a member of a request takes more values": lambda api: schema(api, "ExtractRequest")["properties"].update(
        instructions={}
    ),
    "a field of an answer": lambda api: schema(api, "Document")["properties"].update(new={"type": "string"}),
    "a status in an answer": lambda api: schema(api, "ChangeType")["enum"].append("new.type"),
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=BREAKS.keys())
def test_what_breaks_clients_is_found(described_api, change):
    changed = copy.deepcopy(described_api)
    change(changed)
    assert list(Comparison(described_api, changed).problems()) != []


@pytest.mark.parametrize("change", EXTENSIONS.values(), ids=EXTENSIONS.keys())
def test_extensions_are_compatible(described_api, change):
    changed = copy.deepcopy(described_api)
    change(changed)
    assert list(Comparison(described_api, changed).problems()) == []
