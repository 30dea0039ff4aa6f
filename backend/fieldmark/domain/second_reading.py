"""A second reading of a document by another model: what it is asked for, and how it differs from the first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.fields import Missing, leaves, value_at
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.paths import EACH, Path, Pattern
from fieldmark.domain.scoring import ComparedValue, compare_values, is_same_value

DOUBTED_BELOW: Final = 0.95
"""A value with a lower confidence is read again in the mode `unsure`."""

_MAX_DOUBTED_COLUMNS: Final = 2
"""Doubted columns of a list that its key column is enough to pair rows by. With more, the whole list is read."""


_VENDORS: Final = {
    **dict.fromkeys(("claude", "anthropic"), "Anthropic"),
    **dict.fromkeys(("gpt", "openai", "chatgpt", "o1", "o3", "o4"), "OpenAI"),
    **dict.fromkeys(("gemini", "gemma", "google"), "Google"),
    **dict.fromkeys(("mistral", "magistral", "ministral", "pixtral"), "Mistral"),
    **dict.fromkeys(("llama", "meta"), "Meta"),
    **{name: name for name in ("qwen", "deepseek", "grok", "nova", "command", "glm", "kimi", "phi")},
}


def is_same_vendor(model: str, other: str) -> bool:
    """Return whether two models are of one vendor, by their names.

    >>> is_same_vendor("claude-sonnet-5", "eu.anthropic.claude-haiku-4-5"), is_same_vendor("claude-sonnet-5", "gpt-6")
    (True, False)
    """
    return model == other or (_vendor(model) is not None and _vendor(model) == _vendor(other))


def _vendor(model: str) -> str | None:
    words = re.findall(r"[a-z]+\d?", model.lower())
    return next((_VENDORS[key] for word in words for key in (word, word.rstrip("0123456789")) if key in _VENDORS), None)


@dataclass(frozen=True, slots=True)
class OtherValue:
    """The value of the second reading, at its path there. null: it has none."""

    value: JsonValue
    path: str


@dataclass(slots=True)
class ComparedReadings:
    """Two readings, compared by path name of the first.

    `differs` has the other value of each field that differs. `rows` has the number
    of rows in both readings of each list whose rows differ; the values in rows without a counterpart (`unpaired`)
    neither agree nor differ."""

    agrees: list[str] = field(default_factory=list[str])
    differs: dict[str, OtherValue] = field(default_factory=dict[str, OtherValue])
    rows: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    unpaired: list[str] = field(default_factory=list[str])


def compare_readings(first: Mapping[str, JsonValue], second: Mapping[str, JsonValue]) -> ComparedReadings:
    """Compare two readings of the same fields. Another form of the same value agrees (`is_same_value`); rows are paired
    if a third of their values agree.

    >>> compare_readings({"total": 12.5, "rows": [{"a": 1}]}, {"total": "12,50"})
    ComparedReadings(agrees=['total'], differs={}, rows={'rows': (1, 0)}, unpaired=['rows[0].a'])
    """
    result = ComparedReadings()
    for leaf in compare_values(dict(first), dict(second)):
        blanks = _is_blank(leaf.gold), _is_blank(leaf.got)
        if all(blanks):
            continue
        name = paths.name(leaf.gold_path)
        if (of_list := _list_with_other_rows(leaf, first, second)) is not None:
            result.rows[paths.name(of_list)] = _row_count(first, of_list), _row_count(second, of_list)
            if not blanks[0]:
                result.unpaired.append(name)
        elif not any(blanks) and (leaf.normalised or is_same_value(leaf.gold, _value(leaf.got))):
            result.agrees.append(name)
        else:
            result.differs[name] = OtherValue(_value(leaf.got), paths.name(leaf.got_path))
    return result


def _value(value: JsonValue | Missing) -> JsonValue:
    return None if isinstance(value, Missing) else value


def _is_blank(value: JsonValue | Missing) -> bool:
    return isinstance(value, Missing) or value is None or value in ("", [], {})


def _list_with_other_rows(
    leaf: ComparedValue, first: Mapping[str, JsonValue], second: Mapping[str, JsonValue]
) -> Path | None:
    """Return the list whose rows differ if a value is in a row that only one reading has."""
    if leaf.unpaired_item:
        return leaf.unpaired_item[:-1]
    for one, other in ((leaf.gold, leaf.got), (leaf.got, leaf.gold)):
        if isinstance(other, Missing) and not isinstance(one, Missing):
            path = leaf.gold_path
            depth = next((n for n, step in enumerate(path) if isinstance(step, int)), None)
            if depth is not None and 0 in (_row_count(first, path[:depth]), _row_count(second, path[:depth])):
                return path[:depth]
    return None


def _row_count(fields: Any, path: Path) -> int:
    found = value_at(dict(fields), path)
    return len(found) if isinstance(found, list) else 0


def pattern_of(name: str) -> str:
    """Return the pattern of a path name: `items[].price` of `items[2].price`."""
    return paths.name([EACH if isinstance(step, int) else step for step in paths.parse(name)])


def doubted_patterns(fields: Mapping[str, JsonValue], confidences: Mapping[str, Any]) -> list[str]:
    """Return the patterns of the fields with a doubted value, and of those that pair the rows of their lists."""
    doubted: dict[str, None] = {}
    texts: dict[str, set[str]] = {}
    for name, value in leaves(dict(fields)):
        if _is_blank(value):
            continue
        pattern = pattern_of(name)
        texts.setdefault(pattern, set()).add(str(value))
        if not float(confidences.get(name) or 0) >= DOUBTED_BELOW:
            doubted[pattern] = None
    for of_list in {one.rpartition("[]")[0] + "[]" for one in doubted if "[]" in one}:
        own = [one for one in doubted if one.startswith(of_list)]
        others = [one for one in texts if one.startswith(of_list) and one not in doubted]
        if len(own) > _MAX_DOUBTED_COLUMNS:
            doubted |= dict.fromkeys(others)
        elif others:
            doubted[max(others, key=lambda one: len(texts[one]))] = None
    return list(doubted)


def limited_fields(fields: Mapping[str, JsonValue], patterns: Collection[str] | None) -> dict[str, JsonValue]:
    """Return the fields at these patterns only. List items keep their indexes."""
    if patterns is None:
        return dict(fields)
    wanted = [paths.parse_pattern(one) for one in patterns]
    return as_object(_limited(dict(fields), wanted))


def _limited(value: JsonValue, wanted: list[Pattern]) -> JsonValue:
    if () in wanted:
        return value
    if isinstance(value, dict):
        below = {key: [one[1:] for one in wanted if one[0] == key] for key in value}
        return {key: _limited(child, below[key]) for key, child in value.items() if below[key]}
    if isinstance(value, list):
        return [_limited(child, [one[1:] for one in wanted if one[0] is EACH]) for child in value]
    return value


def asked_schema(
    schema: JsonObject | None, fields: Mapping[str, JsonValue], patterns: Collection[str] | None
) -> JsonObject:
    """Return the schema of a second reading: that of the extraction, or else the names and types of its fields, without
    their values. With `patterns`, only these fields."""
    whole = _shape(dict(fields)) if schema is None else schema
    return whole if patterns is None else _limited_schema(whole, [paths.parse_pattern(one) for one in patterns])


def _limited_schema(schema: JsonObject, wanted: Iterable[Pattern]) -> JsonObject:
    """Return a schema with the properties on these patterns. Where it has none, as at a `$ref`, it stays whole."""
    wanted = list(wanted)
    if () in wanted:
        return schema
    if isinstance(items := schema.get("items"), dict) and any(one[0] is EACH for one in wanted):
        return {**schema, "items": _limited_schema(items, [one[1:] for one in wanted if one[0] is EACH])}
    properties = as_object(schema.get("properties"))
    kept: JsonObject = {
        key: _limited_schema(as_object(child), below)
        for key, child in properties.items()
        if (below := [one[1:] for one in wanted if one[0] == key])
    }
    if not kept:
        return schema
    required = schema.get("required")
    needed: JsonObject = {"required": [key for key in required if key in kept]} if isinstance(required, list) else {}
    return {**schema, "properties": kept, **needed}


def _shape(value: JsonValue) -> JsonObject:
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: _shape(child) for key, child in value.items()}}
    if isinstance(value, list):
        merged: JsonObject = {}
        for child in value:
            merged = _merged_shapes(merged, _shape(child))
        return {"type": "array", "items": merged}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int | float):
        return {"type": "number"}
    return {"type": "string"} if isinstance(value, str) else {}


def _merged_shapes(one: JsonObject, other: JsonObject) -> JsonObject:
    if not one or not other:
        return one or other
    if "properties" in one and "properties" in other:
        ours, theirs = as_object(one["properties"]), as_object(other["properties"])
        both = {key: _merged_shapes(as_object(ours.get(key)), as_object(theirs.get(key))) for key in {**ours, **theirs}}
        return {"type": "object", "properties": dict(both)}
    return one if one == other else {}
