"""Compares the API with that of the last release: what a client of the release sends must still be accepted, and what
it reads must still be returned.

    python tests/api_compatibility.py            # list what is incompatible
    python tests/api_compatibility.py --write    # after a release: store the API as that of the release

`tests/api/test_compatibility.py` fails if anything is listed. A break on purpose is stored with `--write`, and has a
line in CHANGELOG.md. The stored description has no texts, and one line for each operation and schema.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

RELEASED: Final = Path(__file__).parent / "api" / "released_api.json"
_TEXTS: Final = {"title", "description", "summary", "example", "examples", "default", "discriminator", "tags"}
_LOWER_IS_BREAKING: Final = ("maxLength", "maxItems", "maximum", "exclusiveMaximum", "maxProperties")
_HIGHER_IS_BREAKING: Final = ("minLength", "minItems", "minimum", "exclusiveMinimum", "minProperties")
_KINDS: Final = {"null", "boolean", "integer", "number", "string", "array", "object"}


def described(openapi: dict[str, Any]) -> dict[str, Any]:
    """Return what clients depend on: `operations` ("POST /api/…") with parameters, body and successful responses, and
    `schemas`."""
    operations = {
        f"{method.upper()} {path}": {
            "parameters": {
                f"{one['in']} {one['name']}": {"required": one.get("required", False), "schema": _bare(one["schema"])}
                for one in operation.get("parameters", ())
            },
            "body": _contents(operation.get("requestBody", {})),
            "body_required": operation.get("requestBody", {}).get("required", False),
            "responses": {
                status: _contents(one) for status, one in operation["responses"].items() if status.startswith("2")
            },
        }
        for path, item in openapi["paths"].items()
        for method, operation in item.items()
    }
    schemas = {name: _bare(schema) for name, schema in openapi["components"]["schemas"].items()}
    return {"operations": operations, "schemas": schemas}


def _contents(part: dict[str, Any]) -> dict[str, Any]:
    return {media_type: _bare(one.get("schema", {})) for media_type, one in part.get("content", {}).items()}


def _bare(schema: Any) -> Any:
    """Return a schema without its texts."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name not in _TEXTS}
    if isinstance(schema.get("properties"), dict):  # in which a field may be called `title`
        kept["properties"] = {name: _bare(one) for name, one in schema["properties"].items()}
    return {name: value if name == "properties" else _bare(value) for name, value in kept.items()}


@dataclass
class Comparison:
    """Compares two descriptions. `is_request`: of what clients send, instead of what they read."""

    old: dict[str, Any]
    new: dict[str, Any]
    is_request: bool = True
    _compared: set[str] = field(default_factory=set[str])

    def problems(self) -> Iterator[str]:
        """Yield what is incompatible, with its place."""
        for name, was in self.old["operations"].items():
            if (now := self.new["operations"].get(name)) is None:
                yield f"{name}: the operation is missing"
            else:
                yield from self._operation(name, was, now)

    def _operation(self, name: str, was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
        self.is_request = True
        if now["body_required"] and not was["body_required"]:
            yield f"{name}: the body is required"
        for parameter, is_now in now["parameters"].items():
            if is_now["required"] and not was["parameters"].get(parameter, {}).get("required", False):
                yield f"{name}: {parameter} is required"
        for parameter, before in was["parameters"].items():
            if parameter not in now["parameters"]:
                yield f"{name}: {parameter} is missing"
            else:
                yield from self._schema(
                    f"{name}: {parameter}", before["schema"], now["parameters"][parameter]["schema"]
                )
        yield from self._media(f"{name}: body", was["body"], now["body"])
        self.is_request = False
        for status, before in was["responses"].items():
            if status not in now["responses"]:
                yield f"{name}: response {status} is missing"
            else:
                yield from self._media(f"{name}: response", before, now["responses"][status])

    def _media(self, place: str, was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
        for media_type, schema in was.items():
            if media_type not in now:
                yield f"{place}: {media_type} is missing"
            else:
                yield from self._schema(place, schema, now[media_type])

    def _schema(self, place: str, was: Any, now: Any) -> Iterator[str]:
        pair = json.dumps([self.is_request, was, now], sort_keys=True)
        if pair in self._compared:
            return
        self._compared.add(pair)
        before, after = _alternatives(was, self.old["schemas"]), _alternatives(now, self.new["schemas"])
        wide, narrow = (after, before) if self.is_request else (before, after)
        if extra := _kinds(narrow) - _kinds(wide):
            yield f"{place}: {'no longer accepts' if self.is_request else 'may now be'} {', '.join(sorted(extra))}"
        for one in before:
            found = [list(self._alternative(place, one, other)) for other in after if _kinds([one]) & _kinds([other])]
            if found:
                yield from min(found, key=len)

    def _alternative(self, place: str, was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
        """Compare alternatives of the same kind."""
        fields, fields_now = was.get("properties", {}), now.get("properties", {})
        required, required_now = set(was.get("required", ())), set(now.get("required", ()))
        if fields.get("type", {}).get("const") != fields_now.get("type", {}).get("const"):
            yield f"{place}: type {fields.get('type', {}).get('const')} is missing"
            return
        for name in sorted(required_now - required if self.is_request else required - required_now):
            yield f"{place}.{name}: {'is required' if self.is_request else 'may be missing'}"
        is_open = self.is_request and now.get("additionalProperties", True) is not False
        for name, schema in fields.items():
            if name in fields_now:
                yield from self._schema(f"{place}.{name}", schema, fields_now[name])
            elif not (is_open and not fields_now):
                yield f"{place}.{name}: is missing"
        for inner in ("items", "additionalProperties"):
            if isinstance(was.get(inner), dict) and isinstance(now.get(inner), dict):
                yield from self._schema(f"{place}[]", was[inner], now[inner])
        if self.is_request:
            yield from self._limits(place, was, now)

    def _limits(self, place: str, was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
        values = set(map(str, was.get("enum", ()))) - set(map(str, now.get("enum", was.get("enum", ()))))
        if values or ("enum" in now and "enum" not in was):
            yield f"{place}: no longer accepts {', '.join(sorted(values)) or 'any value'}"
        for names, sign in ((_LOWER_IS_BREAKING, 1), (_HIGHER_IS_BREAKING, -1)):
            for name in names:
                if name in now and (name not in was or sign * now[name] < sign * was[name]):
                    yield f"{place}: {name} is {now[name]}, was {was.get(name)}"
        for name in ("pattern", "const"):
            if name in now and now[name] != was.get(name):
                yield f"{place}: {name} is {now[name]!r}, was {was.get(name)!r}"


def _alternatives(schema: Any, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives of a schema: without references, unions, and lists of types."""
    if not isinstance(schema, dict):
        return [{}]
    if "$ref" in schema:
        return _alternatives(schemas[schema["$ref"].rsplit("/", 1)[-1]], schemas)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return [one for part in schema[union] for one in _alternatives(part, schemas)]
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": kind} for kind in schema["type"]]
    return [schema]


def _kinds(alternatives: list[dict[str, Any]]) -> set[str]:
    kinds = {one.get("type") for one in alternatives}
    if None in kinds:  # any value, or a list of constants
        return _KINDS
    return kinds | {"integer"} if "number" in kinds else kinds


def released_api() -> dict[str, Any]:
    """Return the API of the last release."""
    return json.loads(RELEASED.read_text("utf-8"))


def _write(description: dict[str, Any]) -> None:
    parts: list[str] = []
    for part, entries in description.items():
        lines = [
            f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}" for name, one in sorted(entries.items())
        ]
        parts.append(f"{json.dumps(part)}:{{\n" + ",\n".join(lines) + "\n}")
    RELEASED.write_text("{" + ",\n".join(parts) + "}\n", "utf-8")


def main() -> None:
    from fieldmark.api.app import create_app
    from fieldmark.settings import Settings

    description = described(create_app(Settings(_env_file=None)).openapi())
    if sys.argv[1:] == ["--write"]:
        _write(description)
        print(f"Stored {len(description['operations'])} operations in {RELEASED}.")
        return
    found = list(Comparison(released_api(), description).problems())
    print("\n".join(found) or "Compatible with the last release.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
