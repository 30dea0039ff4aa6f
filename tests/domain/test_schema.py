from __future__ import annotations

import pytest

from fieldmark.domain import paths
from fieldmark.domain.schema import check_schema, violations, write_violations
from fieldmark.errors import Invalid


def schema_of(**properties) -> dict:
    return {"type": "object", "properties": properties}


def test_violations_have_the_path_of_the_field():
    schema = {**schema_of(total={"type": "number"}, vendor=schema_of(name={"type": "string"})), "required": ["total"]}
    check_schema(schema)
    assert violations(schema, {"total": 1.5, "vendor": {"name": "Acme"}}) == []
    found = violations(schema, {"vendor": {"name": 3}})
    assert [(one.code, one.path) for one in found] == [("required", ("total",)), ("type", ("vendor", "name"))]


def test_recursive_schema_is_accepted():
    schema = schema_of(part={"$ref": "#"}, name={"type": "string"})
    check_schema(schema)
    assert len(violations(schema, {"part": {"part": {"name": 3}}})) == 1


def test_unchecked_schema_is_checked_before_use():
    for use in (lambda schema: violations(schema, {}), lambda schema: write_violations(schema, {}, {}, [])):
        with pytest.raises(Invalid, match="inside"):
            use(schema_of(a={"$ref": "http://127.0.0.1:9/x"}))


def test_schema_and_rule_violations_are_reported_together():
    schema = {
        **schema_of(a={"type": "number"}, b={"type": "number"}, c={"type": "string"}),
        "x-fieldmark": {"rules": [{"equals": ["a", "b"]}]},
    }
    found = violations(schema, {"a": 1, "b": 2, "c": 3})
    assert [one.code for one in found] == ["type", "equals"]


def test_at_most_twenty_violations_are_listed_and_the_rest_counted():
    found = violations(schema_of(a={"items": {"type": "string"}}), {"a": [1] * 30})
    assert len(found) == 21 and (found[-1].code, found[-1].message) == ("more", "and 10 more")


GROUNDED = {
    **schema_of(total={"type": ["number", "null"], "x-fieldmark": {"grounded": True}}, note={"type": "string"}),
    "additionalProperties": {"x-fieldmark": {"grounded": True}},
}


@pytest.mark.parametrize(
    ("fields", "evidence", "missing"),
    [
        ({"total": 1}, {"total": {"state": "found"}}, []),
        ({"total": 1}, {"total": {"state": "not_found"}}, ["total"]),
        ({"total": 1}, {"total": {"quote": "1", "match": None}}, ["total"]),
        ({"total": 1}, {}, ["total"]),
        ({"total": None, "note": "x", "list": [], "object": {}}, {}, []),
        ({"rows": [{"a b": 1}, {"a b": 2}]}, {"rows[0].a b": {"state": "found"}}, ["rows[1].a b"]),
    ],
)
def test_grounded_fields_must_be_found_or_set_by_a_person(fields, evidence, missing):
    check_schema(GROUNDED)
    expected = violations(GROUNDED, fields, evidence)
    assert violations(GROUNDED, {"total": 1}, {}, {"total": {"by": "a"}}) == []  # set by a person
    assert [paths.name(one.path) for one in expected] == missing
    assert all(one.code == "grounded" and one.message.startswith(f"{paths.name(one.path)}: ") for one in expected)


STRICT = {
    **schema_of(
        name={"type": "string"},
        total={"type": "number"},
        items={"type": "array", "maxItems": 3, "items": schema_of(price={"type": "number"})},
    ),
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("before", "after", "written", "expected"),
    [
        ({}, {"total": "1"}, [("total",)], ["total"]),
        # An existing violation, and a write beside it, to it, below it, above it.
        ({"name": 1}, {"name": 1, "total": 2}, [("total",)], []),
        ({"name": 1}, {"name": 2}, [("name",)], ["name"]),
        ({"items": [{"price": "x"}]}, {"items": [{"price": "y"}]}, [("items", 0, "price")], ["items[0].price"]),
        ({}, {"items": {}}, [("items",)], ["items"]),
        ({"items": [{"price": "x"}]}, {"items": [{"price": "x"}, {"price": 1}]}, [("items", 1, "price")], []),
        ({"fax": 1}, {"fax": 1, "name": "A"}, [("name",)], []),
        ({"fax": 1}, {"fax": 1, "telex": 2}, [("telex",)], ["telex"]),
        # A violation that the write causes elsewhere.
        ({"items": [{}] * 3}, {"items": [{}] * 4}, [("items", 3, "x")], ["items"]),
        ({"items": [{}] * 4}, {"items": [{}] * 5}, [("items", 4, "x")], []),
        # Removing an item moves the existing violation up.
        ({"items": [{}, {"price": "x"}]}, {"items": [{"price": "x"}]}, [], []),
        ({"name": 1, "total": 1}, {"name": 1}, [], []),
    ],
)
def test_write_is_refused_only_for_violations_it_causes(before, after, written, expected):
    assert [paths.name(one.path) for one in write_violations(STRICT, before, after, written)] == expected


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array"}, "object"),
        ({"type": "nonsense"}, "not a valid JSON Schema"),
        (schema_of(a={"$ref": "https://example.com/schema"}), "inside"),
        (schema_of(a={"$ref": "#/$defs/none"}), "not in it"),
        ({"$ref": "#"}, "circle"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "properties": {}}, "circle"),
        (schema_of(a={"pattern": "("}), "pattern"),
        (schema_of(a={"pattern": "a" * 501}), "501 characters"),
        ({"patternProperties": {"(a|a)*$": {}}}, "patternProperties"),
        (schema_of(a={"$schema": "http://json-schema.org/draft-07/schema#"}), r"\$schema"),
        (schema_of(a={"x-fieldmark": {"grounded": "yes"}}), "x-fieldmark"),
        (schema_of(a={"x-fieldmark": {"second_reading": "all"}}), "x-fieldmark"),
        ({"x-fieldmark": {"second_reading": "sometimes"}}, "x-fieldmark"),
        (schema_of(a={"x-fieldmark": {"rules": []}}), "below its root"),
        ({"x-fieldmark": {"rules": [{"sum": "a"}]}}, r"rules\[0\]"),
        ({"x-fieldmark": {"rules": {}}}, '"rules" a list'),
        ({"$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(30)} | {"a30": {}}}, "long"),
    ],
)
def test_unusable_schema_is_refused(schema, why):
    with pytest.raises(Invalid, match=why):
        check_schema(schema)


def test_circular_references_are_refused() -> None:
    layers = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n - 1}"}] * 2} for n in range(1, 12)}
    many = {f"a{n}": {"$ref": "#/$defs/l11"} for n in range(1000)}
    schema = {"$defs": {"l0": {}, **layers, **many}, "properties": {name: {"$ref": f"#/$defs/{name}"} for name in many}}
    with pytest.raises(Invalid, match="takes too long"):
        check_schema(schema)
