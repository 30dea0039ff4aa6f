"""What a JSON Schema (Draft 2020-12) says of an extraction's fields. It comes from a tenant: it may be hostile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import regex
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]
from pydantic import JsonValue
from referencing.exceptions import Unresolvable

from fieldmark.errors import Invalid

MAX_PROBLEMS = 20
MAX_PATTERN_CHARACTERS = 500
PATTERN_SECONDS = 0.1


def check_schema(schema: dict[str, Any]) -> None:
    """Raise Invalid with the place of the first fault if `schema` is no JSON Schema for an object, usable here.

    References may only point inside the schema: nothing is fetched. Patterns are bounded in length and time.
    """
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Invalid(f"The schema is not a valid JSON Schema at {error.json_path}: {error.message[:300]}.") from None
    if schema.get("type", "object") != "object":
        raise Invalid('The schema must describe an object: its "type" must be "object".')
    if any(True for _ in _values(schema, "patternProperties")):
        raise Invalid("The schema uses patternProperties, which is not supported: name the properties.")
    for reference in [*_values(schema, "$ref"), *_values(schema, "$dynamicRef")]:
        if not str(reference).startswith("#"):
            raise Invalid(
                f"The schema refers to {str(reference)[:100]!r}; only references inside it (#/…) are followed."
            )
    for pattern in _values(schema, "pattern"):
        if isinstance(pattern, str):
            _check_pattern(pattern)
    _try_out(schema)


def problems(schema: dict[str, Any], fields: dict[str, JsonValue]) -> list[str]:
    """What of `fields` does not follow `schema`, a sentence each with its path, the first twenty of them."""
    validator: Any = _Validator(schema)
    found: list[ValidationError] = sorted(validator.iter_errors(fields), key=lambda error: error.json_path)
    return [f"{error.json_path.removeprefix('$').lstrip('.') or 'fields'}: {error.message[:300]}" for error in found][
        :MAX_PROBLEMS
    ]


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """The keyword `pattern`, with an end: a pattern may take longer than the age of the world."""
    if not isinstance(instance, str):
        return
    try:
        if regex.search(pattern, instance, timeout=PATTERN_SECONDS) is None:
            yield ValidationError(f"{instance[:100]!r} does not match {pattern[:100]!r}")
    except TimeoutError:
        yield ValidationError(f"the pattern {pattern[:100]!r} takes too long on {instance[:100]!r}")


_Validator: Any = extend(Draft202012Validator, {"pattern": _pattern})  # pyright: ignore[reportUnknownVariableType]


def _check_pattern(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise Invalid(
            f"A pattern in the schema has {len(pattern)} characters; at most {MAX_PATTERN_CHARACTERS} are taken."
        )
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise Invalid(f"The pattern {pattern[:100]!r} in the schema cannot be used: {error}.") from None


def _try_out(schema: dict[str, Any]) -> None:
    """A reference that leads nowhere, or round in a circle, shows only when it is followed: so each is, once."""
    validator: Any = _Validator(schema)
    try:
        for reference in _values(schema, "$ref"):
            list(validator.evolve(schema={"$ref": reference}).iter_errors({}))
        list(validator.iter_errors({}))
    except Unresolvable as error:
        raise Invalid(f"The schema refers to {str(error.ref)[:100]!r}, which is not in it.") from None
    except RecursionError:
        raise Invalid("The schema's references lead round in a circle.") from None


def _values(node: JsonValue, key: str) -> Iterator[JsonValue]:
    """Every value that stands under a key, at any depth."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from _values(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from _values(value, key)
