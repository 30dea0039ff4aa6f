"""JSON as Python holds it. `isinstance` narrows a JsonValue, so what has this type needs no cast and no Any."""

from __future__ import annotations

from typing import TypeAlias

from pydantic import JsonValue

JsonObject: TypeAlias = dict[str, JsonValue]


def as_object(value: JsonValue) -> JsonObject:
    """The value itself, or an empty object for what is none."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """The value itself, or an empty list for what is none."""
    return value if isinstance(value, list) else []
