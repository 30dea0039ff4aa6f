"""Additions to the OpenAPI document that FastAPI generates."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from fieldmark.api.auth import BEARER
from fieldmark.api.permissions import SECOND_SCOPES, required_scope
from fieldmark.api.problems import problem_schemas
from fieldmark.api.request_guard import PUBLIC_PATHS
from fieldmark.api.routing import build_routes
from fieldmark.api.streams import event_schemas


def extend_openapi(app: FastAPI) -> None:
    """Add the schemas of errors and events, and the scopes that an API key needs for each operation."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:  # anyone may ask for it, and making it takes long
            return app.openapi_schema
        build_routes(app)
        document = generate()
        document["components"]["schemas"] |= event_schemas() | problem_schemas()
        for path, item in document["paths"].items():
            for method, operation in item.items():
                _add_scopes(operation, method.upper(), path)
                for parameter in operation.get("parameters", []):
                    _remove_null(parameter["schema"])
        return document

    app.openapi = openapi


def _add_scopes(operation: dict[str, Any], method: str, path: str) -> None:
    if path in PUBLIC_PATHS and path != "/metrics":  # which has its own token
        operation["security"] = []
    needed = required_scope(method, path), SECOND_SCOPES.get((method, path))
    scopes = [scope.value for scope in needed if scope is not None]
    if scopes:
        operation["security"] = [{BEARER.scheme_name: scopes}]


def _remove_null(schema: dict[str, Any]) -> None:
    # A parameter may be left out, but is never null.
    types: list[dict[str, Any]] = schema.get("anyOf", [])
    if (remaining := [one for one in types if one != {"type": "null"}]) != types:
        del schema["anyOf"]
        schema |= remaining[0] if len(remaining) == 1 else {"anyOf": remaining}
