"""/docs: the API reference, rendered from the OpenAPI document without scripts, so that it works without internet."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

REFERENCE_PATH: Final = "/docs"
_STYLE: Final = (Path(__file__).parent / "reference.css").read_text("utf-8")
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
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False})

    def prose(text: str | None) -> str:
        return markdown.render(text or "")

    document = app.openapi()
    routes = [
        _route(path, method, operation, document["components"]["schemas"])
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
        parts_of=_parts_of,
        prose=prose,
    )


def _route(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    answers = [
        (status, "" if status.startswith("2") else one["description"], _content(one))
        for status, one in operation["responses"].items()
    ]
    return {
        **operation,
        "path": path,
        "method": method.upper(),
        "scopes": [scope for one in operation.get("security", ()) for scopes in one.values() for scope in scopes],
        "body": _content(operation.get("requestBody", {})),
        "answers": answers,
        "example": _example(path, method.upper(), operation, schemas),
    }


def _content(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body; its media type as the title if it has none."""
    for media_type, one in part.get("content", {}).items():
        return one.get("schema") or {"title": media_type}
    return {}


def _example(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Return a call of curl with all that is required."""
    address = re.sub(r"{(\w+)}", lambda name: f"${name[1].upper()}", path)
    required = [one for one in operation.get("parameters", ()) if one["required"]]
    query = "&".join(f"{one['name']}={_value(one['schema'], schemas)}" for one in required if one["in"] == "query")
    lines = [f'curl{"" if method == "GET" else f" -X {method}"} "$FIELDMARK{address}{"?" + query if query else ""}"']
    if operation.get("security"):
        lines.append('-H "Authorization: Bearer $KEY"')
    lines += [f'-H "{one["name"]}: {_value(one["schema"], schemas)}"' for one in required if one["in"] == "header"]
    for media_type, one in operation.get("requestBody", {}).get("content", {}).items():
        if media_type == "application/json":
            body = json.dumps(_value(one["schema"], schemas), ensure_ascii=False)
            lines += ['-H "Content-Type: application/json"', "-d '{}'".format(body.replace("'", "'\\''"))]
        elif media_type == "multipart/form-data":
            fields = _value(one["schema"], schemas)
            lines += [
                f"-F {name}={'@invoice.pdf' if name in ('file', 'files') else value}" for name, value in fields.items()
            ]
        else:
            lines.append("--data-binary @invoice.pdf")
        break
    return " \\\n  ".join(lines)


def _value(shape: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Return a value with all that a schema requires."""
    if "$ref" in shape:
        return _value(schemas[shape["$ref"].rsplit("/", 1)[-1]], schemas)
    if shape.get("examples"):
        return shape["examples"][0]
    for word in ("const", "default"):
        if shape.get(word) is not None:
            return shape[word]
    if shape.get("enum"):
        return shape["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in shape:
            return _value(shape[word][0], schemas)
    match shape.get("type"):
        case "array":
            return [_value(shape.get("items", {}), schemas)] if shape.get("minItems") else []
        case "object":
            properties = shape.get("properties", {})
            return {name: _value(properties[name], schemas) for name in shape.get("required", ()) if name in properties}
        case "integer" | "number":
            return max(1, shape.get("minimum", 1))
        case "boolean":
            return True
        case _:
            return "…"


def _parts_of(shape: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return a schema in a few words, in parts: text, and the object that it names."""
    if "$ref" in shape:
        name = str(shape["$ref"]).rsplit("/", 1)[-1]
        return [(name, name)]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in shape:
            each = list(dict.fromkeys(tuple(_parts_of(one)) for one in shape[word]))
            return [part for one in each for part in ((" or ", None), *one)][1:]
    if shape.get("type") == "array":
        return [("list of ", None), *_parts_of(shape.get("items", {}))]
    if "properties" in shape:
        return [(f"object with {', '.join(shape['properties'])}", None)]
    return [
        (str(shape.get("format") or shape.get("type") or shape.get("const") or shape.get("title") or "any JSON"), None)
    ]
