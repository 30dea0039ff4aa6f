"""Compare two versions of a schema by their top-level fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.paths import EACH, Pattern
from fieldmark.domain.rules import KEYWORD
from fieldmark.domain.schema_walk import References
from fieldmark.errors import InvalidPath, InvalidSchema

MAX_FIELDS: Final = 100
"""A run reads up to this many changed fields by name. If more changed, it reads all fields."""
_MAX_REFERENCES: Final = 200
_ANNOTATIONS: Final = frozenset(("title", "default", "examples", "$comment"))
# Root keywords that do not affect field values, or are compared separately.
_OTHER_ROOT_KEYWORDS: Final = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "unevaluatedProperties", "description"),
        *("$schema", "$id", "$defs", "definitions", KEYWORD),
    )
)

_Digest: TypeAlias = tuple[str, ...] | None
"""Equal for two schemas that define a field in the same way. None if unknown: a schema has too many references."""


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """How two versions differ in their top-level fields. `everything`: a root keyword differs that may affect any
    field, such as `allOf`. `rules`: the rules differ."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    everything: bool
    rules: bool

    @property
    def needs_reading(self) -> bool:
        """Whether documents are read again."""
        return bool(self.everything or self.added or self.changed)

    def affects(self, pattern: Pattern) -> bool:
        """Return whether the field at a pattern differs in the new version, or may differ."""
        return self.everything or pattern[0] in self.added or pattern[0] in self.changed

    @property
    def fields(self) -> list[str] | None:
        """The path names to read again, or None to read all fields."""
        names = [paths.name((key,)) for key in (*self.added, *self.changed)]
        is_all = self.everything or len(names) > MAX_FIELDS or not all(map(_is_path, names))
        return None if is_all else names


def compare_schemas(old: JsonObject, new: JsonObject) -> SchemaDifference:
    """Return how two versions of a schema differ. Titles, defaults and examples are ignored. Raise InvalidSchema if a
    schema is nested too deeply."""
    try:
        before, after = _Digests(as_object(_without_dropped(old, new))), _Digests(new)
        known, wanted = as_object(old.get("properties")), as_object(new.get("properties"))
        return SchemaDifference(
            added=[key for key in wanted if key not in known],
            removed=[paths.name(pattern) for pattern in _dropped(old, new)],
            changed=[key for key in wanted if key in known and _differ(before.field(key), after.field(key))],
            everything=_differ(before.rest(), after.rest()),
            rules=_rules(old) != _rules(new),
        )
    except RecursionError:
        raise InvalidSchema("The schema is nested too deeply to compare.") from None


class _Digests:
    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._references = References(schema)
        self._texts: dict[str, tuple[str, list[str]]] = {}

    def field(self, key: str) -> _Digest:
        required = self._schema.get("required")
        is_required = isinstance(required, list) and key in required
        return self._digest_of([as_object(self._schema.get("properties"))[key], is_required])

    def rest(self) -> _Digest:
        kept = {word: value for word, value in self._schema.items() if word not in _OTHER_ROOT_KEYWORDS}
        for word in ("additionalProperties", "unevaluatedProperties"):
            if isinstance(value := self._schema.get(word), dict):
                kept[word] = value
        return self._digest_of([kept, as_object(self._schema.get(KEYWORD)).get("grounded")])

    def _digest_of(self, node: JsonValue) -> _Digest:
        """Return the text of a node and of all definitions that it refers to."""
        text, waiting = _text_of(node)
        found: dict[str, str] = {}
        while waiting:
            reference = waiting.pop()
            if reference in found:
                continue
            if len(found) == _MAX_REFERENCES:
                return None
            if reference not in self._texts:
                self._texts[reference] = _text_of(self._resolve(reference))
            found[reference], further = self._texts[reference]
            waiting = [*waiting, *further]
        return (text, *sorted(reference + found[reference] for reference in found))

    def _resolve(self, reference: str) -> JsonValue:
        """Return what a reference leads to: the whole schema if that is not known."""
        found = self._references.find(reference)
        return self._schema if found is None else found


def _dropped(old: JsonValue, new: JsonValue, at: Pattern = ()) -> Iterator[Pattern]:
    """Yield the fields of a subschema that its new version lacks, without those below them."""
    old, new = as_object(old), as_object(new)
    before, after = as_object(old.get("properties")), as_object(new.get("properties"))
    for key, field in before.items():
        if key not in after:
            yield (*at, key)
        else:
            yield from _dropped(field, after[key], (*at, key))
    if "items" in old and "items" in new:
        yield from _dropped(old["items"], new["items"], (*at, EACH))


def _without_dropped(old: JsonValue, new: JsonValue) -> JsonValue:
    """Return a subschema without the fields that its new version lacks. Dropping a field changes no other."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old
    left = dict(old)
    before, after = old.get("properties"), new.get("properties")
    if isinstance(before, dict) and isinstance(after, dict):
        left["properties"] = {key: _without_dropped(field, after[key]) for key, field in before.items() if key in after}
        required = [key for key in as_list(left.pop("required", None)) if key not in before or key in after]
        if required:
            left["required"] = required
    if "items" in old and "items" in new:
        left["items"] = _without_dropped(old["items"], new["items"])
    return left


def _text_of(node: JsonValue) -> tuple[str, list[str]]:
    return json.dumps(_without_annotations(node), sort_keys=True), list(_references(node))


def _without_annotations(node: JsonValue) -> JsonValue:
    if isinstance(node, dict):
        # A field may be called "title": its value is a schema, an object.
        return {
            word: _without_annotations(value)
            for word, value in node.items()
            if word not in _ANNOTATIONS or isinstance(value, dict | bool)
        }
    return [_without_annotations(one) for one in node] if isinstance(node, list) else node


def _references(node: JsonValue) -> Iterator[str]:
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _references(value)
    if isinstance(node, dict):
        yield from (str(node[word]) for word in ("$ref", "$dynamicRef") if isinstance(node.get(word), str))


def _differ(before: _Digest, after: _Digest) -> bool:
    return before is None or before != after


def _rules(schema: JsonObject) -> JsonValue:
    return as_object(schema.get(KEYWORD)).get("rules", [])


def _is_path(name: str) -> bool:
    try:
        return bool(paths.parse(name))
    except InvalidPath:
        return False
