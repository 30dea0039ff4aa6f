from __future__ import annotations

from typing import Any

import pytest

from fieldmark.domain.schema_changes import MAX_FIELDS, compare_schemas
from fieldmark.errors import InvalidSchema

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def schema_of(root: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **(root or {})}


def reference_to(target: Any, at: str = "money") -> dict[str, Any]:
    return schema_of({"$defs": {at: target}}, total={"$ref": f"#/$defs/{at}"}, number=TEXT)


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
        # `additionalProperties: false` at the root removes no field.
        (schema_of(a=TEXT), schema_of({"additionalProperties": False}, a=TEXT), [], [], []),
    ],
)
def test_difference_is_reported_by_field(old, new, added, removed, changed):
    found = compare_schemas(old, new)
    assert (found.added, found.removed, found.changed) == (added, removed, changed)
    assert not found.everything and found.needs_reading == bool(added or changed)
    assert found.fields == [*added, *changed]


@pytest.mark.parametrize(
    "more", [{"allOf": [{"required": ["a"]}]}, {"additionalProperties": TEXT}, {"minProperties": 1}]
)
def test_root_keyword_affects_all_fields(more):
    found = compare_schemas(schema_of(a=TEXT), schema_of(more, a=TEXT))
    assert found.everything and found.needs_reading and found.fields is None


def test_changed_rules_need_no_reading():
    found = compare_schemas(
        schema_of(a=TEXT, b=TEXT), schema_of({"x-fieldmark": {"rules": [{"equals": ["a", "b"]}]}}, a=TEXT, b=TEXT)
    )
    assert found.rules and not found.needs_reading


def test_all_fields_are_read_if_too_many_or_unnameable():
    assert compare_schemas(schema_of(), schema_of(**{f"k{n}": TEXT for n in range(MAX_FIELDS)})).fields is not None
    assert compare_schemas(schema_of(), schema_of(**{f"k{n}": TEXT for n in range(MAX_FIELDS + 1)})).fields is None
    assert compare_schemas(schema_of(), schema_of(**{"x" * 5_000: TEXT})).fields is None


def test_circular_references_end():
    chain = schema_of(**{f"k{n}": {"$ref": f"#/properties/k{n + 1}"} for n in range(3_000)})
    doubled = schema_of({"$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}})
    doubled["properties"] = {"a": {"$ref": "#/$defs/d0"}}
    assert compare_schemas(chain, chain).fields is None  # too many to compare: all fields are read again
    assert compare_schemas(doubled, doubled).changed == []
    deep: Any = TEXT
    for _ in range(3_000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(InvalidSchema):
        compare_schemas(schema_of(a=deep), schema_of(a=TEXT))
