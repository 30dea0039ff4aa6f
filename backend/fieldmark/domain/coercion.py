"""Values of the right content in the wrong JSON type, as weaker models write them: `"279.84"` for a number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from pydantic import JsonValue

from fieldmark.domain.fields import Missing, value_at
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.numbers import MAX_EXACT_DIGITS, digit_count
from fieldmark.domain.paths import Path
from fieldmark.domain.validation import validate
from fieldmark.errors import InvalidSchema

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?")
_ROUNDS: Final = 6
_MAX_INDEX: Final = 1000


def coerce(schema: JsonObject, at: Path, value: JsonValue) -> JsonValue:
    """Return a value that will be written at a path, each part of it in the JSON type that the schema says if that
    loses nothing: a number or a boolean that is written as text, an integer for a text, one item for a list of one or
    the other way round. Parts that would still break the schema stay as they are."""
    if any(isinstance(step, int) and step > _MAX_INDEX for step in at):
        return value
    fields = _wrap(at, value)
    tried: dict[Path, Iterator[JsonValue]] = {}
    try:
        for _ in range(_ROUNDS):
            before: dict[Path, JsonValue] = {}
            for path in _wrong_types(schema, fields):
                old = value_at(fields, path)
                if path[: len(at)] == at and path and not isinstance(old, Missing):
                    new = next(tried.setdefault(path, _candidates(old)), None)
                    if new is not None:
                        before[path] = old
                        fields = _put(fields, path, new)
            if not before:
                break
            for one in validate(schema, fields):
                if one.path in before:
                    fields = _put(fields, one.path, before.pop(one.path))
    except InvalidSchema:
        return value
    coerced = value_at(fields, at)
    return value if isinstance(coerced, Missing) else coerced


def _wrong_types(schema: JsonObject, fields: JsonValue) -> list[Path]:
    return [one.path for one in validate(schema, fields) if one.code in ("type", "anyOf", "oneOf")]


def _candidates(value: JsonValue) -> Iterator[JsonValue]:
    """Yield the values of other types with the same content. Whether one fits, the schema says."""
    if isinstance(value, list):
        if len(value) == 1:
            yield value[0]
            yield from _candidates(value[0])
        return
    if isinstance(value, str):
        if _NUMBER.fullmatch(value) and digit_count(number := Decimal(value)) <= MAX_EXACT_DIGITS:
            yield int(number) if number == number.to_integral_value() else float(number)
        elif value.lower() in ("true", "false"):
            yield value.lower() == "true"
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    if value is not None:
        yield [value]


def _wrap(at: Path, value: JsonValue) -> JsonValue:
    """Return fields with nothing but the value at a path."""
    for step in reversed(at):
        value = [*[None] * step, value] if isinstance(step, int) else {step: value}
    return value


def _put(fields: JsonValue, path: Path, value: JsonValue) -> JsonValue:
    """Return the fields with another value at a path that they have."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(fields, list) and isinstance(first, int):
        return [_put(one, rest, value) if place == first else one for place, one in enumerate(fields)]
    if isinstance(fields, dict):
        return {key: _put(one, rest, value) if key == first else one for key, one in fields.items()}
    return fields
