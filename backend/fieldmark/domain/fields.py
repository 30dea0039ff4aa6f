"""The nested fields of an extraction, accessed by path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

from pydantic import JsonValue

from valuegrounding import paths
from valuegrounding.paths import walk


@final
class Missing:
    """The type of MISSING, which means that there is no value. (None is a JSON value.)"""


MISSING: Final = Missing()


def value_at(fields: JsonValue, path: Sequence[str | int]) -> JsonValue | Missing:
    """Return the value at a path, or MISSING."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(fields, list) or step >= len(fields):
                return MISSING
            fields = fields[step]
        else:
            if not isinstance(fields, dict) or step not in fields:
                return MISSING
            fields = fields[step]
    return fields


def leaves(fields: JsonValue, parent: paths.Path = ()) -> Iterator[tuple[str, JsonValue]]:
    """Yield (path name, value) of every leaf, in document order. A leaf is a scalar, an empty object or an empty
    list."""
    for path, value in walk(fields, parent):
        yield paths.name(path), value


def has_fields(fields: JsonValue) -> bool:
    """Return whether there is a value: one that is not null, and not an empty object or list."""
    return any(value is not None and value not in ({}, []) for _, value in walk(fields))
