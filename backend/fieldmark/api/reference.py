"""/docs: the API for people, drawn from its own description. No script and nothing fetched, so it needs no network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter()

_STYLE = (Path(__file__).parent / "reference.css").read_text(encoding="utf-8")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_VERBS = ("get", "post", "put", "patch", "delete")

Described = Mapping[str, Any]


@router.get("/docs", include_in_schema=False)
async def show_reference(request: Request) -> HTMLResponse:
    """The page."""
    return HTMLResponse(as_html(request.app.openapi()), headers={"content-security-policy": _POLICY})


def as_html(openapi: Described) -> str:
    """An OpenAPI description as a page: what can be called, by tag, then the shapes of what is sent and answered."""
    about = openapi["info"]
    tags = [(tag, list(_operations(openapi, tag["name"]))) for tag in openapi["tags"]]
    shapes: Described = openapi["components"]["schemas"]
    schemes: Described = openapi["components"].get("securitySchemes", {})
    menu = "".join(
        f"<h2>{_text(tag['name'])}</h2><ul>{''.join(_entry(*one) for one in all_)}</ul>" for tag, all_ in tags
    )
    parts = [
        f"<h1>{_text(about['title'])} {_text(about['version'])}</h1>{_prose(about['description'])}",
        *(f"<p>Authorization: {_inline(scheme['description'])}</p>" for scheme in schemes.values()),
        '<p>For programs: <a href="/openapi.json">/openapi.json</a></p>',
    ]
    for tag, all_ in tags:
        parts.append(f"<h2>{_text(tag['name'])}</h2>{_prose(tag['description'])}")
        parts += [_operation(verb, path, said) for verb, path, said in all_]
    parts.append("<h2>Shapes</h2>")
    parts += [
        f'<section id="shape-{_text(name)}"><h3>{_text(name)}</h3>{_prose(shape.get("description", ""))}'
        f"{_properties(shape)}{_alternatives(shape)}</section>"
        for name, shape in shapes.items()
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(about['title'])}: the API</title><style>{_STYLE}</style></head>"
        f'<body><nav>{menu}<h2><a href="#shape-{_text(next(iter(shapes), ""))}">Shapes</a></h2></nav>'
        f"<main>{''.join(parts)}</main></body></html>"
    )


def _operations(openapi: Described, tag: str) -> Iterator[tuple[str, str, Described]]:
    for path, item in openapi["paths"].items():
        for verb in _VERBS:
            if verb in item and tag in item[verb]["tags"]:
                yield verb, path, item[verb]


def _entry(verb: str, path: str, said: Described) -> str:
    return f'<li><a href="#{_text(said["operationId"])}">{_call(verb, path)}</a></li>'


def _operation(verb: str, path: str, said: Described) -> str:
    rows = [
        _row(given["name"], given["in"], _type(given["schema"]), given.get("description", ""), given)
        for given in said.get("parameters", [])
    ]
    for medium, content in said.get("requestBody", {}).get("content", {}).items():
        inline = _properties(content["schema"])
        rows.append(_row("body", medium, _type(content["schema"]), "", said["requestBody"], inline))
    for status, answer in said["responses"].items():
        for medium, content in answer.get("content", {"": {"schema": {}}}).items():
            rows.append(_row(status, medium, _type(content.get("schema", {})), answer["description"], {}))
    return (
        f'<section id="{_text(said["operationId"])}"><h3>{_call(verb, path)}</h3>{_prose(said["description"])}'
        f"<table><tbody>{''.join(rows)}</tbody></table></section>"
    )


def _properties(shape: Described) -> str:
    """The fields of an object, or nothing."""
    wanted = shape.get("required", [])
    rows = [
        _row(name, "", _type(said), said.get("description", ""), {**said, "required": name in wanted})
        for name, said in shape.get("properties", {}).items()
    ]
    return f"<table><tbody>{''.join(rows)}</tbody></table>" if rows else ""


def _alternatives(shape: Described) -> str:
    """The shapes of a union by the value that tells them apart, or nothing."""
    told_by: Described = shape.get("discriminator", {})
    rows = [
        _row(value, told_by["propertyName"], _type({"$ref": target}), "", {})
        for value, target in told_by.get("mapping", {}).items()
    ]
    return f"<table><tbody>{''.join(rows)}</tbody></table>" if rows else ""


def _row(name: str, where: str, kind: str, about: str, said: Described, below: str = "") -> str:
    notes = ["required"] if said.get("required") is True else []
    if "default" in said and said["default"] is not None:
        notes.append(f"<code>{_text(json.dumps(said['default'], ensure_ascii=False))}</code> if left out")
    notes += [f"such as <code>{_text(json.dumps(one, ensure_ascii=False))}</code>" for one in said.get("examples", [])]
    words = " · ".join(filter(None, [kind, *notes]))
    return (
        f"<tr><th>{_text(name)}<small>{_text(where)}</small></th>"
        f"<td>{words}{_prose(about) if about else ''}{below}</td></tr>"
    )


def _type(schema: Described) -> str:
    if "$ref" in schema:
        name = _text(str(schema["$ref"]).rsplit("/", 1)[-1])
        return f'<a href="#shape-{name}">{name}</a>'
    for words in ("anyOf", "oneOf"):
        if words in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[words])))
    if "enum" in schema or "const" in schema:
        return " | ".join(f"<code>{_text(json.dumps(one))}</code>" for one in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "")
    if kind == "array":
        return f"list of {_type(schema.get('items', {})) or 'anything'}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    limits = [schema.get("format", "")] + [
        f"{sign} {schema[name]:g}"
        for name, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
        if name in schema
    ]
    return _text(" ".join(filter(None, [str(kind), *limits])))


def _call(verb: str, path: str) -> str:
    return f'<b class="{verb}">{verb.upper()}</b> <code>{_text(path)}</code>'


def _prose(text: str) -> str:
    """Paragraphs; what stands between backticks is code."""
    return "".join(f"<p>{_inline(part)}</p>" for part in text.strip().split("\n\n") if part)


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(text))


def _text(text: str) -> str:
    return html.escape(text, quote=True)
