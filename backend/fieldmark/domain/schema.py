"""What a JSON Schema (Draft 2020-12) says of an extraction's fields."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from pydantic import JsonValue

from fieldmark.errors import Invalid

MAX_PROBLEMS = 20


def check_schema(schema: dict[str, Any]) -> None:
    """Raise Invalid with the place of the first fault if `schema` is no JSON Schema for an object.

    References may only point inside the schema: nothing is fetched.
    """
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Invalid(f"The schema is not a valid JSON Schema at {error.json_path}: {error.message[:300]}.") from None
    if schema.get("type", "object") != "object":
        raise Invalid('The schema must describe an object: its "type" must be "object".')
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise Invalid(f"The schema refers to {reference[:100]!r}; only references inside it (#/…) are followed.")


def _references(node: JsonValue) -> list[str]:
    if isinstance(node, dict):
        own = [value for key, value in node.items() if key in ("$ref", "$dynamicRef") and isinstance(value, str)]
        return own + [found for value in node.values() for found in _references(value)]
    if isinstance(node, list):
        return [found for value in node for found in _references(value)]
    return []


def problems(schema: dict[str, Any], fields: dict[str, JsonValue]) -> list[str]:
    """What of `fields` does not follow `schema`, a sentence each with its path, the first twenty of them."""
    validator: Any = Draft202012Validator(schema)
    found: list[ValidationError] = sorted(validator.iter_errors(fields), key=lambda error: error.json_path)
    return [f"{error.json_path.removeprefix('$').lstrip('.') or 'fields'}: {error.message[:300]}" for error in found][
        :MAX_PROBLEMS
    ]
