"""What the OpenAPI contains beyond what FastAPI reads from the routes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from fieldmark.api.auth import BEARER
from fieldmark.api.edge import OPEN
from fieldmark.api.permissions import ALSO_NEEDED, permission_of
from fieldmark.api.problems import problem_schemas
from fieldmark.api.streams import event_schemas


def complete_description(app: FastAPI) -> None:
    """Add the schemas of errors and events, and the scopes that a key needs for each operation."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        description = generate()
        description["components"]["schemas"] |= event_schemas() | problem_schemas()
        for path, item in description["paths"].items():
            for method, operation in item.items():
                _add_scopes(operation, method.upper(), path)
                for parameter in operation.get("parameters", []):
                    _without_null(parameter["schema"])
        return description

    app.openapi = openapi


def _add_scopes(operation: dict[str, Any], method: str, path: str) -> None:
    if path in OPEN and path != "/metrics":  # which has a token of its own
        operation["security"] = []
    needed = permission_of(method, path), ALSO_NEEDED.get((method, path))
    scopes = [scope.value for scope in needed if scope is not None]
    if scopes:
        operation["security"] = [{BEARER.scheme_name: scopes}]


def _without_null(schema: dict[str, Any]) -> None:
    """A parameter may be left out, but is never null."""
    kinds: list[dict[str, Any]] = schema.get("anyOf", [])
    if (said := [kind for kind in kinds if kind != {"type": "null"}]) != kinds:
        del schema["anyOf"]
        schema |= said[0] if len(said) == 1 else {"anyOf": said}
