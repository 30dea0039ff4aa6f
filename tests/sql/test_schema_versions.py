"""Which fields differ between two versions of a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from psycopg.types.json import Jsonb
from role_connections import Roles

from fieldmark.domain.schema_changes import MAX_FIELDS, SchemaDifference

Compare: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], SchemaDifference]

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def schema_of(root: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **(root or {})}


def reference_to(target: Any, at: str = "money") -> dict[str, Any]:
    return schema_of({"$defs": {at: target}}, total={"$ref": f"#/$defs/{at}"}, number=TEXT)


@pytest.fixture
def compare(roles: Roles) -> Compare:
    def compare(old: dict[str, Any], new: dict[str, Any]) -> SchemaDifference:
        query = "select private.compare_schemas(%s, %s)"
        (found,) = roles.owner.execute(query, [Jsonb(old), Jsonb(new)]).fetchone() or ()
        return SchemaDifference.of(old, new, found)

    return compare


IN_LIST = {"items": schema_of(b={**NUMBER, "examples": [1]}, c=TEXT)}


@pytest.mark.parametrize(
    ("old", "new", "added", "removed", "changed"),
    [
        (schema_of(a=TEXT), schema_of(a=TEXT, due=TEXT), ["due"], [], []),
        (schema_of(a=TEXT, b=TEXT), schema_of(a=TEXT), [], ["b"], []),
        (schema_of(a=TEXT), schema_of(a=NUMBER), [], [], ["a"]),
        (schema_of(a=TEXT), schema_of(a={**TEXT, "description": "Top right."}), [], [], ["a"]),
        (schema_of(a=TEXT), schema_of({"required": ["a"]}, a=TEXT), [], [], ["a"]),
        (schema_of(a=TEXT), schema_of(a={**TEXT, "x-fieldmark": {"grounded": True}}), [], [], ["a"]),
        # Titles, defaults and examples are ignored, but fields with these names are not.
        (
            schema_of(a=TEXT),
            schema_of({"title": "T"}, a={**TEXT, "title": "A", "default": "x", "examples": ["y"]}),
            [],
            [],
            [],
        ),
        (schema_of(a=schema_of(title=TEXT)), schema_of(a=schema_of(title=NUMBER)), [], [], ["a"]),
        # A changed definition changes only the fields that refer to it.
        (reference_to(TEXT), reference_to(NUMBER), [], [], ["total"]),
        (schema_of(a={"$dynamicRef": "#b"}), schema_of(a={"$dynamicRef": "#b"}, c=TEXT), ["c"], [], ["a"]),
        (
            schema_of({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": TEXT}}, total={"$ref": "#/$defs/a"}, number=TEXT),
            schema_of({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": NUMBER}}, total={"$ref": "#/$defs/a"}, number=TEXT),
            [],
            [],
            ["total"],
        ),
        # A field that is dropped from a list or an object changes no other.
        (schema_of(l=IN_LIST), schema_of(l={"items": schema_of(c=TEXT)}), [], ["l[].b"], []),
        (schema_of(l={"items": schema_of(c=TEXT)}), schema_of(l=IN_LIST), [], [], ["l"]),
        (
            schema_of(l={"items": schema_of({"required": ["b", "c"]}, b=TEXT, c=TEXT)}),
            schema_of(l={"items": schema_of({"required": ["c"]}, c=TEXT)}),
            [],
            ["l[].b"],
            [],
        ),
        # Also where a keyword has another schema.
        (
            schema_of(a={"anyOf": [{**TEXT, "title": "A"}, NUMBER]}),
            schema_of(a={"anyOf": [{**TEXT, "title": "B"}, NUMBER]}),
            [],
            [],
            [],
        ),
        (schema_of(a={"anyOf": [TEXT, NUMBER]}), schema_of(a={"anyOf": [TEXT]}), [], [], ["a"]),
        # `additionalProperties: false` at the root removes no field.
        (schema_of(a=TEXT), schema_of({"additionalProperties": False}, a=TEXT), [], [], []),
    ],
)
def test_difference_is_reported_by_field(compare: Compare, old, new, added, removed, changed):
    found = compare(old, new)
    assert (found.added, found.removed, found.changed) == (added, removed, changed)
    assert not found.everything and found.needs_reading == bool(added or changed)
    assert found.fields == [*added, *changed]


@pytest.mark.parametrize(
    "more", [{"allOf": [{"required": ["a"]}]}, {"additionalProperties": TEXT}, {"minProperties": 1}]
)
def test_root_keyword_affects_all_fields(compare: Compare, more):
    found = compare(schema_of(a=TEXT), schema_of(more, a=TEXT))
    assert found.everything and found.needs_reading and found.fields is None


def test_changed_rules_need_no_reading(compare: Compare):
    found = compare(
        schema_of(a=TEXT, b=TEXT), schema_of({"x-fieldmark": {"rules": [{"equals": ["a", "b"]}]}}, a=TEXT, b=TEXT)
    )
    assert found.rules and not found.needs_reading


def test_all_fields_are_read_if_too_many_or_unnameable(compare: Compare):
    assert compare(schema_of(), schema_of(**{f"k{n}": TEXT for n in range(MAX_FIELDS)})).fields is not None
    assert compare(schema_of(), schema_of(**{f"k{n}": TEXT for n in range(MAX_FIELDS + 1)})).fields is None
    assert compare(schema_of(), schema_of(**{"x" * 5_000: TEXT})).fields is None


def test_circular_references_end(compare: Compare):
    chain = {f"k{n}": {"$ref": f"#/properties/k{(n + 1) % 300}"} for n in range(300)}
    assert compare(schema_of(**chain), schema_of(**chain)).changed == []
    assert len(compare(schema_of(**chain), schema_of(**{**chain, "k7": TEXT})).changed) == 300
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    last = [schema_of({"$defs": {**doubled, "d60": one}}, a={"$ref": "#/$defs/d0"}) for one in (TEXT, NUMBER)]
    assert compare(last[0], last[1]).changed == ["a"]
