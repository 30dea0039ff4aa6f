"""Walking the nested fields of an extraction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import JsonValue

from fieldmark.domain import paths


class Nothing:
    """Stands for no value, since None is one."""


NOTHING: Final = Nothing()


def value_at(fields: JsonValue, segments: Sequence[str | int]) -> JsonValue | Nothing:
    """What stands at a path, or NOTHING."""
    for segment in segments:
        if isinstance(segment, int):
            if not isinstance(fields, list) or segment >= len(fields):
                return NOTHING
            fields = fields[segment]
        else:
            if not isinstance(fields, dict) or segment not in fields:
                return NOTHING
            fields = fields[segment]
    return fields


def leaves(fields: JsonValue, above: paths.Path = ()) -> Iterator[tuple[str, JsonValue]]:
    """(path name, value) of every scalar and every empty object or list below the root, in the order they stand."""
    for path, value in walk(fields, above):
        yield paths.name(path), value


def walk(fields: JsonValue, above: paths.Path = ()) -> Iterator[tuple[paths.Path, JsonValue]]:
    """(path, value) of what `leaves` yields."""
    if isinstance(fields, dict) and (fields or not above):
        for key, value in fields.items():
            yield from walk(value, (*above, key))
    elif isinstance(fields, list) and fields:
        for index, value in enumerate(fields):
            yield from walk(value, (*above, index))
    else:
        yield above, fields
