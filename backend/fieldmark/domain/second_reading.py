"""A second reading of a document by another model: what it is asked for, and how it differs from the first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.fields import Missing, leaves, value_at
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.paths import EACH, Path, Pattern
from fieldmark.domain.schema_walk import unknown_fields
from fieldmark.domain.scoring import ComparedValue, compare_values, is_same_value
from fieldmark.domain.validation import validate
from fieldmark.errors import InvalidSchema

DOUBTED_BELOW: Final = 0.95
"""A value with a lower confidence is read again in the mode `unsure`."""

_MAX_DOUBTED_COLUMNS: Final = 2
"""Doubted columns of a list that its key column is enough to pair rows by. With more, the whole list is read."""


_FAMILIES: Final = {
    **dict.fromkeys(("claude", "sonnet", "opus", "haiku"), "Anthropic"),
    **dict.fromkeys(("gpt", "chatgpt", "o1", "o3", "o4"), "OpenAI"),
    **dict.fromkeys(("gemini", "gemma"), "Google"),
    **dict.fromkeys(("mistral", "magistral", "ministral", "mixtral", "pixtral", "codestral"), "Mistral"),
    **dict.fromkeys(("llama",), "Meta"),
    **dict.fromkeys(("qwen", "qwq"), "Alibaba"),
    **dict.fromkeys(("deepseek",), "DeepSeek"),
    **dict.fromkeys(("grok",), "xAI"),
    **dict.fromkeys(("kimi",), "Moonshot"),
    **dict.fromkeys(("glm",), "Zhipu"),
    **dict.fromkeys(("minimax",), "MiniMax"),
    **dict.fromkeys(("nova",), "Amazon"),
    **dict.fromkeys(("command",), "Cohere"),
    **dict.fromkeys(("phi",), "Microsoft"),
}
"""The vendor of each family of models. Prefixes such as `openai/` are left out: they name a protocol."""

_DOMAINS: Final = {
    "anthropic.com": "Anthropic",
    "openai.com": "OpenAI",
    "mistral.ai": "Mistral",
    "deepseek.com": "DeepSeek",
    "x.ai": "xAI",
    **dict.fromkeys(("moonshot.ai", "moonshot.cn"), "Moonshot"),
    **dict.fromkeys(("z.ai", "bigmodel.cn"), "Zhipu"),
    "minimax.io": "MiniMax",
}
"""Services that have models of one vendor only."""


def is_same_vendor(model: str, other: str, url: str | None = None, other_url: str | None = None) -> bool | None:
    """Return whether two models are of one vendor, by their names, and else by the addresses of their services (None:
    Anthropic's). None: not known.

    >>> is_same_vendor("claude-sonnet-5", "eu.anthropic.claude-haiku-4-5"), is_same_vendor("claude-sonnet-5", "gpt-6")
    (True, False)
    >>> is_same_vendor("claude-sonnet-5", "local", other_url="http://127.0.0.1:4000") is None
    True
    """
    if model == other:
        return True
    one, two = _vendor(model, url), _vendor(other, other_url)
    return None if one is None or two is None else one == two


def _vendor(model: str, url: str | None) -> str | None:
    words = re.findall(r"[a-z]+\d?", model.lower())
    by_name = (_FAMILIES.get(word) or _FAMILIES.get(word.rstrip("0123456789")) for word in words)
    host = urlsplit(url or "https://api.anthropic.com").hostname or ""
    domain = ".".join(host.split(".")[-2:])
    return next(filter(None, by_name), None) or _DOMAINS.get(domain)


@dataclass(frozen=True, slots=True)
class OtherValue:
    """The value of the second reading, at its path there. null: it has none."""

    value: JsonValue
    path: str


@dataclass(slots=True)
class ComparedReadings:
    """Two readings, compared by path name of the first.

    `differs` has the other value of each field that differs. `rows` has the lists whose rows differ, as the second
    reading has them: the index of a row that both have, or a row that only the second has. The values in rows that only
    the first has (`unpaired`) neither agree nor differ."""

    agrees: list[str] = field(default_factory=list[str])
    differs: dict[str, OtherValue] = field(default_factory=dict[str, OtherValue])
    rows: dict[str, list[int | OtherValue]] = field(default_factory=dict[str, list[int | OtherValue]])
    unpaired: list[str] = field(default_factory=list[str])


def compare_readings(first: Mapping[str, JsonValue], second: Mapping[str, JsonValue]) -> ComparedReadings:
    """Compare two readings of the same fields. Another form of the same value agrees (`is_same_value`); rows are paired
    if a third of their values agree.

    >>> compare_readings({"total": 12.5, "rows": [{"a": 1}]}, {"total": "12,50"})
    ComparedReadings(agrees=['total'], differs={}, rows={'rows': []}, unpaired=['rows[0].a'])
    >>> compare_readings({"rows": [{"a": 1}]}, {"rows": [{"a": 2}, {"a": 1}]}).rows
    {'rows': [OtherValue(value={'a': 2}, path='rows[0]'), 0]}
    """
    result = ComparedReadings()
    lists: dict[Path, Path] = {}
    leaves = list(compare_values(dict(first), dict(second)))
    for leaf in leaves:
        blanks = _is_blank(leaf.gold), _is_blank(leaf.got)
        if all(blanks):
            continue
        name = paths.name(leaf.gold_path)
        if (depth := _depth_of_other_rows(leaf, first, second)) is not None:
            lists[leaf.gold_path[:depth]] = leaf.got_path[:depth]
            if not blanks[0]:
                result.unpaired.append(name)
        elif not any(blanks) and (leaf.normalised or is_same_value(leaf.gold, _value(leaf.got))):
            result.agrees.append(name)
        else:
            result.differs[name] = OtherValue(_value(leaf.got), paths.name(leaf.got_path))
    for path, other in lists.items():
        depth = len(path)
        pairs = {
            leaf.got_path[depth]: leaf.gold_path[depth]
            for leaf in leaves
            if leaf.gold_path[:depth] == path and len(leaf.gold_path) > depth and leaf.unpaired_item[:-1] != path
            if _rows(first, path)
        }
        rows = enumerate(_rows(second, other))
        result.rows[paths.name(path)] = [
            int(pairs[at]) if at in pairs else OtherValue(row, paths.name((*other, at))) for at, row in rows
        ]
    return result


def _value(value: JsonValue | Missing) -> JsonValue:
    return None if isinstance(value, Missing) else value


def _is_blank(value: JsonValue | Missing) -> bool:
    return isinstance(value, Missing) or value is None or value in ("", [], {})


def _depth_of_other_rows(
    leaf: ComparedValue, first: Mapping[str, JsonValue], second: Mapping[str, JsonValue]
) -> int | None:
    """Return the length of the path of the list whose rows differ, if a value is in a row that only one reading has."""
    if leaf.unpaired_item:
        return len(leaf.unpaired_item) - 1
    for depth, step in enumerate(leaf.gold_path):
        if isinstance(step, int) and not (
            _rows(first, leaf.gold_path[:depth]) and _rows(second, leaf.got_path[:depth])
        ):
            return depth
    return None


def _rows(fields: Mapping[str, JsonValue], path: Path) -> list[JsonValue]:
    found = value_at(dict(fields), path)
    return found if isinstance(found, list) else []


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


def described_fields(schema: JsonObject | None, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields without those that a schema neither describes nor allows.

    >>> described_fields({"properties": {"total": {}}}, {"total": 1, "note": {"a": 2}})
    {'total': 1}
    """
    if schema is None:
        return dict(fields)
    unknown = set(unknown_fields(schema, set(_places(dict(fields)))))
    return as_object(_without(dict(fields), unknown))


def bare_values(schema: JsonObject, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields with values that some models wrap in an object.

    >>> bare_values({"properties": {"total": {"type": "number"}}}, {"total": {"value": 10, "confidence": 0.9}})
    {'total': 10}
    """
    try:
        wrong = {one.path for one in validate(schema, dict(fields)) if one.code in ("type", "anyOf", "oneOf")}
    except InvalidSchema:
        return dict(fields)
    return {name: _bare(value, wrong, (name,)) for name, value in fields.items()}


def _bare(value: JsonValue, wrong: Collection[Path], at: Path) -> JsonValue:
    if isinstance(value, dict):
        if "value" in value and at in wrong:
            return value["value"]
        return {key: _bare(child, wrong, (*at, key)) for key, child in value.items()}
    if isinstance(value, list):
        return [_bare(child, wrong, (*at, place)) for place, child in enumerate(value)]
    return value


def _places(value: JsonValue, at: Path = ()) -> Iterator[Path]:
    """Yield the path of each value in a value. All items of a list are the first one."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield (*at, key)
            yield from _places(child, (*at, key))
    elif isinstance(value, list):
        for child in value:
            yield from _places(child, (*at, 0))


def _without(value: JsonValue, unknown: Collection[Path], at: Path = ()) -> JsonValue:
    if isinstance(value, dict):
        known = {key: child for key, child in value.items() if (*at, key) not in unknown}
        return {key: _without(child, unknown, (*at, key)) for key, child in known.items()}
    if isinstance(value, list):
        return [_without(child, unknown, (*at, 0)) for child in value]
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
