"""Two versions of a schema, compared by their top-level fields."""

from __future__ import annotations

from typing import Any

import pytest

from fieldmark.domain.schema_changes import MAX_FIELDS, compare_schemas
from fieldmark.errors import InvalidSchema

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def of(root: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **(root or {})}


def behind(target: Any, at: str = "money") -> dict[str, Any]:
    return of({"$defs": {at: target}}, total={"$ref": f"#/$defs/{at}"}, number=TEXT)


@pytest.mark.parametrize(
    ("old", "new", "added", "removed", "changed"),
    [
        (of(a=TEXT), of(a=TEXT, due=TEXT), ["due"], [], []),
        (of(a=TEXT, b=TEXT), of(a=TEXT), [], ["b"], []),
        (of(a=TEXT), of(a=NUMBER), [], [], ["a"]),
        (of(a=TEXT), of(a={**TEXT, "description": "Top right."}), [], [], ["a"]),
        (of(a=TEXT), of({"required": ["a"]}, a=TEXT), [], [], ["a"]),
        (of(a=TEXT), of(a={**TEXT, "x-fieldmark": {"grounded": True}}), [], [], ["a"]),
        # A title, a default and examples say nothing of a value; a field of such a name is a field.
        (of(a=TEXT), of({"title": "T"}, a={**TEXT, "title": "A", "default": "x", "examples": ["y"]}), [], [], []),
        (of(a=of(title=TEXT)), of(a=of(title=NUMBER)), [], [], ["a"]),
        # A change behind a reference changes the fields that lead there, and no others.
        (behind(TEXT), behind(NUMBER), [], [], ["total"]),
        (of(a={"$dynamicRef": "#b"}), of(a={"$dynamicRef": "#b"}, c=TEXT), ["c"], [], ["a"]),
        # A root that closes removes nothing by itself.
        (of(a=TEXT), of({"additionalProperties": False}, a=TEXT), [], [], []),
    ],
)
def test_a_difference_is_named_by_field(old, new, added, removed, changed):
    found = compare_schemas(old, new)
    assert (found.added, found.removed, found.changed) == (added, removed, changed)
    assert not found.everything and found.needs_reading == bool(added or changed)
    assert found.fields == [*added, *changed]


@pytest.mark.parametrize(
    "more", [{"allOf": [{"required": ["a"]}]}, {"additionalProperties": TEXT}, {"minProperties": 1}]
)
def test_a_keyword_at_the_root_concerns_all_fields(more):
    found = compare_schemas(of(a=TEXT), of(more, a=TEXT))
    assert found.everything and found.needs_reading and found.fields is None


def test_rules_are_compared_and_read_nothing():
    found = compare_schemas(
        of(a=TEXT, b=TEXT), of({"x-fieldmark": {"rules": [{"equals": ["a", "b"]}]}}, a=TEXT, b=TEXT)
    )
    assert found.rules and not found.needs_reading


def test_of_many_fields_or_one_that_no_path_names_all_are_read():
    assert compare_schemas(of(), of(**{f"k{n}": TEXT for n in range(MAX_FIELDS)})).fields is not None
    assert compare_schemas(of(), of(**{f"k{n}": TEXT for n in range(MAX_FIELDS + 1)})).fields is None
    assert compare_schemas(of(), of(**{"x" * 5_000: TEXT})).fields is None


def test_hostile_references_end_soon():
    chain = of(**{f"k{n}": {"$ref": f"#/properties/k{n + 1}"} for n in range(3_000)})
    doubled = of({"$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}})
    doubled["properties"] = {"a": {"$ref": "#/$defs/d0"}}
    assert compare_schemas(chain, chain).fields is None  # more than can be compared: read again
    assert compare_schemas(doubled, doubled).changed == []
    deep: Any = TEXT
    for _ in range(3_000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(InvalidSchema):
        compare_schemas(of(a=deep), of(a=TEXT))
