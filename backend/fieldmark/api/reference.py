"""/docs: the API reference, rendered from the OpenAPI document without scripts, so that it works without internet."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

REFERENCE_PATH: Final = "/docs"
_STYLE: Final = (
    "main{max-width:60rem;margin:2rem auto;padding:0 1rem;font:16px/1.5 system-ui}pre{white-space:pre-wrap}"
    "td{vertical-align:top;padding:.2rem 1rem .2rem 0}details{margin:.4rem 0}summary{cursor:pointer}"
)
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def add_reference(app: FastAPI) -> None:
    """Add the page."""
    rendered: list[str] = []

    async def serve_reference(request: Request) -> HTMLResponse:
        if not rendered:
            rendered.append(await asyncio.to_thread(_render, app))
        return HTMLResponse(rendered[0], headers=_HEADERS)

    app.add_api_route(REFERENCE_PATH, serve_reference, methods=["GET", "HEAD"], include_in_schema=False)


def _render(app: FastAPI) -> str:
    from jinja2 import Environment, FileSystemLoader

    document = app.openapi()
    routes = [
        _route(path, method, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    template = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True).get_template(
        "reference.html"
    )
    return template.render(
        info=document["info"],
        tags=document["tags"],
        routes=routes,
        schemas=document["components"]["schemas"],
        style=_STYLE,
        name_of=_name_of,
    )


def _route(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    answers = [(status, _content(one)) for status, one in operation["responses"].items() if status.startswith("2")]
    return {
        **operation,
        "path": path,
        "method": method.upper(),
        "scopes": [scope for one in operation.get("security", ()) for scopes in one.values() for scope in scopes],
        "body": _content(operation.get("requestBody", {})),
        "answers": answers,
    }


def _content(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body; its media type as the title if it has none."""
    for media_type, one in part.get("content", {}).items():
        return one.get("schema") or {"title": media_type}
    return {}


def _name_of(shape: dict[str, Any]) -> str:
    """Return a schema in a few words: the name of an object, or a type."""
    if "$ref" in shape:
        return str(shape["$ref"]).rsplit("/", 1)[-1]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in shape:
            return " or ".join(dict.fromkeys(_name_of(one) for one in shape[word]))
    if shape.get("type") == "array":
        return f"list of {_name_of(shape.get('items', {}))}"
    if "properties" in shape:
        return f"object with {', '.join(shape['properties'])}"
    return str(shape.get("format") or shape.get("type") or shape.get("const") or shape.get("title") or "any JSON")
